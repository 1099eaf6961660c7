import java.nio.file.Files;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/**
 * A Kafka Streams application in a group of the streams protocol (KIP-1071): reads {@code count} records
 * of a topic, commits, and prints "partition offset" of the first one that it read of each partition.
 */
public final class StreamsGroup {
    public static void main(String[] arguments) throws Exception {
        CountDownLatch unread = new CountDownLatch(Integer.parseInt(arguments[3]));
        Map<Integer, Long> first = new TreeMap<>();

        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(arguments[2]).process(() -> new Processor<byte[], byte[], Void, Void>() {
            private ProcessorContext<Void, Void> context;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                this.context = context;
            }

            @Override
            public void process(Record<byte[], byte[]> record) {
                context.recordMetadata().ifPresent(it -> first.putIfAbsent(it.partition(), it.offset()));
                unread.countDown();
            }
        });

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        boolean all = unread.await(60, TimeUnit.SECONDS);
        streams.close();
        streams.cleanUp();
        first.forEach((partition, offset) -> System.out.println(partition + " " + offset));
        if (!all) {
            System.err.println(unread.getCount() + " records were not read.");
            System.exit(1);
        }
    }
}
