package ticdc;

import java.util.Arrays;

import org.apache.spark.sql.api.java.UDF5;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.unsafe.types.UTF8String;

/** What a record of CSV says: the function of `splitting.py`. */
public class Splitting implements UDF5 {
    private static final UTF8String INSERT = UTF8String.fromString("insert");
    private static final UTF8String UPDATE = UTF8String.fromString("update");
    private static final UTF8String DELETE = UTF8String.fromString("delete");

    /** All are bytes; those after the record are the characters of the form. Without a record there is NULL. */
    public Object call(Object record, Object delimiter, Object quote, Object nothing, Object lineEnd) throws Exception {
        if (record == null) {
            return null;
        }
        byte[] octets = (byte[]) record;
        Line first = new Line(octets, (byte[]) delimiter, (byte[]) quote, (byte[]) nothing, (byte[]) lineEnd, 0);
        Line last = first;
        if (first.next <= octets.length) {
            last = new Line(octets, (byte[]) delimiter, (byte[]) quote, (byte[]) nothing, (byte[]) lineEnd, first.next);
        }
        boolean isOne = last.next > octets.length && (last == first || first.isBefore(last));
        boolean isText = first.isAscii && last.isAscii || UTF8String.fromBytes(octets).isValid();
        if (!isOne || !last.isRow || !isText) {
            return new GenericRow(new Object[] {null, last.commitTs(), null, null});
        }
        Object after = first.isWhole && last.isWhole && !last.isTorn() ? last.columns() : null;
        Object before = last != first ? first.columns() : last.isDelete() ? after : null;
        return new GenericRow(new Object[] {last.op(), last.commitTs(), after, before});
    }

    /** A line from a place on: where its fields are, and what the first of them say. */
    private static final class Line {
        /** The fields before the commit ts: operation, table, schema. */
        private static final int NAMES = 3;
        /** More fields than a row can have: TiDB has 4,096 columns at most. */
        private static final int MOST = 8_192;
        private static final int FEWEST_DIGITS = 15;
        private static final int MOST_DIGITS = 19;
        private static final byte[] TRUE = {'t', 'r', 'u', 'e'};
        private static final byte[] FALSE = {'f', 'a', 'l', 's', 'e'};

        final byte[] octets;
        final byte[] delimiter;
        final byte[] quote;
        final byte[] nothing;
        final byte[] lineEnd;
        /** Whether quotes and backslashes stand as they should. */
        boolean isWhole = true;
        /** Whether it begins as one of TiCDC does: with an operation, and two names. */
        boolean isRow;
        /** Whether no byte of it is of a longer character, so that all of them are UTF-8. */
        boolean isAscii;
        /** Where the next line begins; more than the length of all bytes, if none does. */
        int next;
        private int[] starts = new int[32];
        private int[] ends = new int[32];
        /** How many quotes in the text of each field stand for one of two. */
        private int[] doubled = new int[32];
        private int doubledSoFar = 0;
        private int count = 0;
        private boolean hasTooMany = false;
        private final byte letter;
        private final long commitTs;
        private final boolean tellsUpdate;
        private final boolean isUpdate;

        Line(byte[] octets, byte[] delimiter, byte[] quote, byte[] nothing, byte[] lineEnd, int begin) {
            this.octets = octets;
            this.delimiter = delimiter;
            this.quote = quote;
            this.nothing = nothing;
            this.lineEnd = lineEnd;
            this.isAscii = isAscii(delimiter) && isAscii(quote);
            int place = begin;
            while (place >= 0) {
                place = quote.length == 0 ? escapedField(place) : quotedField(place);
            }
            this.isRow = !hasTooMany && hasNames();
            this.letter = isRow ? octets[begin + quote.length] : (byte) 0;
            this.commitTs = count > NAMES ? number(starts[NAMES], ends[NAMES]) : 0;
            this.isUpdate = commitTs > 0 && count > NAMES + 1 && is(NAMES + 1, TRUE);
            this.tellsUpdate = isUpdate || commitTs > 0 && count > NAMES + 1 && is(NAMES + 1, FALSE);
        }

