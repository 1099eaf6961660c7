import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What java.util.regex.Pattern says of each line of a file: a pattern and a text, in Base64, with a
 * space between them. An answer is a line: error, false, or true with the groups in Base64.
 */
public final class PatternAnswers {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ", -1);
            out.println(answer(text(parts[0]), text(parts[1])));
        }
        out.flush();
    }

    private static String answer(String pattern, String text) {
        try {
            Matcher matcher = Pattern.compile(pattern).matcher(text);
            if (!matcher.matches()) {
                return "false";
            }
            StringBuilder found = new StringBuilder("true");
            for (int group = 1; group <= matcher.groupCount(); group++) {
                String what = matcher.group(group);
                found.append(' ').append(what == null ? "-" : encoded(what));
            }
            return found.toString();
        } catch (IllegalArgumentException error) {
            return "error";
        } catch (StackOverflowError error) {
            return "error";
        }
    }

    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
