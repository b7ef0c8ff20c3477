package ticdc;

import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.unsafe.types.UTF8String;

/** A message of Canal-JSON, read in one pass over its bytes: the function of `reading.py`. */
public class CanalReading implements UDF2 {
    /** `columns`: the names of a version's columns (`Json.names`); NULL where the row is not wanted. */
    public Object call(Object message, Object columns) {
        Message read = message == null ? null : new Message((byte[]) message, Json.names(columns));
        return read == null || !read.isObject() ? null : read.row();
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

        private static final UTF8String DELETE = UTF8String.fromString("DELETE");

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
        /** Whether the layout names the version's columns, and whether the row after has just these. */
        private boolean fits;
        private boolean isWhole = true;
        private Object[] after;
        private Object[] before;
        private boolean[] isSent;
        /** Whether `old` is null, or a list of rows. */
        private boolean isSound = true;

        Message(byte[] octets, byte[][] columns) {
            super(octets);
            this.columns = columns;
        }

        protected void member() throws Json.Damaged {
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

        private void extension() throws Json.Damaged {
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
        private void names() throws Json.Damaged {
            hasNames = opens('{');
            hashOfNames = 0;
            int count = 0;
            boolean areAll = columns != null;
            for (boolean isFirst = true; hasNames && goesOn(isFirst, '}'); isFirst = false) {
                name();
                hashOfNames = 31 * hashOfNames + hash(1);
                areAll = areAll && placeIn(columns, count) >= 0;
                count++;
                any(0);
            }
            fits = areAll && hasNames && count == columns.length;
        }

        private void types() throws Json.Damaged {
            hasTypes = opens('{');
            hashOfTypes = 0;
            for (boolean isFirst = true; hasTypes && goesOn(isFirst, '}'); isFirst = false) {
                name();
                long of = hash(2);
                hashOfTypes += hashOfAny(of);
            }
        }

        private void key() throws Json.Damaged {
            boolean isThere = opens('[');
            hashOfKey = 0;
            for (boolean isFirst = true; isThere && goesOn(isFirst, ']'); isFirst = false) {
                hashOfKey = 31 * hashOfKey + hashOfAny(3);
            }
        }

        private void data() throws Json.Damaged {
            after = null;
            rows = next() == 'n' ? null : Integer.valueOf(0);
            boolean isThere = opens('[');
            for (boolean isFirst = true; isThere && goesOn(isFirst, ']'); isFirst = false) {
                if (isFirst && columns != null && next() == '{') {
                    after = new Object[columns.length];
                    isWhole = row(after, new boolean[columns.length]);
                } else {
                    any(0);
                }
                rows = Integer.valueOf(rows.intValue() + 1);
            }
        }

        private void old() throws Json.Damaged {
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

        /** Whether each column is there, and no other. */
        private boolean row(Object[] values, boolean[] areThere) throws Json.Damaged {
            take('{');
            int expected = 0;
            int left = columns.length;
            boolean areKnown = true;
            for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
                name();
                int column = placeIn(columns, expected);
                UTF8String value = textOrNull();
                areKnown &= column >= 0;
                if (column >= 0) {
                    values[column] = value;
                    left -= areThere[column] ? 0 : 1;
                    areThere[column] = true;
                    expected = column + 1;
                }
            }
            return areKnown && left == 0;
        }

        /** A DELETE was its `data`. With only-output-updated-columns `old` has what was changed; the rest is as it is now. */
        private Object[] completed() {
            if (DELETE.equals(type)) {
                return after;
            }
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
                Boolean.valueOf(fits && isWhole), Boolean.valueOf(isSound && (isWhole || !fits)), after, completed()
            });
        }
    }
}