        /** Find the field from a place on; where the one behind it begins, -1 if it is the line's last one. */
        private int quotedField(int begin) {
            byte mark = quote[0];
            byte between = delimiter[0];
            byte end = lineEnd[0];
            int texts = 0;
            int closed = -1;
            int place = begin;
            while (place < octets.length) {
                byte octet = octets[place];
                if (octet == mark) {
                    texts++;
                    closed = endOfText(place + 1);
                    place = closed < 0 ? -closed : closed + 1;
                    isWhole &= closed >= 0;
                } else if (octet == between && (delimiter.length == 1 || stands(delimiter, place))) {
                    add(begin, place, texts, closed);
                    return place + delimiter.length;
                } else if (octet == end && stands(lineEnd, place)) {
                    break;
                } else {
                    isAscii &= octet >= 0;
                    place++;
                }
            }
            add(begin, place, texts, closed);
            return lastOf(place);
        }

        /** The quote that closes a text; if none does, the end of its line, as a negative number. */
        private int endOfText(int begin) {
            byte mark = quote[0];
            byte end = lineEnd[0];
            byte greatest = mark > end ? mark : end;
            for (int place = begin; place < octets.length; place++) {
                byte octet = octets[place];
                if (octet > greatest) {
                    continue;
                }
                if (octet == mark) {
                    if (place + 1 == octets.length || octets[place + 1] != mark) {
                        return place;
                    }
                    place++;
                    doubledSoFar++;
                } else if (octet == end && stands(lineEnd, place) && begins(place + lineEnd.length)) {
                    return -place;
                } else {
                    isAscii &= octet >= 0;
                }
            }
            return -octets.length;
        }

        /** Take note of where the next line begins; -1, as no field is left. */
        private int lastOf(int end) {
            next = end < octets.length ? end + lineEnd.length : octets.length + 1;
            return -1;
        }

        /** The same without a quote character, where a backslash stands before what is no delimiter. */
        private int escapedField(int begin) {
            int place = begin;
            for (; place < octets.length; place++) {
                byte octet = octets[place];
                isAscii &= octet >= 0;
                if (octet == '\\') {
                    boolean isTorn = place + 1 == octets.length || stands(lineEnd, place + 1);
                    isWhole &= !isTorn;
                    isAscii &= isTorn || octets[place + 1] >= 0;
                    place += isTorn ? 0 : 1;
                } else if (octet == delimiter[0] && stands(delimiter, place)) {
                    add(begin, place);
                    return place + delimiter.length;
                } else if (octet == lineEnd[0] && stands(lineEnd, place)) {
                    break;
                }
            }
            add(begin, place);
            return lastOf(place);
        }

        /** A field with quotes is one text from its first byte to its last. */
        private void add(int begin, int end, int texts, int closed) {
            isWhole &= texts == 0 || texts == 1 && octets[begin] == quote[0] && closed == end - 1;
            add(begin, end);
        }

        private void add(int begin, int end) {
            hasTooMany |= count == MOST;
            if (hasTooMany) {
                return;
            }
            if (count == starts.length) {
                starts = Arrays.copyOf(starts, 2 * count);
                ends = Arrays.copyOf(ends, 2 * count);
                doubled = Arrays.copyOf(doubled, 2 * count);
            }
            starts[count] = begin;
            doubled[count] = doubledSoFar;
            ends[count++] = end;
            doubledSoFar = 0;
        }

        private boolean stands(byte[] text, int place) {
            if (place + text.length > octets.length) {
                return false;
            }
            for (int distance = 0; distance < text.length; distance++) {
                if (octets[place + distance] != text[distance]) {
                    return false;
                }
            }
            return true;
        }

