"""`python -m pipeline.runtime.archiving`: make the archive of Spark's classes (`classes`), as `make setup` does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pipeline.runtime import class_archive
from pipeline.runtime.session import session
from pipeline.settings import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE = 300.0

_SETTINGS = """
name: classes
source: {kind: kafka, protocol: avro, bootstrap_servers: "localhost:1", topics: [none]}
registry: {url: "http://localhost:1"}
warehouse: {path: ./warehouse}
checkpoint: ./checkpoint
"""


def main() -> int:
    """Make the archive, unless it is there: half a minute, 180 MB. What goes wrong is printed, and is no failure."""
    place = class_archive.place()
    if place.is_file():
        return 0
    fresh = place.with_suffix(f".{os.getpid()}")
    sys.stderr.write("archiving Spark's classes, so that commands start sooner\n")
    try:
        _driver(fresh)
        fresh.rename(place)  # whole: a JVM that reads half of one dies
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"the classes could not be archived, so commands start more slowly: {error}\n")
    finally:
        fresh.unlink(missing_ok=True)
    for old in place.parent.glob("ticdc-warehouse-*.jsa"):
        if old != place:
            old.unlink()
    return 0


def _driver(target: Path) -> None:
    """Let a process start a driver that writes the archive when it ends."""
    command = [sys.executable, "-P", "-m", __spec__.name]
    environment = {**os.environ, class_archive.WRITES: str(target)}
    subprocess.run(command, env=environment, capture_output=True, check=True, timeout=_PATIENCE)  # noqa: S603 - ourselves


def _make() -> None:
    """Do a little of what all drivers do, and end the JVM well."""
    with tempfile.TemporaryDirectory() as folder:
        settings = parse(_SETTINGS, Path(folder))
        settings.warehouse.path.mkdir()
        spark = session(settings)
        _work(spark, Path(folder))
        gateway = cast("Any", spark.sparkContext)._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _work(spark: SparkSession, folder: Path) -> None:
    """Make a table, append, delete by key, aggregate, read JSON, stream."""
    spark.sql("CREATE NAMESPACE warehouse.a")
    spark.sql(
        "CREATE TABLE warehouse.a.t (id BIGINT, v STRING, m MAP<STRING, STRING>, d DECIMAL(20, 0), at TIMESTAMP) "
        "USING iceberg TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = 'merge-on-read')"
    )
    columns = "id", "CAST(id AS STRING) v", "MAP('a', CAST(id AS STRING)) m", "CAST(id AS DECIMAL(20, 0)) d", "now() at"
    rows = spark.range(100).selectExpr(*columns)
    rows.writeTo("warehouse.a.t").append()
    spark.sql("MERGE INTO warehouse.a.t t USING (SELECT 5L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    spark.sql("SELECT v, MAX(id), COUNT_IF(d > 5) FROM warehouse.a.t GROUP BY v").collect()
    rows.selectExpr("FROM_JSON(TO_JSON(STRUCT(id, v)), 'id BIGINT, v STRING') j").where("j.id > 5").collect()
    lines = folder / "lines"
    lines.mkdir()
    (lines / "one.txt").write_text("a\nb\n")

    def batch(frame: DataFrame, _number: int) -> None:
        frame.count()

    stream = spark.readStream.format("text").load(str(lines)).writeStream.foreachBatch(batch)
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    stream.start().awaitTermination()


if __name__ == "__main__":
    if class_archive.WRITES in os.environ:
        _make()
    else:
        sys.exit(main())
