package ticdc;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A message of Canal-JSON, read in one pass over its bytes: the function of `reading.py`. */
public class CanalReading implements UDF2 {
    /** `columns`: the names of a version's columns, with zeros between them; NULL where the row is not wanted. */
    public Object call(Object message, Object columns) throws Exception {
        if (message == null || !UTF8String.fromBytes((byte[]) message).isValid()) {
            return null;
        }
        Message read = new Message((byte[]) message, columns == null ? null : names((byte[]) columns));
        try {
            read.whole();
        } catch (NotJson damaged) {
            return null;
        }
        return read.row();
    }

    private static byte[][] names(byte[] joined) {
        int count = joined.length == 0 ? 0 : 1;
        for (int place = 0; place < joined.length; place++) {
            count += joined[place] == 0 ? 1 : 0;
        }
        byte[][] names = new byte[count][];
        for (int number = 0, begin = 0; number < count; number++) {
            int end = begin;
            while (end < joined.length && joined[end] != 0) {
                end++;
            }
            names[number] = Arrays.copyOfRange(joined, begin, end);
            begin = end + 1;
        }
        return names;
    }

    private static final class NotJson extends Exception {
        NotJson() {
            super(null, null, false, false);
        }
    }

    /** JSON (RFC 8259), one value after the other. */
    private static class Json {
        private static final int DEEPEST = 512;
        /** As Jackson has it, which reads some messages once more. */
        private static final int LONGEST_NAME = 50_000;
        private static final int LONGEST_NUMBER = 1_000;

        final byte[] octets;
        int place = 0;
        /** Of the text that was read last: where it begins and ends, and whether it has escapes. */
        int begin;
        int end;
        private boolean hasEscapes;
        private byte[] withoutEscapes;

        Json(byte[] octets) {
            this.octets = octets;
        }

        /** The next octet that is no space, which is left where it is; 0 at the end, as for a zero. */
        byte next() {
            while (place < octets.length) {
                byte octet = octets[place];
                if (octet != ' ' && octet != '\n' && octet != '\r' && octet != '\t') {
                    return octet;
                }
                place++;
            }
            return 0;
        }

        void take(char wanted) throws NotJson {
            if (next() != wanted) {
                throw new NotJson();
            }
            place++;
        }

        /** Whether another member or item follows; if none does, the end is taken. */
        boolean goesOn(boolean isFirst, char close) throws NotJson {
            if (next() == close) {
                place++;
                return false;
            }
            if (!isFirst) {
                take(',');
            }
            return true;
        }

        /** Take a text; `begin` and `end` say where it is. */
        void text() throws NotJson {
            take('"');
            begin = place;
            hasEscapes = false;
            withoutEscapes = null;
            while (place < octets.length) {
                byte octet = octets[place];
                if (octet == '"') {
                    end = place++;
                    return;
                }
                if (octet == '\\') {
                    hasEscapes = true;
                    escape();
                } else if (octet >= 0 && octet < ' ') {
                    break;
                }
                place++;
            }
            throw new NotJson();
        }

        /** Leave the place at the last octet of an escape. */
        private void escape() throws NotJson {
            place++;
            byte octet = place < octets.length ? octets[place] : (byte) 0;
            if (octet == 'u') {
                if (place + 4 >= octets.length) {
                    throw new NotJson();
                }
                for (int digit = 0; digit < 4; digit++) {
                    if (Character.digit(octets[++place], 16) < 0) {
                        throw new NotJson();
                    }
                }
            } else if (octet != '"' && octet != '\\' && octet != '/' && octet != 'b' && octet != 'f' && octet != 'n'
                && octet != 'r' && octet != 't') {
                throw new NotJson();
            }
        }

        /** Take the name of a member, and the colon. */
        void name() throws NotJson {
            text();
            if (end - begin > LONGEST_NAME) {
                throw new NotJson();
            }
            take(':');
        }