        /** Whether a line begins there that is one of TiCDC's. */
        private boolean begins(int place) {
            return stands(quote, place) && place + 2 < octets.length && isLetter(octets[place + 1])
                && stands(quote, place + 2) && stands(delimiter, place + 3);
        }

        private static boolean isAscii(byte[] text) {
            boolean is = true;
            for (byte octet : text) {
                is &= octet >= 0;
            }
            return is;
        }

        private static boolean isLetter(byte octet) {
            return octet == 'I' || octet == 'U' || octet == 'D';
        }

        private boolean hasNames() {
            int quotes = 2 * quote.length;
            boolean is = count > NAMES && ends[0] - starts[0] == quotes + 1 && isLetter(octets[starts[0] + quote.length]);
            for (int field = 0; is && field < NAMES; field++) {
                is = ends[field] - starts[field] >= quotes && stands(quote, starts[field]);
            }
            return is;
        }

        private boolean is(int field, byte[] text) {
            return ends[field] - starts[field] == text.length && stands(text, starts[field]);
        }

        /** The commit ts between two places, 0 where there is none. */
        private long number(int begin, int end) {
            if (end - begin < FEWEST_DIGITS || end - begin > MOST_DIGITS) {
                return 0;
            }
            long number = 0;
            for (int place = begin; place < end; place++) {
                int digit = octets[place] - '0';
                if (digit < 0 || digit > 9) {
                    return 0;
                }
                number = 10 * number + digit;
            }
            return Math.max(number, 0);
        }

        /** Whether this is the row before an update, and the other the row after it. */
        boolean isBefore(Line other) {
            return isRow && other.isRow && isUpdate && other.isUpdate && letter == 'D' && other.letter == 'I'
                && commitTs == other.commitTs;
        }

        /** Whether it is the row before an update, and the row after it is not there. */
        boolean isTorn() {
            return letter == 'D' && isUpdate;
        }

        Long commitTs() {
            return commitTs == 0 ? null : Long.valueOf(commitTs);
        }

        boolean isDelete() {
            return letter == 'D';
        }

        UTF8String op() {
            return letter == 'D' ? DELETE : letter == 'U' || isUpdate ? UPDATE : INSERT;
        }

        private int head() {
            return tellsUpdate ? NAMES + 2 : NAMES + 1;
        }

        /** The values of the columns; none, if the line is not whole. */
        Object[] columns() {
            Object[] columns = new Object[isWhole ? Math.max(count - head(), 0) : 0];
            for (int place = 0; place < columns.length; place++) {
                int field = head() + place;
                columns[place] = is(field, nothing) ? null : value(field);
            }
            return columns;
        }

        private UTF8String value(int field) {
            int begin = starts[field];
            int end = ends[field];
            if (quote.length == 0) {
                return unescaped(begin, end);
            }
            boolean isText = begin < end && octets[begin] == quote[0];
            return isText ? undoubled(begin + 1, end - 1, doubled[field]) : UTF8String.fromBytes(octets, begin, end - begin);
        }

        private UTF8String undoubled(int begin, int end, int pairs) {
            if (pairs == 0) {
                return UTF8String.fromBytes(octets, begin, end - begin);
            }
            byte[] text = new byte[end - begin - pairs];
            for (int place = begin, at = 0; place < end; place++, at++) {
                text[at] = octets[place];
                place += octets[place] == quote[0] ? 1 : 0;
            }
            return UTF8String.fromBytes(text);
        }

        private UTF8String unescaped(int begin, int end) {
            byte[] text = new byte[end - begin];
            int size = 0;
            for (int place = begin; place < end; place++, size++) {
                byte octet = octets[place];
                if (octet == '\\') {
                    octet = octets[++place];
                    octet = octet == 'n' ? (byte) '\n' : octet == 'r' ? (byte) '\r' : octet;
                }
                text[size] = octet;
            }
            return UTF8String.fromBytes(text, 0, size);
        }
    }
}
