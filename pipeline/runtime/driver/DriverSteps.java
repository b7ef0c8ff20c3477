import java.io.IOException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.AggregatingAccumulator;
import org.apache.spark.unsafe.types.UTF8String;

/** Takes rows through the steps of a plan, in the driver: the loops over rows that Python must not do (`compiled`). */
public final class DriverSteps {

  /**
   * The rows that are left of `rows` after the steps. A step is a condition, a select list, a set of counters, or a
   * row: the columns of a row are put behind those that are there.
   */
  public InternalRow[] run(Object[] steps, InternalRow[] rows) {
    ArrayList left = new ArrayList();
    for (int number = 0; number < rows.length; number++) {
      InternalRow row = rows[number];
      for (int place = 0; place < steps.length && row != null; place++) {
        Object step = steps[place];
        if (step instanceof BasePredicate) {
          row = ((BasePredicate) step).eval(row) ? row : null;
        } else if (step instanceof UnsafeProjection) {
          row = (InternalRow) ((UnsafeProjection) step).apply(row);
        } else if (step instanceof AggregatingAccumulator) {
          ((AggregatingAccumulator) step).add(row);
        } else {
          row = new JoinedRow(row, (InternalRow) step);
        }
      }
      if (row != null) {
        left.add(row.copy()); // a select list gives the same object for every row
      }
    }
    return (InternalRow[]) left.toArray(new InternalRow[left.size()]);
  }

  /** What counters that are BIGINTs have counted, as a JSON array: a call for each would take longer than to count. */
  public String counted(AggregatingAccumulator counters) {
    InternalRow values = (InternalRow) counters.value();
    StringBuilder text = new StringBuilder("[");
    for (int place = 0; place < values.numFields(); place++) {
      text.append(place == 0 ? "" : ",");
      text.append(values.isNullAt(place) ? "null" : String.valueOf(values.getLong(place)));
    }
    return text.append("]").toString();
  }

  /** A row of one column: an array of two BIGINTs. */
  public InternalRow pair(long first, long second) {
    return new GenericInternalRow(new Object[] {UnsafeArrayData.fromPrimitiveArray(new long[] {first, second})});
  }

  /** Rows of one column each: a line of the text. */
  public InternalRow[] texts(String lines) {
    String[] texts = lines.split("\n", -1);
    InternalRow[] rows = new InternalRow[texts.length];
    for (int number = 0; number < texts.length; number++) {
      rows[number] = new GenericInternalRow(new Object[] {UTF8String.fromString(texts[number])});
    }
    return rows;
  }

  /** How many bytes the largest row has, of rows that end with a select list. */
  public int widest(InternalRow[] rows) {
    int widest = 0;
    for (int number = 0; number < rows.length; number++) {
      if (rows[number] instanceof UnsafeRow) {
        widest = Math.max(widest, ((UnsafeRow) rows[number]).getSizeInBytes());
      }
    }
    return widest;
  }

  /** The data files that an Iceberg writer has written: its message shows them to its own package alone. */
  public Object[] files(WriterCommitMessage message) throws ReflectiveOperationException {
    Method files = message.getClass().getDeclaredMethod("files", new Class[0]);
    files.setAccessible(true);
    return (Object[]) files.invoke(message, new Object[0]);
  }

  /** Write rows as a task of Spark would. */
  public void write(DataWriter writer, InternalRow[] rows) throws IOException {
    for (int number = 0; number < rows.length; number++) {
      writer.write(rows[number]);
    }
  }
}
