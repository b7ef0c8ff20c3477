package ticdc;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;

import net.jpountz.lz4.LZ4Exception;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.spark.sql.api.java.UDF3;
import org.xerial.snappy.Snappy;

/** Messages that TiCDC has compressed inside, as they were before: the function of `unpacking.py`. */
public class Unpacking implements UDF3 {
    private static final int MOST_BYTES = 1 << 28;
    private static final int LENGTH_BYTES = 8;

    /** `ofRecords`: whether a value is a record of Open, with a length before each event; `key` is its key then. */
    public Object call(Object ofRecords, Object key, Object value) throws Exception {
        byte[] whole = (byte[]) value;
        if (whole == null) {
            return null;
        }
        return ((Boolean) ofRecords).booleanValue() ? record((byte[]) key, whole) : plain(whole);
    }

    /** Open: what is framed otherwise stays as it is. */
    private static byte[] record(byte[] key, byte[] value) throws IOException {
        if (key == null || key.length < 8 || key[4] != 0 || key[5] != 0 || key[6] != 0 || key[7] != 1) {
            return value;
        }
        ByteArrayOutputStream plain = new ByteArrayOutputStream(value.length);
        int place = 0;
        while (place < value.length) {
            int begin = place + LENGTH_BYTES;
            if (begin > value.length) {
                return value;
            }
            long length = number(value, place);
            if (length < 0 || length > value.length - begin) {
                return value;
            }
            byte[] event = new byte[(int) length];
            System.arraycopy(value, begin, event, 0, event.length);
            event = plain(event);
            for (int shift = 56; shift >= 0; shift -= 8) {
                plain.write((int) (((long) event.length) >>> shift));
            }
            plain.write(event);
            place = begin + (int) length;
        }
        return plain.toByteArray();
    }

    private static long number(byte[] value, int place) {
        long number = 0;
        for (int at = place; at < place + LENGTH_BYTES; at++) {
            number = number << 8 | (value[at] & 0xFF);
        }
        return number;
    }

    /** What was compressed; the same bytes where nothing was, or where it cannot be had. */
    private static byte[] plain(byte[] value) {
        try {
            if (isFrame(value)) {
                return ofFrame(value);
            }
            return isBlock(value) && lengthOfBlock(value) <= MOST_BYTES ? Snappy.uncompress(value) : value;
        } catch (IOException damaged) {
            return value;
        } catch (RuntimeException damaged) {
            return value;
        }
    }

    /** A frame of LZ4 whose checksums are right (LZ4 Frame Format 1.6.1); of a damaged one the same bytes. */
    private static byte[] ofFrame(byte[] value) throws IOException {
        int flags = value[4];
        int place = (flags & 0x08) == 0 ? 6 : 14;
        boolean isKnown = (flags & 0xC3) == 0x40 && place < value.length;
        if (!isKnown || (byte) (hash(value, 4, place - 4) >>> 8) != value[place]) {
            return value;
        }
        Plain plain = new Plain(value.length, (flags & 0x20) != 0);
        place++;
        for (int size = littleEndian(value, place); size != 0; size = littleEndian(value, place)) {
            int length = size & 0x7FFFFFFF;
            place += 4;
            if ((flags & 0x10) != 0 && hash(value, place, length) != littleEndian(value, place + length)) {
                return value;
            }
            plain.add(value, place, length, size > 0);
            place += length + ((flags & 0x10) == 0 ? 0 : 4);
            if (plain.size > MOST_BYTES) {
                return value;
            }
        }
        place += 4;
        if ((flags & 0x04) != 0) {
            if (hash(plain.octets, 0, plain.size) != littleEndian(value, place)) {
                return value;
            }
            place += 4;
        }
        boolean isWhole = (flags & 0x08) == 0 || littleEndian(value, 6) == plain.size && littleEndian(value, 10) == 0;
        return isWhole && place == value.length ? plain.whole() : value;
    }

    private static int hash(byte[] octets, int place, int length) {
        return XXHashFactory.fastestInstance().hash32().hash(octets, place, length, 0);
    }

    private static int littleEndian(byte[] octets, int place) {
        return octets[place] & 0xFF | (octets[place + 1] & 0xFF) << 8 | (octets[place + 2] & 0xFF) << 16
            | octets[place + 3] << 24;
    }

    private static boolean isFrame(byte[] value) {
        return value.length > 3 && value[0] == 0x04 && value[1] == 0x22 && value[2] == 0x4D && value[3] == 0x18;
    }

