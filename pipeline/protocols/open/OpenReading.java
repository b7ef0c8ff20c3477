package ticdc;

import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.unsafe.types.UTF8String;

/** An event of the Open protocol, read in one pass over its bytes: the function of `reading.py`. */
public class OpenReading implements UDF4 {
    private static final int BEFORE_KEY = 16;
    private static final int BEFORE_VALUE = 8;

    /** `columns`, `coded`: names (`Json.names`) of which values and type codes are wanted; NULL: no row is wanted. */
    public Object call(Object key, Object value, Object columns, Object coded) {
        Key ofKey = key == null || value == null ? null : new Key((byte[]) key);
        if (ofKey == null || !ofKey.isObject()) {
            return null;
        }
        Value ofValue = new Value((byte[]) value, Json.names(columns), Json.names(coded));
        boolean isEmpty = ofValue.octets.length == BEFORE_VALUE;
        boolean isObject = !isEmpty && ofValue.isObject();
        return new GenericRow(new Object[] {
            ofKey.commitTs, ofKey.schema, ofKey.table, ofKey.type, ofKey.handleKeyOnly, ofKey.location,
            Boolean.valueOf(isEmpty),
            Boolean.valueOf(isObject && ofValue.isStatement()),
            isObject ? ofValue.layout() : null,
            Boolean.valueOf(isObject && ofValue.isDelete()),
            isObject ? ofValue.after() : null,
            isObject ? ofValue.before() : null
        });
    }

    private static final class Key extends Json {
        private static final byte[] COMMIT_TS = octets("ts");
        private static final byte[] SCHEMA = octets("scm");
        private static final byte[] TABLE = octets("tbl");
        private static final byte[] TYPE = octets("t");
        private static final byte[] HANDLE_KEY_ONLY = octets("ohk");
        private static final byte[] LOCATION = octets("ccl");

        private Long commitTs;
        private UTF8String schema;
        private UTF8String table;
        private Long type;
        private Boolean handleKeyOnly;
        private UTF8String location;

        Key(byte[] octets) {
            super(octets, BEFORE_KEY);
        }

        protected void member() throws Json.Damaged {
            if (is(COMMIT_TS)) {
                commitTs = wholeOrNull();
            } else if (is(SCHEMA)) {
                schema = textOrNull();
            } else if (is(TABLE)) {
                table = textOrNull();
            } else if (is(TYPE)) {
                type = wholeOrNull();
            } else if (is(HANDLE_KEY_ONLY)) {
                handleKeyOnly = flagOrNull();
            } else if (is(LOCATION)) {
                location = textOrNull();
            } else {
                any(0);
            }
        }
    }

    private static final class Value extends Json {
        private static final byte[] UPDATED = octets("u");
        private static final byte[] PREVIOUS = octets("p");
        private static final byte[] DELETED = octets("d");
        private static final byte[] SQL = octets("q");
        private static final byte[] TYPE = octets("t");
        private static final byte[] VALUE = octets("v");
        private static final byte[] FLAGS = octets("f");
        private static final byte[] HANDLE = octets("h");

        private final byte[][] columns;
        private final byte[][] coded;
        private Image updated;
        private Image previous;
        private Image deleted;
        private boolean hasSql;
        private Long type;
        /** Whether an image is there twice, or is neither an object nor null: no row then. */
        private boolean isBroken = false;

        Value(byte[] octets, byte[][] columns, byte[][] coded) {
            super(octets, BEFORE_VALUE);
            this.columns = columns;
            this.coded = coded;
        }

        protected void member() throws Json.Damaged {
            if (is(UPDATED)) {
                isBroken |= updated != null;
                updated = image();
            } else if (is(DELETED)) {
                isBroken |= deleted != null;
                deleted = image();
            } else if (is(PREVIOUS)) {
                isBroken |= previous != null;
                previous = image();
            } else if (is(SQL)) {
                hasSql = textOrNull() != null;
            } else if (is(TYPE)) {
                type = wholeOrNull();
            } else {
                any(0);
            }
        }