        /** Whether the text that was read last is this one. */
        boolean is(byte[] wanted) {
            if (hasEscapes) {
                withoutEscapes = withoutEscapes == null ? value().getBytes() : withoutEscapes;
                return Arrays.equals(withoutEscapes, wanted);
            }
            if (end - begin != wanted.length) {
                return false;
            }
            for (int distance = 0; distance < wanted.length; distance++) {
                if (octets[begin + distance] != wanted[distance]) {
                    return false;
                }
            }
            return true;
        }

        /** Take any value; a hash of it, as it is written. */
        long hashOfAny(long seed) throws NotJson {
            next();
            int first = place;
            any(0);
            return XXH64.hashUnsafeBytes(octets, Platform.BYTE_ARRAY_OFFSET + first, place - first, seed);
        }

        /** A hash of the text that was read last, as it is written. */
        long hash(long seed) {
            return XXH64.hashUnsafeBytes(octets, Platform.BYTE_ARRAY_OFFSET + begin, end - begin, seed);
        }

        /** The text that was read last. */
        UTF8String value() {
            return hasEscapes ? unescaped() : UTF8String.fromBytes(octets, begin, end - begin);
        }

        private UTF8String unescaped() {
            StringBuilder text = new StringBuilder(end - begin);
            int plain = begin;
            for (int at = begin; at < end; at++) {
                if (octets[at] == '\\') {
                    text.append(new String(octets, plain, at - plain, StandardCharsets.UTF_8));
                    byte octet = octets[++at];
                    if (octet == 'u') {
                        text.append((char) Integer.parseInt(new String(octets, at + 1, 4, StandardCharsets.US_ASCII), 16));
                        at += 4;
                    } else {
                        int control = "bfnrt".indexOf(octet);
                        text.append(control < 0 ? (char) octet : "\b\f\n\r\t".charAt(control));
                    }
                    plain = at + 1;
                }
            }
            text.append(new String(octets, plain, end - plain, StandardCharsets.UTF_8));
            return UTF8String.fromString(text.toString());
        }

        /** Take any value. */
        void any(int depth) throws NotJson {
            byte octet = next();
            if (octet == '"') {
                text();
            } else if (octet == '{' || octet == '[') {
                if (depth > DEEPEST) {
                    throw new NotJson();
                }
                place++;
                for (boolean isFirst = true; goesOn(isFirst, octet == '{' ? '}' : ']'); isFirst = false) {
                    if (octet == '{') {
                        name();
                    }
                    any(depth + 1);
                }
            } else if (octet == 't') {
                word("true");
            } else if (octet == 'f') {
                word("false");
            } else if (octet == 'n') {
                word("null");
            } else {
                number();
            }
        }

        void word(String word) throws NotJson {
            next();
            for (int distance = 0; distance < word.length(); distance++, place++) {
                if (place >= octets.length || octets[place] != word.charAt(distance)) {
                    throw new NotJson();
                }
            }
        }

        private void number() throws NotJson {
            int first = place;
            place += here() == '-' ? 1 : 0;
            if (here() == '0') {
                place++;
            } else {
                digits();
            }
            if (here() == '.') {
                place++;
                digits();
            }
            if (here() == 'e' || here() == 'E') {
                place++;
                place += here() == '+' || here() == '-' ? 1 : 0;
                digits();
            }
            if (place - first > LONGEST_NUMBER) {
                throw new NotJson();
            }
        }

        private byte here() {
            return place < octets.length ? octets[place] : (byte) 0;
        }

        private void digits() throws NotJson {
            int first = place;
            while (here() >= '0' && here() <= '9') {
                place++;
            }
            if (place == first) {
                throw new NotJson();
            }
        }

        /** Take a text, or anything else as it is written; null for null. */
        UTF8String textOrNull() throws NotJson {
            if (next() == '"') {
                text();
                return value();
            }
            int first = place;
            any(0);
            UTF8String written = UTF8String.fromBytes(octets, first, place - first);
            return "null".equals(written.toString()) ? null : written;
        }

