import java.nio.file.Files;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/**
 * A Kafka Streams application with exactly-once processing: reads records, writes two for each of them
 * but those that it filters out, and ends when it has read {@code count}. It commits after each poll,
 * and a poll gives few records, so that it makes many small transactions.
 */
public final class ExactlyOnceStreams {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String input = arguments[1];
        String output = arguments[2];
        CountDownLatch unread = new CountDownLatch(Integer.parseInt(arguments[3]));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-" + output);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> read = builder.<String, String>stream(input).peek((key, value) -> unread.countDown());
        KStream<String, String> kept = read.filterNot((key, value) -> value.endsWith("7"));
        kept.mapValues(value -> value.toUpperCase(Locale.ROOT)).to(output);
        kept.mapValues(value -> value + " once more").to(output);

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        boolean all = unread.await(60, TimeUnit.SECONDS);
        streams.close();
        streams.cleanUp();
        if (!all) {
            System.err.println(unread.getCount() + " records were not read.");
            System.exit(1);
        }
    }
}