        /** A row as the event shows it; null where there is none. */
        private Image image() throws Json.Damaged {
            boolean isNull = next() == 'n';
            if (!opens('{')) {
                isBroken |= !isNull;
                return null;
            }
            Image image = new Image(columns, coded);
            int expected = 0;
            int expectedCode = 0;
            for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
                name();
                long name = hash(0);
                int column = columns == null ? -1 : placeIn(columns, expected);
                int code = column < 0 ? -1 : placeIn(coded, expectedCode);
                image.layout = 31 * (31 * image.layout + name) + cell(image, column, code);
                expected = column < 0 ? expected : column + 1;
                expectedCode = code < 0 ? expectedCode : code + 1;
            }
            return image;
        }

        /** Take what an image says of one column; a hash of its type and flags. */
        private long cell(Image image, int column, int code) throws Json.Damaged {
            boolean isNull = next() == 'n';
            boolean isThere = opens('{');
            image.hasObjects &= isThere;
            image.isSound &= column < 0 || isThere || isNull;
            long ofType = 0;
            long ofFlags = 0;
            long ofHandle = 0;
            for (boolean isFirst = true; isThere && goesOn(isFirst, '}'); isFirst = false) {
                name();
                if (is(VALUE) && column >= 0) {
                    image.values[column] = textOrNull();
                } else if (is(TYPE)) {
                    next();
                    int first = place;
                    ofType = hashOfAny(1);
                    if (code >= 0) {
                        image.codes[code] = UTF8String.fromBytes(octets, first, place - first);
                        image.isSound &= octets[first] >= '0' && octets[first] <= '9';
                    }
                } else if (is(FLAGS)) {
                    ofFlags = hashOfAny(2);
                } else if (is(HANDLE)) {
                    ofHandle = hashOfAny(3);
                } else {
                    any(0);
                }
            }
            if (column >= 0) {
                image.areThere[column] = isThere;
            }
            return ofType + ofFlags + ofHandle;
        }

        /** Its type is a number of four bytes. */
        boolean isStatement() {
            return hasSql && type != null && type.longValue() == type.intValue();
        }

        boolean isDelete() {
            return updated == null && deleted != null;
        }

        Long layout() {
            return isRow() ? Long.valueOf(shown().layout) : null;
        }

        Object[] after() {
            return hasRows() ? shown().cells() : null;
        }

        /** What an update leaves out of the row as it was is as in the row as it is. */
        Object[] before() {
            if (!hasRows() || isDelete() || previous == null) {
                return hasRows() && isDelete() ? deleted.cells() : null;
            }
            previous.completeFrom(updated);
            return previous.cells();
        }

        private Image shown() {
            return updated == null ? deleted : updated;
        }

        /** An event has `u`, perhaps with `p`, or it has `d`. */
        private boolean isRow() {
            return !isBroken && (updated == null) != (deleted == null) && shown().hasObjects;
        }

        private boolean hasRows() {
            return columns != null && isRow() && shown().isSound && (previous == null || previous.isSound);
        }
    }

    /** A row: texts of values and of type codes, and a number for its layout. */
    private static final class Image {
        private final Object[] values;
        private final Object[] codes;
        private final boolean[] areThere;
        private long layout = 0;
        /** Whether each of its columns is an object. */
        private boolean hasObjects = true;
        /** Whether what is wanted of it can be read. */
        private boolean isSound = true;

        Image(byte[][] columns, byte[][] coded) {
            values = new Object[columns == null ? 0 : columns.length];
            areThere = new boolean[values.length];
            codes = new Object[coded == null ? 0 : coded.length];
        }

        void completeFrom(Image other) {
            for (int column = 0; column < values.length; column++) {
                values[column] = areThere[column] ? values[column] : other.values[column];
            }
            for (int code = 0; code < codes.length; code++) {
                codes[code] = codes[code] == null ? other.codes[code] : codes[code];
            }
        }

        Object[] cells() {
            Object[] cells = new Object[values.length + codes.length];
            System.arraycopy(values, 0, cells, 0, values.length);
            System.arraycopy(codes, 0, cells, values.length, codes.length);
            return cells;
        }
    }
}
