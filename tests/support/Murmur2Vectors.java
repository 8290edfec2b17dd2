import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.utils.Utils;

/**
 * Prints the hashes of sample keys, made by kafka-clients itself, as JSON for tests/unit/vectors/murmur2.json.
 *
 * <pre>
 * java -cp kafka-clients-4.2.1.jar:slf4j-api-1.7.36.jar tests/support/Murmur2Vectors.java > tests/unit/vectors/murmur2.json
 * </pre>
 */
public final class Murmur2Vectors {
    private static List<byte[]> keys() {
        List<byte[]> keys = new ArrayList<>();
        keys.add(new byte[0]);
        for (int length = 1; length <= 9; length++) {
            keys.add("123456789".substring(0, length).getBytes(StandardCharsets.UTF_8));
            byte[] high = new byte[length];
            for (int i = 0; i < length; i++) {
                high[i] = (byte) (0xFF - i);
            }
            keys.add(high);
        }
        for (String text : List.of("order-1", "ORD-2025-000001", "订单-１２３", "订单-123", "café-7", "cafe\u0301-7", "заказ-42", "🧾", "\0")) {
            keys.add(text.getBytes(StandardCharsets.UTF_8));
        }
        Random random = new Random(20250303);
        for (int length : new int[] {16, 17, 18, 19, 31, 64, 127, 255, 1000}) {
            byte[] key = new byte[length];
            random.nextBytes(key);
            keys.add(key);
        }
        return keys;
    }

    public static void main(String[] args) {
        List<String> rows = new ArrayList<>();
        for (byte[] key : keys()) {
            int hash = Utils.murmur2(key);
            rows.add(String.format("  {\"key\": \"%s\", \"murmur2\": %d, \"positive\": %d}",
                HexFormat.of().formatHex(key), hash, Utils.toPositive(hash)));
        }
        System.out.println("[\n" + String.join(",\n", rows) + "\n]");
    }
}
