import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * What Kafka's authorizer says of the clients and resources in a file. Its fields are separated by tabs.
 * A line "acls" begins with another set; "acl" adds one to it: resource type, name, pattern type,
 * principal, host, operation, permission; "load" ends it. A line "ask" has a resource's type and name, then principals,
 * hosts and operations, each list with blanks between. Its answer is a line: 1 or 0 for each principal,
 * host and operation, in the order of nested loops.
 */
public final class AuthorizerAnswers {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of());
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", -1);
            switch (parts[0]) {
                case "acls" -> acls.clear();
                case "acl" -> acls.put(Uuid.randomUuid(), acl(parts));
                case "load" -> authorizer.loadSnapshot(acls);
                default -> out.println(answer(authorizer, parts));
            }
        }
        out.flush();
    }

    private static StandardAcl acl(String[] parts) {
        return new StandardAcl(
            ResourceType.valueOf(parts[1]), parts[2], PatternType.valueOf(parts[3]), parts[4], parts[5],
            AclOperation.valueOf(parts[6]), AclPermissionType.valueOf(parts[7]));
    }

    private static String answer(StandardAuthorizer authorizer, String[] parts) throws Exception {
        ResourcePattern resource =
            new ResourcePattern(ResourceType.valueOf(parts[1]), parts[2], PatternType.LITERAL);
        List<Action> actions = List.of(parts[5].split(" ")).stream()
            .map(operation -> new Action(AclOperation.valueOf(operation), resource, 1, false, false))
            .toList();
        StringBuilder answer = new StringBuilder();
        for (String principal : parts[3].split(" ")) {
            for (String host : parts[4].split(" ")) {
                for (AuthorizationResult it : authorizer.authorize(client(principal, host), actions)) {
                    answer.append(it == AuthorizationResult.ALLOWED ? '1' : '0');
                }
            }
        }
        return answer.toString();
    }

    private static AuthorizableRequestContext client(String name, String host) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(name);
        InetAddress address = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            @Override
            public String listenerName() {
                return "";
            }

            @Override
            public SecurityProtocol securityProtocol() {
                return SecurityProtocol.PLAINTEXT;
            }

            @Override
            public KafkaPrincipal principal() {
                return principal;
            }

            @Override
            public InetAddress clientAddress() {
                return address;
            }

            @Override
            public int requestType() {
                return 0;
            }

            @Override
            public int requestVersion() {
                return 0;
            }

            @Override
            public String clientId() {
                return "";
            }

            @Override
            public int correlationId() {
                return 0;
            }
        };
    }
}
