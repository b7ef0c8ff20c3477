"""The bench's rows as a changefeed's files: those of its Avro, in the bytes of the simulator's encoders."""

import csv
import io
import json
import re

from unit.test_simulate_bench_by_cut import SEED, TABLE, module, order_line

from pipeline.simulate.files import CanalCodec, CsvCodec
from pipeline.simulate.tables import value_of

files = module("files")
COUNT = 3_001
KINDS = {column.name: column.parsed for column in TABLE.columns}
OPS = {"I": "insert", "D": "delete"}


def lines(protocol):
    stream = files.STREAM[protocol](protocol, *SEED)
    return [line for block in stream.lines(COUNT) for line in block], stream.truth


def truth_of_avro():
    stream = order_line.Stream(order_line.Ids(11, 12), *SEED)
    for _ in stream.blocks(COUNT):
        pass
    return stream.truth


def row_of(texts):
    return {name: None if text is None else value_of(KINDS[name], zoned(name, text)) for name, text in texts.items()}


def zoned(name, text):
    return f"{text}+00:00" if KINDS[name].name == "timestamp" else text


def test_lines_of_csv():
    sent, truth = lines("csv")
    assert truth == truth_of_avro()
    codec = CsvCodec(TABLE)
    for commit_ts, line in sent:
        images = []
        for op, table, schema, at, update, *texts in csv.reader(io.StringIO(line.decode(), newline="")):
            assert (table, schema, int(at)) == ("order_line", "bench", commit_ts)
            values = {name: None if text == r"\N" else text for name, text in zip(KINDS, texts, strict=True)}
            images.append((OPS[op], update, row_of(values)))
        if len(images) > 1:
            op, before, after = "update", images[0][2], images[1][2]
        else:
            ((op, _, row),) = images
            before, after = (row, None) if op == "delete" else (None, row)
        assert codec.lines(op, before, after, commit_ts).encode() == line


def test_lines_of_canal_json():
    sent, truth = lines("canal-json")
    assert truth == truth_of_avro()
    codec = CanalCodec(TABLE)
    statuses = KINDS["ol_status"].members
    for commit_ts, line in sent:
        message = json.loads(line)
        (data,), (old,) = message["data"], message["old"] or [None]
        after, before = (
            {**row, "ol_status": statuses[int(row["ol_status"]) - 1]} if row else None for row in (data, old)
        )
        op = message["type"].lower()
        after, before = (row_of(row) if row else None for row in (after, before))
        images = (after, None) if op == "delete" else (before, after)
        written = codec.lines(op, *images, commit_ts).encode()
        assert re.sub(rb'"ts":\d+', b"", written) == re.sub(rb'"ts":\d+', b"", line)
