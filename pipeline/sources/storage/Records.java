package ticdc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.Arrays;

import org.apache.spark.sql.api.java.UDF2;

/** The records of a piece of a file: the function of `frame.py`. */
public class Records implements UDF2 {
    /** `bounds`: where each record begins and ends in the content, as integers of 32 bits, the lowest byte first. */
    public Object call(Object content, Object bounds) throws Exception {
        if (content == null) {
            return null;
        }
        IntBuffer places = ByteBuffer.wrap((byte[]) bounds).order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
        Object[] records = new Object[places.remaining() / 2];
        for (int number = 0; number < records.length; number++) {
            records[number] = Arrays.copyOfRange((byte[]) content, places.get(2 * number), places.get(2 * number + 1));
        }
        return records;
    }
}