    /** As `compressed.codec_of` tells a block of Snappy: its length and its first literal fit, which begins a message. */
    private static boolean isBlock(byte[] value) {
        int size = sizeOfLength(value);
        if (size == 0 || value.length < size + 1 || isBlank(value)) {
            return false;
        }
        int tag = value[size] & 0xFF;
        int more = tag < 0xF0 ? 0 : (tag >> 2) - 59;
        int first = size + 1 + more;
        if ((tag & 3) != 0 || !begins(value, first)) {
            return false;
        }
        long most = size == 1 ? value[0] & 0xFF : (1L << 7 * size) - 1;
        long literal = Math.min(tag >> 2, 60) + 1;
        return literal <= most && size + 1 + literal <= value.length && value.length <= most + most / 6 + 32;
    }

    /** How many bytes of a block are its length without compression; 0 where that does not end. */
    private static int sizeOfLength(byte[] value) {
        for (int place = 0; place < Math.min(5, value.length); place++) {
            if (value[place] >= 0) {
                return place + 1;
            }
        }
        return 0;
    }

    private static long lengthOfBlock(byte[] value) {
        long length = 0;
        for (int place = 0; place < sizeOfLength(value); place++) {
            length |= (value[place] & 0x7FL) << 7 * place;
        }
        return length;
    }

    private static boolean isBlank(byte[] value) {
        boolean blank = value[0] == 0x09 || value[0] == 0x0A || value[0] == 0x0D || value[0] == 0x20;
        return blank && value.length > 1 && value[1] == 0x20;
    }

    /** Whether a message begins there: JSON's brace and quote, or the branches of Simple's union in Avro. */
    private static boolean begins(byte[] value, int place) {
        if (value.length < place + 2) {
            return false;
        }
        if (value[place] == 0x7B) {
            return value[place + 1] == 0x22;
        }
        return value[place] == 0x16 && value.length > place + 2 && isBranch(value[place + 1]) && isBranch(value[place + 2]);
    }

    private static boolean isBranch(byte octet) {
        return octet == 0 || octet == 2 || octet == 4 || octet == 6;
    }

    /** What the blocks of a frame were. A block of LZ4 may have 4 MiB, and may repeat what is in earlier ones. */
    private static final class Plain {
        private static final int BLOCK = 4 << 20;
        private static final int LIKELY_RATIO = 8;
        private static final int LARGEST_RATIO = 255;

        private final boolean areApart;
        private byte[] octets;
        private int size = 0;

        Plain(int compressed, boolean areApart) {
            this.octets = new byte[(int) Math.min((long) compressed * LIKELY_RATIO, BLOCK)];
            this.areApart = areApart;
        }

        /** Raises what an array raises, or `LZ4Exception`, if the block is damaged. */
        void add(byte[] block, int place, int length, boolean isCompressed) {
            if (!isCompressed) {
                make(length);
                System.arraycopy(block, place, octets, size, length);
                size += length;
            } else if (areApart) {
                addApart(block, place, length);
            } else {
                repeat(block, place, place + length);
            }
        }

        /** With as much room as is likely to do, and with more where that was too little. */
        private void addApart(byte[] block, int place, int length) {
            LZ4SafeDecompressor decompressor = LZ4Factory.fastestInstance().safeDecompressor();
            long most = Math.min((long) length * LARGEST_RATIO, BLOCK);
            for (long room = (long) length * LIKELY_RATIO; true; room *= LIKELY_RATIO) {
                make((int) Math.min(room, most));
                try {
                    size += decompressor.decompress(block, place, length, octets, size, octets.length - size);
                    return;
                } catch (LZ4Exception tooLittle) {
                    if (room >= most) {
                        throw tooLittle;
                    }
                }
            }
        }

        /** A block that may go back into earlier ones, step by step (LZ4 Block Format). */
        private void repeat(byte[] block, int begin, int end) {
            int place = begin;
            while (place < end) {
                int token = block[place++] & 0xFF;
                int length = token >> 4;
                for (int more = 255; length >= 15 && more == 255; length += more) {
                    more = block[place++] & 0xFF;
                }
                make(length);
                System.arraycopy(block, place, octets, size, length);
                place += length;
                size += length;
                if (place >= end) {
                    return;
                }
                int back = block[place] & 0xFF | (block[place + 1] & 0xFF) << 8;
                place += 2;
                length = (token & 15) + 4;
                for (int more = 255; length >= 19 && more == 255; length += more) {
                    more = block[place++] & 0xFF;
                }
                make(length);
                if (back == 0) {
                    throw new IllegalArgumentException("a match of nothing");
                }
                for (int at = 0; at < length; at++, size++) {
                    octets[size] = octets[size - back];
                }
            }
        }

        /** Make room for so many bytes more. */
        private void make(int length) {
            if (length < 0 || size + length > MOST_BYTES + BLOCK) {
                throw new IllegalArgumentException("too large");
            }
            if (size + length > octets.length) {
                octets = Arrays.copyOf(octets, Math.max(size + length, Math.min(2 * octets.length, MOST_BYTES + BLOCK)));
            }
        }

        byte[] whole() {
            return size == octets.length ? octets : Arrays.copyOf(octets, size);
        }
    }
}
