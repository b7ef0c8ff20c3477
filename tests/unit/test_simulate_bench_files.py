"""The bench's rows as a changefeed's files: those of its Avro, in the bytes of the simulator's encoders."""

import csv
import io
import json
import re

from unit.test_simulate_bench_by_cut import SEED, TABLE, by_cut, module, order_line

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


def test_messages_of_canal_json_are_the_lines_of_its_files():
    stream = by_cut.BY_CUT["canal-json"](*SEED)
    values = [value for block in stream.blocks(COUNT) for _, value in block]
    rows = [value for value in values if b'"type":"TIDB_WATERMARK"' not in value]
    made_at = rb'"ts":\d+'
    lines_of_files = [re.sub(made_at, b"", line.removesuffix(b"\r\n")) for _, line in lines("canal-json")[0]]
    assert [re.sub(made_at, b"", row) for row in rows] == lines_of_files
    assert (stream.truth, values[0] in rows, values[-1] in rows) == (truth_of_avro(), False, False)
    first, *_ = next(by_cut.BY_CUT["canal-json"]("7/0", 1, 4).blocks(1))
    assert json.loads(first[1])["isDdl"]
