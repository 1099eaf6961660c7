import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.ReplicationPolicy;

/**
 * What MirrorMaker 2's client library says of a target: every method of RemoteClusterUtils, and of
 * MirrorClient, for each case. A case is one argument: alias, group, pattern of groups, and the client's
 * properties as name=value, joined by semicolons. Each answer is a line: case, method, answer.
 */
public final class MirrorClientAnswers {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        for (int number = 0; number < arguments.length; number++) {
            String[] parts = arguments[number].split(";");
            Map<String, Object> properties = new HashMap<>();
            for (int at = 3; at < parts.length; at++) {
                String[] property = parts[at].split("=", 2);
                properties.put(property[0], property[1]);
            }
            Pattern groups = Pattern.compile(parts[2]);
            utilities(number, properties, parts[0], parts[1], groups);
            try (MirrorClient client = new MirrorClient(properties)) {
                client(number, client, parts[0], parts[1], groups);
            }
        }
    }

    private static void utilities(
            int number, Map<String, Object> properties, String alias, String group, Pattern groups) throws Exception {
        String of = number + "\tRemoteClusterUtils.";
        say(of + "replicationHops", RemoteClusterUtils.replicationHops(properties, alias));
        say(of + "replicationHops of nobody", RemoteClusterUtils.replicationHops(properties, "nobody"));
        say(of + "heartbeatTopics", sorted(RemoteClusterUtils.heartbeatTopics(properties)));
        say(of + "checkpointTopics", sorted(RemoteClusterUtils.checkpointTopics(properties)));
        say(of + "upstreamClusters", sorted(RemoteClusterUtils.upstreamClusters(properties)));
        say(of + "translateOffsets", offsets(RemoteClusterUtils.translateOffsets(properties, alias, group, TIMEOUT)));
        RemoteClusterUtils.translateOffsets(properties, alias, groups, TIMEOUT)
            .forEach((name, found) -> say(of + "translateOffsets " + name, offsets(found)));
    }

    private static void client(int number, MirrorClient client, String alias, String group, Pattern groups)
            throws Exception {
        String of = number + "\tMirrorClient.";
        say(of + "replicationHops", client.replicationHops(alias));
        say(of + "heartbeatTopics", sorted(client.heartbeatTopics()));
        say(of + "checkpointTopics", sorted(client.checkpointTopics()));
        say(of + "upstreamClusters", sorted(client.upstreamClusters()));
        say(of + "remoteTopics", sorted(client.remoteTopics()));
        say(of + "remoteTopics of source", sorted(client.remoteTopics(alias)));
        say(of + "remoteConsumerOffsets", offsets(client.remoteConsumerOffsets(group, alias, TIMEOUT)));
        client.remoteConsumerOffsets(groups, alias, TIMEOUT)
            .forEach((name, found) -> say(of + "remoteConsumerOffsets " + name, offsets(found)));
        ReplicationPolicy policy = client.replicationPolicy();
        say(of + "replicationPolicy checkpointsTopic", policy.checkpointsTopic(alias));
        say(of + "replicationPolicy offsetSyncsTopic", policy.offsetSyncsTopic(alias));
        say(of + "replicationPolicy heartbeatsTopic", policy.heartbeatsTopic());
        say(of + "replicationPolicy formatRemoteTopic", policy.formatRemoteTopic(alias, policy.heartbeatsTopic()));
    }

    private static Collection<String> sorted(Collection<String> names) {
        return new TreeSet<>(names);
    }

    /** As topic-partition=offset/metadata, ordered. */
    private static Collection<String> offsets(Map<TopicPartition, OffsetAndMetadata> found) {
        TreeMap<String, String> ordered = new TreeMap<>();
        found.forEach((partition, offset) ->
            ordered.put(partition.toString(), partition + "=" + offset.offset() + "/" + offset.metadata()));
        return ordered.values();
    }

    private static void say(String what, Object answer) {
        String text = answer instanceof Collection<?> many
            ? String.join(",", many.stream().map(String::valueOf).toList())
            : String.valueOf(answer);
        System.out.println(what + "\t" + text);
    }
}
