import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * Remote storage (KIP-405) in a folder, which is slow as long as the folder has a file "delay-ms" (with so many
 * milliseconds), and fails as long as it has a file "fail".
 */
public class FolderStorage implements RemoteStorageManager {
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("folder"));
    }

    @Override
    public void close() {
    }

    @Override
    public Optional<RemoteLogSegmentMetadata.CustomMetadata> copyLogSegmentData(
            RemoteLogSegmentMetadata metadata, LogSegmentData data) throws RemoteStorageException {
        try {
            Path segment = Files.createDirectories(place(metadata));
            Files.copy(data.logSegment(), segment.resolve("log"));
            Files.copy(data.offsetIndex(), segment.resolve(IndexType.OFFSET.name()));
            Files.copy(data.timeIndex(), segment.resolve(IndexType.TIMESTAMP.name()));
            if (data.transactionIndex().isPresent()) {
                Files.copy(data.transactionIndex().get(), segment.resolve(IndexType.TRANSACTION.name()));
            }
            Files.copy(data.producerSnapshotIndex(), segment.resolve(IndexType.PRODUCER_SNAPSHOT.name()));
            byte[] epochs = new byte[data.leaderEpochIndex().remaining()];
            data.leaderEpochIndex().duplicate().get(epochs);
            Files.write(segment.resolve(IndexType.LEADER_EPOCH.name()), epochs);
            return Optional.empty();
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start)
            throws RemoteStorageException {
        return fetchLogSegment(metadata, start, Integer.MAX_VALUE);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        try {
            Path delay = folder.resolve("delay-ms");
            if (Files.exists(delay)) {
                Thread.sleep(Long.parseLong(Files.readString(delay).strip()));
            }
            if (Files.exists(folder.resolve("fail"))) {
                throw new RemoteStorageException("told to fail");
            }
            byte[] log = Files.readAllBytes(place(metadata).resolve("log"));
            int last = end == Integer.MAX_VALUE ? log.length : Math.min(log.length, end + 1);
            return new ByteArrayInputStream(Arrays.copyOfRange(log, Math.min(start, last), last));
        } catch (IOException | InterruptedException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type)
            throws RemoteStorageException {
        Path index = place(metadata).resolve(type.name());
        if (!Files.exists(index)) {
            throw new RemoteResourceNotFoundException("no " + type);
        }
        try {
            return new ByteArrayInputStream(Files.readAllBytes(index));
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        Path segment = place(metadata);
        if (!Files.exists(segment)) {
            return;
        }
        try (Stream<Path> files = Files.list(segment)) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
            Files.delete(segment);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    private Path place(RemoteLogSegmentMetadata metadata) {
        return folder.resolve(metadata.remoteLogSegmentId().id().toString());
    }
}
