import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Loads many tables side by side, and says what Python asks of each when a warehouse is opened (`compiled`). */
public final class TableReader {

  private final ObjectMapper json = new ObjectMapper();

  /** The names of a namespace's tables, as a JSON array. */
  public String names(Catalog catalog, Namespace namespace) throws Exception {
    ArrayList names = new ArrayList();
    for (Iterator tables = catalog.listTables(namespace).iterator(); tables.hasNext(); ) {
      names.add(((TableIdentifier) tables.next()).name());
    }
    return json.writeValueAsString(names);
  }

  /**
   * The tables of these names, and what each says of itself, null where there is none: a JSON array in base 64, since
   * py4j takes a text apart at each backslash, and bytes one by one.
   *
   * `names` is JSON: [[namespace, name], ...].
   */
  public Object[] loaded(final Catalog catalog, String names, int threads) throws Exception {
    List wanted = (List) json.readValue(names, List.class);
    Table[] tables = new Table[wanted.size()];
    ArrayList said = new ArrayList();
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      ArrayList loads = new ArrayList();
      for (int place = 0; place < tables.length; place++) {
        final List name = (List) wanted.get(place);
        loads.add(
            pool.submit(
                new Callable() {
                  public Object call() {
                    return read(catalog, (String) name.get(0), (String) name.get(1));
                  }
                }));
      }
      for (int place = 0; place < tables.length; place++) {
        Object[] read = (Object[]) ((Future) loads.get(place)).get();
        tables[place] = (Table) read[0];
        said.add(read[1]);
      }
    } catch (ExecutionException failed) {
      throw failed.getCause() instanceof Exception ? (Exception) failed.getCause() : failed;
    } finally {
      pool.shutdownNow();
    }
    return new Object[] {tables, Base64.getEncoder().encodeToString(json.writeValueAsBytes(said))};
  }

  private static Object[] read(Catalog catalog, String namespace, String name) {
    Table table;
    try {
      table = catalog.loadTable(TableIdentifier.of(Namespace.of(new String[] {namespace}), name));
    } catch (NoSuchTableException none) {
      return new Object[2];
    }
    HashMap refs = new HashMap();
    ArrayList branches = new ArrayList();
    for (Iterator entries = table.refs().entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      SnapshotRef ref = (SnapshotRef) entry.getValue();
      refs.put(entry.getKey(), Long.valueOf(ref.snapshotId()));
      if (ref.isBranch()) {
        branches.add(entry.getKey());
      }
    }
    HashMap said = new HashMap();
    said.put("uuid", table.uuid().toString());
    said.put("location", table.location());
    said.put("properties", table.properties());
    said.put("schema_id", Integer.valueOf(table.schema().schemaId()));
    said.put("schema", SchemaParser.toJson(table.schema()));
    said.put("refs", refs);
    said.put("branches", branches);
    said.put("head", table.currentSnapshot() == null ? null : SnapshotParser.toJson(table.currentSnapshot()));
    return new Object[] {table, said};
  }
}
