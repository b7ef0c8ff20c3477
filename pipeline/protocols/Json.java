package ticdc;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** JSON (RFC 8259) in bytes of UTF-8, one value after the other. */
public class Json {
    private static final int DEEPEST = 512;
    private static final char REPLACEMENT = (char) 0xFFFD;
    /** As Jackson has it, which reads some messages once more. */
    private static final int LONGEST_NAME = 50_000;
    private static final int LONGEST_NUMBER = 1_000;

    public final byte[] octets;
    public int place;
    /** Of the text that was read last: where it begins and ends, and whether it has escapes. */
    public int begin;
    public int end;
    private boolean hasEscapes;
    private byte[] withoutEscapes;

    public Json(byte[] octets) {
        this(octets, 0);
    }

    /** From this place on. */
    public Json(byte[] octets, int place) {
        this.octets = octets;
        this.place = place;
    }

    /** A text of ASCII, as `is` takes it. */
    public static byte[] octets(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Texts, each behind its length in four bytes. NULL stays NULL. */
    public static byte[][] names(Object joined) {
        if (joined == null) {
            return null;
        }
        ByteBuffer texts = ByteBuffer.wrap((byte[]) joined);
        byte[][] names = new byte[texts.getInt()][];
        for (int number = 0; number < names.length; number++) {
            names[number] = new byte[texts.getInt()];
            texts.get(names[number]);
        }
        return names;
    }

    /** Whether this is one object in UTF-8 and nothing else, which is then taken, member by member. */
    public boolean isObject() {
        int size = octets.length - place;
        if (size < 0 || !UTF8String.fromBytes(octets, place, size).isValid()) {
            return false;
        }
        try {
            object();
        } catch (Damaged damaged) {
            return false;
        }
        return true;
    }

    /** What is no JSON. It has no stack, as each message may be none. */
    public static final class Damaged extends Exception {
        public Damaged() {
            super(null, null, false, false);
        }
    }

    private void object() throws Damaged {
        take('{');
        for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
            name();
            member();
        }
        if (next() != 0 || place < octets.length) {
            throw new Damaged();
        }
    }

    /** Take the value of a member of that object, whose name was read last. */
    protected void member() throws Damaged {
        any(0);
    }

    /** The next octet that is no space, which is left where it is; 0 at the end, as for a zero. */
    public byte next() {
        while (place < octets.length) {
            byte octet = octets[place];
            if (octet != ' ' && octet != '\n' && octet != '\r' && octet != '\t') {
                return octet;
            }
            place++;
        }
        return 0;
    }

    public void take(char wanted) throws Damaged {
        if (next() != wanted) {
            throw new Damaged();
        }
        place++;
    }

    /** Whether another member or item follows; if none does, the end is taken. */
    public boolean goesOn(boolean isFirst, char close) throws Damaged {
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
    public void text() throws Damaged {
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
        throw new Damaged();
    }

    /** Leave the place at the last octet of an escape. */
    private void escape() throws Damaged {
        place++;
        byte octet = place < octets.length ? octets[place] : (byte) 0;
        if (octet == 'u') {
            if (place + 4 >= octets.length) {
                throw new Damaged();
            }
            for (int digit = 0; digit < 4; digit++) {
                if (Character.digit(octets[++place], 16) < 0) {
                    throw new Damaged();
                }
            }
        } else if (octet != '"' && octet != '\\' && octet != '/' && octet != 'b' && octet != 'f' && octet != 'n'
            && octet != 'r' && octet != 't') {
            throw new Damaged();
        }
    }

    /** Take the name of a member, and the colon. */
    public void name() throws Damaged {
        text();
        if (end - begin > LONGEST_NAME) {
            throw new Damaged();
        }
        take(':');
    }

    /** Whether the text that was read last is this one. */
    public boolean is(byte[] wanted) {
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

    /** Which of these is the text that was read last, mostly the expected one; -1 for none. */
    public int placeIn(byte[][] names, int expected) {
        if (expected < names.length && is(names[expected])) {
            return expected;
        }
        for (int place = 0; place < names.length; place++) {
            if (is(names[place])) {
                return place;
            }
        }
        return -1;
    }

    /** Take any value; a hash of it, as it is written. */
    public long hashOfAny(long seed) throws Damaged {
        next();
        int first = place;
        any(0);
        return XXH64.hashUnsafeBytes(octets, Platform.BYTE_ARRAY_OFFSET + first, place - first, seed);
    }

    /** A hash of the text that was read last, as it is written. */
    public long hash(long seed) {
        return XXH64.hashUnsafeBytes(octets, Platform.BYTE_ARRAY_OFFSET + begin, end - begin, seed);
    }

    /** The text that was read last. */
    public UTF8String value() {
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
        replaceHalves(text);
        return UTF8String.fromString(text.toString());
    }

    /** Half a surrogate pair is no character, and would become a question mark. */
    private static void replaceHalves(StringBuilder text) {
        for (int at = 0; at < text.length(); at++) {
            boolean isPair = at + 1 < text.length() && Character.isSurrogatePair(text.charAt(at), text.charAt(at + 1));
            if (isPair) {
                at++;
            } else if (Character.isSurrogate(text.charAt(at))) {
                text.setCharAt(at, REPLACEMENT);
            }
        }
    }

    /** Take any value. */
    public void any(int depth) throws Damaged {
        byte octet = next();
        if (octet == '"') {
            text();
        } else if (octet == '{' || octet == '[') {
            if (depth > DEEPEST) {
                throw new Damaged();
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

    private void word(String word) throws Damaged {
        next();
        for (int distance = 0; distance < word.length(); distance++, place++) {
            if (place >= octets.length || octets[place] != word.charAt(distance)) {
                throw new Damaged();
            }
        }
    }

    private void number() throws Damaged {
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
            throw new Damaged();
        }
    }

    private byte here() {
        return place < octets.length ? octets[place] : (byte) 0;
    }

    private void digits() throws Damaged {
        int first = place;
        while (here() >= '0' && here() <= '9') {
            place++;
        }
        if (place == first) {
            throw new Damaged();
        }
    }

    /** Take a text, or anything else as it is written; null for null. */
    public UTF8String textOrNull() throws Damaged {
        byte octet = next();
        if (octet == '"') {
            text();
            return value();
        }
        int first = place;
        any(0);
        return octet == 'n' ? null : UTF8String.fromBytes(octets, first, place - first);
    }

    /** Take anything; the number, if it is a whole one. */
    public Long wholeOrNull() throws Damaged {
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
    public Boolean flagOrNull() throws Damaged {
        byte octet = next();
        any(0);
        return octet == 't' ? Boolean.TRUE : octet == 'f' ? Boolean.FALSE : null;
    }

    /** Whether an object or a list begins here; anything else is taken. */
    public boolean opens(char wanted) throws Damaged {
        if (next() == wanted) {
            place++;
            return true;
        }
        any(0);
        return false;
    }
}
