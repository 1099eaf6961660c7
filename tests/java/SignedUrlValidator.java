import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Lets into a broker who shows what Amazon MSK's IAM wants to see: a URL of the action kafka-cluster:Connect,
 * signed with AWS's Signature Version 4. Knows one key, whose id, secret and region are options of the login
 * module; the id is the client's principal.
 */
public class SignedUrlValidator implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter AT =
        DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);

    private String id;
    private String secret;
    private String region;

    private record Token(String value, String principalName, Long startTimeMs, long lifetimeMs)
        implements OAuthBearerToken {
        @Override public Set<String> scope() {
            return Set.of();
        }
    }

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
        Map<String, ?> options = entries.get(0).getOptions();
        id = (String) options.get("keyId");
        secret = (String) options.get("secret");
        region = (String) options.get("region");
    }

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback shown) {
                try {
                    shown.token(checked(shown.tokenValue()));
                } catch (Exception refused) {
                    shown.error("invalid_token", null, null);
                    System.err.println("refused: " + refused.getMessage());
                }
            } else if (!(callback instanceof OAuthBearerExtensionsValidatorCallback)) {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    @Override
    public void close() { }

    private OAuthBearerToken checked(String value) throws Exception {
        URI url = URI.create(new String(Base64.getUrlDecoder().decode(value), StandardCharsets.UTF_8));
        Map<String, String> query = new TreeMap<>();
        for (String pair : url.getRawQuery().split("&")) {
            int at = pair.indexOf('=');
            query.put(decoded(pair.substring(0, at)), decoded(pair.substring(at + 1)));
        }
        String signature = query.remove("X-Amz-Signature");
        // Added after the signing.
        query.remove("User-Agent");
        String date = query.get("X-Amz-Date");
        String scope = date.substring(0, 8) + "/" + region + "/kafka-cluster/aws4_request";
        expect(url.getScheme(), "https");
        expect(url.getHost(), "kafka." + region + ".amazonaws.com");
        expect(query.get("Action"), "kafka-cluster:Connect");
        expect(query.get("X-Amz-Algorithm"), "AWS4-HMAC-SHA256");
        expect(query.get("X-Amz-Credential"), id + "/" + scope);
        expect(query.get("X-Amz-SignedHeaders"), "host");
        expect(signature, signature(url.getHost(), query, date, scope));
        Instant made = AT.parse(date, Instant::from);
        Instant ends = made.plus(Duration.ofSeconds(Long.parseLong(query.get("X-Amz-Expires"))));
        if (Instant.now().isAfter(ends)) {
            throw new IllegalArgumentException("it has expired");
        }
        return new Token(value, id, made.toEpochMilli(), ends.toEpochMilli());
    }

    private String signature(String host, Map<String, String> query, String date, String scope) throws Exception {
        List<String> pairs = new ArrayList<>();
        query.forEach((name, value) -> pairs.add(encoded(name) + "=" + encoded(value)));
        String request = String.join("\n", "GET", "/", String.join("&", pairs), "host:" + host, "", "host", hash(""));
        byte[] key = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : scope.split("/")) {
            key = mac(key, part);
        }
        String signed = String.join("\n", "AWS4-HMAC-SHA256", date, scope, hash(request));
        return HexFormat.of().formatHex(mac(key, signed));
    }

    private static void expect(String shown, String wanted) {
        if (!wanted.equals(shown)) {
            throw new IllegalArgumentException(shown + " is not " + wanted);
        }
    }

    private static String hash(String text) throws Exception {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static byte[] mac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }
}
