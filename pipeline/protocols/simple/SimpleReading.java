package ticdc;

import org.apache.spark.sql.api.java.UDF3;
import org.apache.spark.sql.catalyst.expressions.GenericRow;
import org.apache.spark.unsafe.types.UTF8String;

/** A message of Simple in JSON, read in one pass over its bytes: the function of `reading.py`. */
public class SimpleReading implements UDF3 {
    /** `columns`, `moments`: names (`Json.names`), all of a version and its TIMESTAMPs; NULL where no row is wanted. */
    public Object call(Object message, Object columns, Object moments) {
        Message read = message == null ? null : new Message((byte[]) message, Json.names(columns), Json.names(moments));
        return read == null || !read.isObject() ? null : read.fields();
    }

    /** What is read of a message. */
    private static final class Message extends Json {
        private static final byte[] VERSION = octets("version");
        private static final byte[] TYPE = octets("type");
        private static final byte[] DATABASE = octets("database");
        private static final byte[] TABLE = octets("table");
        private static final byte[] SCHEMA_VERSION = octets("schemaVersion");
        private static final byte[] COMMIT_TS = octets("commitTs");
        private static final byte[] SQL = octets("sql");
        private static final byte[] HANDLE_KEY_ONLY = octets("handleKeyOnly");
        private static final byte[] LOCATION = octets("claimCheckLocation");
        private static final byte[] CHECKSUM = octets("checksum");
        private static final byte[] CORRUPTED = octets("corrupted");
        private static final byte[] CURRENT = octets("current");
        private static final byte[] PREVIOUS = octets("previous");
        private static final byte[] TABLE_SCHEMA = octets("tableSchema");
        private static final byte[] SCHEMA = octets("schema");
        private static final byte[] DATA = octets("data");
        private static final byte[] OLD = octets("old");
        private static final UTF8String DELETE = UTF8String.fromString("DELETE");
        private static final byte[] MOMENT_LOCATION = octets("location");
        private static final byte[] MOMENT_VALUE = octets("value");

        private final byte[][] columns;
        private final byte[][] moments;
        private Long version;
        private UTF8String type;
        private UTF8String database;
        private UTF8String table;
        private Long schemaVersion;
        private Long commitTs;
        private boolean hasSql;
        private Boolean handleKeyOnly;
        private UTF8String location;
        private GenericRow checksum;
        private UTF8String describedSchema;
        private UTF8String describedTable;
        private Long describedVersion;
        private boolean isSound = true;
        private Object[] data;
        private Object[] old;

        Message(byte[] octets, byte[][] columns, byte[][] moments) {
            super(octets);
            this.columns = columns;
            this.moments = moments;
        }

        protected void member() throws Json.Damaged {
            if (is(DATA)) {
                data = row();
            } else if (is(OLD)) {
                old = row();
            } else if (is(VERSION)) {
                version = wholeOrNull();
            } else if (is(TYPE)) {
                type = textOrNull();
            } else if (is(DATABASE)) {
                database = textOrNull();
            } else if (is(TABLE)) {
                table = textOrNull();
            } else if (is(SCHEMA_VERSION)) {
                schemaVersion = wholeOrNull();
            } else if (is(COMMIT_TS)) {
                commitTs = wholeOrNull();
            } else if (is(CHECKSUM)) {
                checksum();
            } else if (is(TABLE_SCHEMA)) {
                described();
            } else if (is(SQL)) {
                hasSql = next() != 'n';
                any(0);
            } else if (is(HANDLE_KEY_ONLY)) {
                handleKeyOnly = flagOrNull();
            } else if (is(LOCATION)) {
                location = textOrNull();
            } else {
                any(0);
            }
        }

        private void checksum() throws Json.Damaged {
            Object[] fields = new Object[4];
            boolean isThere = opens('{');
            for (boolean isFirst = true; isThere && goesOn(isFirst, '}'); isFirst = false) {
                name();
                if (is(VERSION)) {
                    fields[0] = wholeOrNull();
                } else if (is(CORRUPTED)) {
                    fields[1] = flagOrNull();
                } else if (is(CURRENT)) {
                    fields[2] = wholeOrNull();
                } else if (is(PREVIOUS)) {
                    fields[3] = wholeOrNull();
                } else {
                    any(0);
                }
            }
            checksum = isThere ? new GenericRow(fields) : null;
        }

        private void described() throws Json.Damaged {
            describedSchema = null;
            describedTable = null;
            describedVersion = null;
            boolean isThere = opens('{');
            for (boolean isFirst = true; isThere && goesOn(isFirst, '}'); isFirst = false) {
                name();
                if (is(SCHEMA)) {
                    describedSchema = textOrNull();
                } else if (is(TABLE)) {
                    describedTable = textOrNull();
                } else if (is(VERSION)) {
                    describedVersion = wholeOrNull();
                } else {
                    any(0);
                }
            }
        }

        /** The values of the columns, behind them the locations of TIMESTAMPs; null where there is no row. */
        private Object[] row() throws Json.Damaged {
            if (columns == null) {
                any(0);
                return null;
            }
            boolean isNull = next() == 'n';
            if (!opens('{')) {
                isSound &= isNull;
                return null;
            }
            Object[] values = new Object[columns.length + moments.length];
            int expected = 0;
            int expectedMoment = 0;
            for (boolean isFirst = true; goesOn(isFirst, '}'); isFirst = false) {
                name();
                int column = placeIn(columns, expected);
                int moment = placeIn(moments, expectedMoment);
                if (column < 0) {
                    any(0);
                } else if (moment < 0) {
                    values[column] = textOrNull();
                } else {
                    moment(values, column, columns.length + moment);
                }
                expected = column < 0 ? expected : column + 1;
                expectedMoment = moment < 0 ? expectedMoment : moment + 1;
            }
            return values;
        }

        private void moment(Object[] values, int value, int location) throws Json.Damaged {
            values[value] = null;
            values[location] = null;
            boolean isNull = next() == 'n';
            boolean isThere = opens('{');
            for (boolean isFirst = true; isThere && goesOn(isFirst, '}'); isFirst = false) {
                name();
                if (is(MOMENT_VALUE)) {
                    values[value] = textOrNull();
                } else if (is(MOMENT_LOCATION)) {
                    values[location] = textOrNull();
                } else {
                    any(0);
                }
            }
            isSound &= isNull || isThere && values[value] != null && values[location] != null;
        }

        GenericRow fields() {
            return new GenericRow(new Object[] {
                version, type, database, table, schemaVersion, commitTs, Boolean.valueOf(hasSql), handleKeyOnly, location,
                checksum, describedSchema, describedTable, describedVersion, Boolean.valueOf(isSound),
                DELETE.equals(type) ? old : data, old
            });
        }
    }
}