        /** Take anything; the number, if it is a whole one. */
        Long wholeOrNull() throws NotJson {
            next();
            int first = place;
            any(0);
            boolean isLong = place - first > 0 && place - first < 20;
            try {
                return isLong ? Long.valueOf(new String(octets, first, place - first, StandardCharsets.US_ASCII)) : null;
            } catch (NumberFormatException other) {
                return null;
            }
        }

        /** Take anything; whether it is true, if it is true or false. */
        Boolean flagOrNull() throws NotJson {
            byte octet = next();
            any(0);
            return octet == 't' ? Boolean.TRUE : octet == 'f' ? Boolean.FALSE : null;
        }

        /** Whether an object or a list begins here; anything else is taken. */
        boolean opens(char wanted) throws NotJson {
            if (next() == wanted) {
                place++;
                return true;
            }
            any(0);
            return false;
        }
    }

    /** What is read of a message. */
    private static final class Message extends Json {
        private static final byte[] ID = octets("id");
        private static final byte[] DATABASE = octets("database");
        private static final byte[] TABLE = octets("table");
        private static final byte[] TYPE = octets("type");
        private static final byte[] IS_DDL = octets("isDdl");
        private static final byte[] ES = octets("es");
        private static final byte[] SQL = octets("sql");
        private static final byte[] KEY = octets("pkNames");
        private static final byte[] NAMES = octets("sqlType");
        private static final byte[] TYPES = octets("mysqlType");
        private static final byte[] OLD = octets("old");
        private static final byte[] DATA = octets("data");
        private static final byte[] EXTENSION = octets("_tidb");
        private static final byte[] COMMIT_TS = octets("commitTs");
        private static final byte[] WATERMARK_TS = octets("watermarkTs");
        private static final byte[] HANDLE_KEY_ONLY = octets("onlyHandleKey");
        private static final byte[] LOCATION = octets("claimCheckLocation");

        private final byte[][] columns;
        private Long id;
        private UTF8String database;
        private UTF8String table;
        private UTF8String type;
        private Boolean isDdl;
        private Long es;
        private boolean hasSql;
        private boolean hasNames;
        private boolean hasTypes;
        private boolean hasExtension;
        private Long commitTs;
        private Long watermarkTs;
        private Boolean handleKeyOnly;
        private UTF8String location;
        private Integer rows;
        /** What the layout of its row hashes to: the names in their order, the types in any order, the primary key. */
        private long hashOfNames;
        private long hashOfTypes;
        private long hashOfKey;
        private boolean fits;
        private Object[] after;
        private Object[] before;
        private boolean[] isSent;
        /** Whether `old` is null, or a list of rows. */
        private boolean isSound = true;

        Message(byte[] octets, byte[][] columns) {
            super(octets);
            this.columns = columns;
        }

        private static byte[] octets(String text) {
            return text.getBytes(StandardCharsets.US_ASCII);
        }

        /** One object, and nothing behind it. */
        void whole() throws NotJson {
            take('{');
            for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
                name();
                member();
            }
            if (next() != 0 || place < octets.length) {
                throw new NotJson();
            }
        }

        private void member() throws NotJson {
            if (is(DATA)) {
                data();
            } else if (is(OLD)) {
                old();
            } else if (is(NAMES)) {
                names();
            } else if (is(TYPES)) {
                types();
            } else if (is(EXTENSION)) {
                extension();
            } else if (is(KEY)) {
                key();
            } else if (is(DATABASE)) {
                database = textOrNull();
            } else if (is(TABLE)) {
                table = textOrNull();
            } else if (is(TYPE)) {
                type = textOrNull();
            } else if (is(IS_DDL)) {
                isDdl = flagOrNull();
            } else if (is(ID)) {
                id = wholeOrNull();
            } else if (is(ES)) {
                es = wholeOrNull();
            } else if (is(SQL)) {
                hasSql = next() != 'n';
                any(0);
            } else {
                any(0);
            }
        }

