package ticdc;

import java.util.Arrays;

import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.catalyst.expressions.GenericRow;

/** The events of a record of the Open protocol: the function of `framing.py`. */
public class OpenFraming implements UDF2 {
    private static final int LENGTH_BYTES = 8;
    /** Of an object: so that many zeros are not many events. */
    private static final int LEAST_KEY = 2;

    public Object call(Object key, Object value) {
        Object[] apart = key == null || value == null ? null : events((byte[]) key, (byte[]) value);
        return apart != null ? apart : new Object[] {event(0, (byte[]) key, (byte[]) value, false)};
    }

    /** Null where the record is framed otherwise. */
    private static Object[] events(byte[] key, byte[] value) {
        if (key.length < LENGTH_BYTES || key[0] < 0 || number(key, 4) != 1) {
            return null;
        }
        int first = number(key, 0);
        int count = 0;
        for (int at = LENGTH_BYTES, of = 0; at < key.length || of < value.length; count++) {
            int length = length(key, at);
            at = length < LEAST_KEY ? -1 : end(key, at);
            of = end(value, of);
            if (at < 0 || of < 0) {
                return null;
            }
        }
        if (count == 0 || first > Integer.MAX_VALUE - count + 1) {
            return null;
        }
        if (count == 1) {
            return new Object[] {event(first, key, value, true)};
        }
        Object[] events = new Object[count];
        for (int number = 0, at = LENGTH_BYTES, of = 0; number < count; number++) {
            int atEnd = end(key, at);
            int ofEnd = end(value, of);
            byte[] own = Arrays.copyOfRange(key, at - LENGTH_BYTES, atEnd);
            for (int octet = 0; octet < 4; octet++) {
                own[octet] = (byte) (first + number >>> 24 - 8 * octet);
                own[4 + octet] = key[4 + octet];
            }
            events[number] = event(first + number, own, Arrays.copyOfRange(value, of, ofEnd), true);
            at = atEnd;
            of = ofEnd;
        }
        return events;
    }

    private static GenericRow event(int index, byte[] key, byte[] value, boolean isFramed) {
        return new GenericRow(new Object[] {Integer.valueOf(index), key, value, Boolean.valueOf(isFramed)});
    }

    /** Where the part ends that begins here with its length; -1 where the record does not have it. */
    private static int end(byte[] octets, int begin) {
        int length = length(octets, begin);
        return length < 0 ? -1 : begin + LENGTH_BYTES + length;
    }

    /** The length that stands here; -1 where there is none, or more than the record has. */
    private static int length(byte[] octets, int begin) {
        int rest = octets.length - begin - LENGTH_BYTES;
        if (rest < 0 || number(octets, begin) != 0) {
            return -1;
        }
        int length = number(octets, begin + 4);
        return length < 0 || length > rest ? -1 : length;
    }

    /** The number in four bytes. */
    private static int number(byte[] octets, int begin) {
        return octets[begin] << 24 | (octets[begin + 1] & 0xFF) << 16 | (octets[begin + 2] & 0xFF) << 8
            | octets[begin + 3] & 0xFF;
    }
}
