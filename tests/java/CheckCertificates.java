import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Another checker of certificates, written from docs/certificates.md alone: java CheckCertificates.java KEY FOLDER...
 *
 * <p>Each folder has a chain, by its files' names. A line of three dashes stands before what is said of each chain, and
 * its last line is 0 if the chain holds, otherwise 1.
 */
class CheckCertificates {

    public static void main(String[] args) throws Exception {
        String pem = Files.readString(Path.of(args[0])).replaceAll("-----[A-Z ]+-----|\\s", "");
        PublicKey key = KeyFactory.getInstance("Ed25519")
            .generatePublic(new X509EncodedKeySpec(Base64.getDecoder().decode(pem)));
        for (String folder : Arrays.copyOfRange(args, 1, args.length)) {
            try (Stream<Path> files = Files.list(Path.of(folder))) {
                System.out.println("---");
                System.out.println(holds(key, files.sorted().toList()) ? 0 : 1);
            }
        }
    }

    private static boolean holds(PublicKey key, List<Path> files) throws Exception {
        String previous = "";
        boolean whole = true;
        boolean isAnySigned = false;
        // Until where the chain was pruned, by the newest certificate, whose signature is checked below.
        String newest = text(lines(Files.readAllBytes(files.get(files.size() - 1))).get(0));
        Matcher pruned = Pattern.compile("\"pruned\":\\{\"through\":(\\d+),\"hash\":\"([0-9a-f]{64})\"").matcher(newest);
        if (pruned.find()) {
            String first = text(lines(Files.readAllBytes(files.get(0))).get(0));
            Matcher serial = Pattern.compile("\"serial\":(\\d+)").matcher(first);
            if (serial.find() && Long.parseLong(serial.group(1)) == Long.parseLong(pruned.group(1)) + 1) {
                previous = pruned.group(2);
                System.out.println("pruned until " + pruned.group(1));
            }
        }
        for (Path file : files) {
            byte[] content = Files.readAllBytes(file);
            List<byte[]> lines = lines(content);
            byte[] header = lines.get(0);
            byte[] last = lines.get(lines.size() - 1);
            String fault = "";
            String said = "holds";
            if (!text(last).startsWith("{\"signature\":")) {
                // Before the flow had a key: a signed one that follows pins its header, which names no key.
                boolean isBeginning = !isAnySigned && field(header, "key").isEmpty();
                fault = isBeginning ? "" : "unsigned";
                said = "proves nothing";
            } else {
                isAnySigned = true;
                lines.remove(lines.size() - 1);
                Signature signature = Signature.getInstance("Ed25519");
                signature.initVerify(key);
                signature.update(header);
                if (!isOf(key, signature, last)) {
                    fault = "signature";
                }
            }
            String root = HexFormat.of().formatHex(root(lines.subList(1, lines.size())));
            if (!root.equals(field(header, "root"))) {
                fault = "root";
            } else if (content[content.length - 1] != '\n') {
                fault = "no line feed at the end";
            } else if (!previous.equals(field(header, "previous"))) {
                fault = "chain";
            }
            if (fault.isEmpty() && witnessed(List.of(header)) != witnessed(lines.subList(1, lines.size()))) {
                fault = "witnessed";
            }
            previous = HexFormat.of().formatHex(sha256(header));
            System.out.println(fault.isEmpty() ? said : fault);
            whole &= fault.isEmpty();
        }
        if (!isAnySigned) {
            System.out.println("all unsigned");
        }
        return whole && isAnySigned;
    }

    /** How many offsets without a record the lines say were looked up on the source. */
    private static long witnessed(List<byte[]> lines) {
        long found = 0;
        for (byte[] line : lines) {
            Matcher count = Pattern.compile("\"witnessed\":(\\d+)").matcher(text(line));
            found += count.find() ? Long.parseLong(count.group(1)) : 0;
        }
        return found;
    }

    /** Whether the line has a signature that holds, in the only form that the format allows. */
    private static boolean isOf(PublicKey key, Signature signature, byte[] line) throws Exception {
        byte[] value;
        try {
            value = Base64.getDecoder().decode(field(line, "value"));
            if (!signature.verify(value)) {
                return false;
            }
        } catch (IllegalArgumentException | SignatureException wrong) {
            return false;
        }
        return text(line).equals("{\"signature\":{\"algorithm\":\"Ed25519\",\"key\":\""
            + HexFormat.of().formatHex(sha256(key.getEncoded())) + "\",\"value\":\""
            + Base64.getEncoder().encodeToString(value) + "\"}}");
    }

    private static List<byte[]> lines(byte[] content) {
        List<byte[]> lines = new ArrayList<>();
        int start = 0;
        for (int at = 0; at < content.length; at++) {
            if (content[at] == '\n') {
                lines.add(Arrays.copyOfRange(content, start, at));
                start = at + 1;
            }
        }
        return lines;
    }

    private static byte[] root(List<byte[]> leaves) throws Exception {
        if (leaves.size() == 1) {
            return sha256(new byte[] {0}, leaves.get(0));
        }
        int split = Integer.highestOneBit(leaves.size() - 1);
        return sha256(
            new byte[] {1}, root(leaves.subList(0, split)), root(leaves.subList(split, leaves.size())));
    }

    private static byte[] sha256(byte[]... parts) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (byte[] part : parts) {
            digest.update(part);
        }
        return digest.digest();
    }

    private static String field(byte[] line, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(text(line));
        return found.find() ? found.group(1) : "";
    }

    private static String text(byte[] line) {
        return new String(line, StandardCharsets.UTF_8);
    }
}
