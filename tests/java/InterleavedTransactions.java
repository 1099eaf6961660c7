import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers that write to the same partitions at the same time. In each round every one
 * of them begins a transaction, their batches alternate, and they end in another order than they began;
 * each third transaction is aborted.
 */
public final class InterleavedTransactions {
    private static final int BATCHES = 3;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int writers = Integer.parseInt(arguments[3]);
        int rounds = Integer.parseInt(arguments[4]);

        List<KafkaProducer<String, String>> producers = new ArrayList<>();
        for (int writer = 0; writer < writers; writer++) {
            producers.add(producer(bootstrap, topic + "-" + writer));
        }
        int transaction = 0;
        for (int round = 0; round < rounds; round++) {
            producers.forEach(KafkaProducer::beginTransaction);
            for (int batch = 0; batch < BATCHES; batch++) {
                for (int writer = 0; writer < writers; writer++) {
                    for (int partition = 0; partition < partitions; partition++) {
                        String value = "round " + round + ", writer " + writer + ", batch " + batch;
                        producers.get(writer).send(new ProducerRecord<>(topic, partition, "writer " + writer, value));
                    }
                    producers.get(writer).flush();
                }
            }
            for (int writer = 0; writer < writers; writer++) {
                KafkaProducer<String, String> next = producers.get((round + writer) % writers);
                if (transaction++ % 3 == 1) {
                    next.abortTransaction();
                } else {
                    next.commitTransaction();
                }
            }
        }
        // The broker answers before it has written the markers; the next login waits for them.
        for (int writer = 0; writer < writers; writer++) {
            producers.get(writer).close();
            producer(bootstrap, topic + "-" + writer).close();
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
        settings.put(ProducerConfig.RETRY_BACKOFF_MS_CONFIG, 10);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }
}