        private void extension() throws NotJson {
            commitTs = null;
            watermarkTs = null;
            handleKeyOnly = null;
            location = null;
            hasExtension = opens('{');
            for (boolean isFirst = true; hasExtension && goesOn(isFirst, '}'); isFirst = false) {
                name();
                if (is(COMMIT_TS)) {
                    commitTs = wholeOrNull();
                } else if (is(WATERMARK_TS)) {
                    watermarkTs = wholeOrNull();
                } else if (is(HANDLE_KEY_ONLY)) {
                    handleKeyOnly = flagOrNull();
                } else if (is(LOCATION)) {
                    location = textOrNull();
                } else {
                    any(0);
                }
            }
        }

        /** Its columns are those of the version if there are as many, and each is one of them. */
        private void names() throws NotJson {
            hasNames = opens('{');
            hashOfNames = 0;
            int count = 0;
            boolean areAll = columns != null;
            for (boolean isFirst = true; hasNames && goesOn(isFirst, '}'); isFirst = false) {
                name();
                hashOfNames = 31 * hashOfNames + hash(1);
                areAll = areAll && placeOf(count) >= 0;
                count++;
                any(0);
            }
            fits = areAll && hasNames && count == columns.length;
        }

        private void types() throws NotJson {
            hasTypes = opens('{');
            hashOfTypes = 0;
            for (boolean isFirst = true; hasTypes && goesOn(isFirst, '}'); isFirst = false) {
                name();
                long of = hash(2);
                hashOfTypes += hashOfAny(of);
            }
        }

        private void key() throws NotJson {
            boolean isThere = opens('[');
            hashOfKey = 0;
            for (boolean isFirst = true; isThere && goesOn(isFirst, ']'); isFirst = false) {
                hashOfKey = 31 * hashOfKey + hashOfAny(3);
            }
        }

        private void data() throws NotJson {
            after = null;
            rows = next() == 'n' ? null : Integer.valueOf(0);
            boolean isThere = opens('[');
            for (boolean isFirst = true; isThere && goesOn(isFirst, ']'); isFirst = false) {
                if (isFirst && columns != null && next() == '{') {
                    after = new Object[columns.length];
                    row(after, new boolean[columns.length]);
                } else {
                    any(0);
                }
                rows = Integer.valueOf(rows.intValue() + 1);
            }
        }

        private void old() throws NotJson {
            before = null;
            boolean isNull = next() == 'n';
            boolean isThere = opens('[');
            isSound = isThere || isNull;
            for (boolean isFirst = true; isThere && goesOn(isFirst, ']'); isFirst = false) {
                if (isFirst && columns != null && next() == '{') {
                    before = new Object[columns.length];
                    isSent = new boolean[columns.length];
                    row(before, isSent);
                } else {
                    isSound &= next() == '{' || next() == 'n';
                    any(0);
                }
            }
        }

        private void row(Object[] values, boolean[] areThere) throws NotJson {
            take('{');
            int expected = 0;
            for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
                name();
                int column = placeOf(expected);
                UTF8String value = textOrNull();
                if (column >= 0) {
                    values[column] = value;
                    areThere[column] = true;
                    expected = column + 1;
                }
            }
        }

        /** Which column has the name that was read last: mostly the expected one. */
        private int placeOf(int expected) {
            if (expected < columns.length && is(columns[expected])) {
                return expected;
            }
            for (int column = 0; column < columns.length; column++) {
                if (is(columns[column])) {
                    return column;
                }
            }
            return -1;
        }

        /** With only-output-updated-columns `old` has what was changed, and the rest is as it is now. */
        private Object[] completed() {
            for (int column = 0; before != null && after != null && column < columns.length; column++) {
                before[column] = isSent[column] ? before[column] : after[column];
            }
            return before;
        }

        GenericRow row() {
            return new GenericRow(new Object[] {
                id, database, table, type, isDdl, es, Boolean.valueOf(hasSql), Boolean.valueOf(hasNames && hasTypes),
                Boolean.valueOf(hasExtension), commitTs, watermarkTs, handleKeyOnly, location, rows,
                Long.valueOf(31 * (31 * hashOfNames + hashOfTypes) + hashOfKey),
                Boolean.valueOf(fits), Boolean.valueOf(isSound), after, completed()
            });
        }
    }
}
