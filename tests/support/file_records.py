"""Records of a changefeed's file as a raw frame, and what a protocol makes of them."""

from pipeline.model.places import FILE_TYPE, FILES, position_in_files

SCHEMA = f"topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, file {FILE_TYPE}"


class OneVersion:
    """`KnownVersions` of one version, whatever is asked for."""

    def __init__(self, version):
        self.version = version

    def versions(self, _wanted):
        return {(self.version.table.key, self.version.version): self.version}

    def of_tables(self, _tables):
        return [self.version]


def raw_frame(spark, values, version, extension):
    """The raw frame of a file of rows of this version. `values`: bytes."""
    table, number = version.table, int(version.version)
    file = (f"s/t/7/CDC000001.{extension}", 3, "ROWS", table.schema, table.table, number, None)
    rows = [
        (FILES, 0, position_in_files(3, place), None, None, bytearray(value), file)
        for place, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def decoded(protocol, raw, mapping):
    """The changes that are in a raw frame, in order, and the messages that it has."""
    prepared = protocol.prepare(raw).cache()
    messages = protocol.read(prepared)
    changes = []
    for table in messages.tables:
        rows = prepared.where(protocol.where(table))
        changes += protocol.recipe(table, mapping).of(rows).orderBy("_offset").collect()
    return changes, messages
