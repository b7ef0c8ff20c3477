"""The simulated encoder against TiCDC's own bytes: same schemas, same keys, same values, bit for bit."""

import base64
import gzip
import io
import json
import os
import re
from collections import defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path

import fastavro
import pytest

from pipeline.simulate.avro import TableCodec, checkpoint_message, ddl_message
from pipeline.simulate.ddl import create_table
from pipeline.simulate.schemas import AvroOptions, sanitised, subject_of, topic_of
from pipeline.simulate.shop import TABLES
from pipeline.simulate.tables import SimulatedColumn, SimulatedTable, value_of

GOLDEN = Path(os.environ.get("TICDC_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))
CONFIGS = {
    "avro_ext_precise_long": AvroOptions(),
    "avro_ext_string_string": AvroOptions(decimal="string", bigint_unsigned="string"),
    "avro_noext": AvroOptions(extension=False),
}
SCENARIOS = ("orders_small", "all_types", "key_updates", "lifecycle", "ddl")
CASES = [(scenario, config) for scenario in SCENARIOS for config in CONFIGS]

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data are not beside this checkout")


@cache
def lines(scenario, name):
    path = GOLDEN / scenario / f"{name}.jsonl"
    text = path.read_text() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@cache
def expected(scenario):
    return json.loads(gzip.decompress((GOLDEN / scenario / "expected.json.gz").read_bytes()))


@cache
def registry(scenario, config):
    return json.loads((GOLDEN / scenario / f"{config}.registry.json").read_text())


def columns_of_index(text):
    return tuple(re.sub(r"\(\d+\)$", "", name).strip("`") for name in text.split(","))


def table_of(state):
    """The table that TiDB describes: columns from SHOW COLUMNS, keys from SHOW CREATE TABLE."""
    columns = tuple(
        SimulatedColumn(c["name"], c["type"], c["nullable"], c["default"], virtual=c.get("generated") == "virtual")
        for c in state["columns"]
    )
    primary = re.search(r"PRIMARY KEY \(([^)]*)\)", state["ddl"])
    unique = re.findall(r"UNIQUE KEY `[^`]*` \(([^)]*)\)", state["ddl"])
    return SimulatedTable(
        state["schema"],
        state["table"],
        columns,
        columns_of_index(primary[1]) if primary else (),
        tuple(columns_of_index(index) for index in unique),
    )


def has_handle(table):
    return bool(table.primary_key) or any(
        not any(table.column(name).nullable for name in index) for index in table.unique
    )


def states(scenario):
    """Every state of every table that TiDB showed, in order: (step, table, raw rows)."""
    for step in [*expected(scenario)["steps"], {"step": -1, "tables": expected(scenario)["final"]}]:
        for state in step.get("tables", {}).values():
            table = table_of(state)
            if has_handle(table):
                yield step["step"], table, state


def topic_schemas(scenario, config):
    texts = defaultdict(set)
    for entry in registry(scenario, config):
        texts[entry["subject"]].add(entry["schema"])
    return texts


def value_from(column, raw):
    """A value of the MySQL text protocol (binary as {"hex": …}) as a Python value."""
    if raw is None:
        return None
    if isinstance(raw, dict):
        data = bytes.fromhex(raw["hex"])
        return int.from_bytes(data, "big") if column.parsed.name == "bit" else data
    return value_of(column.parsed, raw)


def truth_rows(table, state):
    names = [column["name"] for column in state["columns"]]
    exact = exact_floats(state)
    for index, raw in enumerate(state["rows"]):
        row = {name: value_from(table.column(name), value) for name, value in zip(names, raw, strict=True)}
        yield row | exact.get(index, {})


def exact_floats(state):
    """FLOAT columns as stored; the text protocol rounds them (wire-formats.md, "Layout")."""
    exact = state.get("exact") or {}
    found = defaultdict(dict)
    for name, values in exact.items():
        for index, value in enumerate(values):
            if value is not None:
                found[index][name] = float(value)
    return found


@pytest.mark.parametrize(("scenario", "config"), CASES)
def test_the_schemas_formed_are_the_texts_that_ticdc_registered_and_no_others(scenario, config):
    registered, formed = topic_schemas(scenario, config), defaultdict(set)
    for _, table, _ in states(scenario):
        codec = TableCodec(table, CONFIGS[config])
        topic = topic_of("tidb", table.schema, table.name)
        formed[subject_of(topic, "key")].add(codec.key_schema)
        formed[subject_of(topic, "value")].add(codec.value_schema)
    assert {subject: formed[subject] & texts for subject, texts in registered.items()} == registered
    never_sent = {subject: texts - registered[subject] for subject, texts in formed.items() if subject in registered}
    assert not any(never_sent.values())


@pytest.mark.parametrize(("scenario", "config"), [case for case in CASES if case[0] != "orders_small"])
def test_every_message_is_byte_for_byte_what_its_row_encodes_to(scenario, config):
    """Rows come from TiDB's own SELECT after the step, not from decoding the message.

    `orders_small` has no SELECT at every step: the next test decodes its messages and encodes them again.
    """
    sent = sent_rows(scenario, config)
    for step, table, state in states(scenario):
        topic, codec = topic_of("tidb", table.schema, table.name), TableCodec(table, CONFIGS[config])
        rows = list(truth_rows(table, state))
        for message in sent.pop((step, topic), ()):
            candidates = {encoded(codec, row, message, op) for row in rows for op in "cu"}
            assert (message["key"], message["value"]) in candidates, (step, topic)
    assert not sent


@pytest.mark.parametrize("config", CONFIGS)
def test_decoded_messages_of_the_shop_encode_to_the_same_bytes(config):
    """Decoded with TiCDC's schemas, encoded from our own table definitions: inserts, updates and deletes."""
    schemas = {entry["id"]: json.loads(entry["schema"]) for entry in registry("orders_small", config)}
    codecs = {topic_of("tidb", t.schema, t.name): TableCodec(t, CONFIGS[config]) for t in TABLES}
    count = 0
    for message in lines("orders_small", config):
        if message["kind"] != "row":
            continue
        codec, key, value = codecs[message["topic"]], decode(message["key"]), decode(message["value"])
        row = decoded(schemas, key if value is None else value, codec.table)
        raw = message | {"key": key, "value": value}
        assert (key, value) in {encoded(codec, row, raw, op) for op in "cu"}, message["seq"]
        count += 1
    assert count == 5617


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ddl_and_checkpoint_messages_are_byte_for_byte_those_of_ticdc(scenario):
    kinds = set()
    for message in lines(scenario, "avro_watermark"):
        value = decode(message["value"])
        if message["kind"] == "resolved":
            assert value == checkpoint_message(message["commit_ts"])
        elif message["kind"] == "ddl":
            told = json.loads(value[1:])
            ours = ddl_message(told["query"], told["type"], told["schema"], told["table"], told["commitTs"])
            assert value == ours
        kinds.add(message["kind"])
    assert kinds == {"row", "resolved", "ddl"}


def test_the_columns_of_the_shops_ddl_are_worded_as_ticdc_words_them():
    """Ours writes `DEFAULT NULL` and the keys out where TiDB repeats the statement's own form."""
    queries = {}
    for message in lines("orders_small", "avro_watermark"):
        if message["kind"] == "ddl":
            told = json.loads(decode(message["value"])[1:])
            queries[told["table"]] = plain(told["query"])
    for table in TABLES:
        assert plain(create_table(table).query).rstrip(")").startswith(queries[table.name].rstrip(")"))


def plain(query):
    """A CREATE TABLE without its keys."""
    keys = r" AUTO_INCREMENT| PRIMARY KEY(?!\()| /\*T.*?\*/| DEFAULT NULL|,(PRIMARY KEY|UNIQUE|INDEX).*"
    return re.sub(keys, "", query)


def decode(text):
    return None if text is None else base64.b64decode(text)


def sent_rows(scenario, config):
    """The row messages that carry a row (no deletes), by (step, topic), their bytes decoded from base64."""
    found = defaultdict(list)
    for message in lines(scenario, config):
        if message["kind"] == "row" and message["value"] is not None:
            raw = {"key": decode(message["key"]), "value": decode(message["value"])}
            found[message["step"], message["topic"]].append(message | raw)
    return found


def encoded(codec, row, message, op):
    """Our key and value for the row, under the message's schema ids and commit ts."""
    key = codec.key(row, int.from_bytes(message["key"][1:5], "big"))
    if message["value"] is None:
        return key, codec.delete(message["commit_ts"])
    return key, codec.value(row, int.from_bytes(message["value"][1:5], "big"), op, message["commit_ts"])


def decoded(schemas, message, table):
    """A message's row by the registered schema, with each column as TiDB's text (or bytes) read back."""
    body = io.BytesIO(message[5:])
    fields = fastavro.schemaless_reader(body, fastavro.parse_schema(schemas[int.from_bytes(message[1:5], "big")]))
    assert not body.read()
    columns = {sanitised(column.name): column for column in table.columns}
    return {columns[n].name: from_avro(columns[n], v) for n, v in fields.items() if n in columns}


def from_avro(column, value):
    kind = column.parsed
    if value is None or isinstance(value, Decimal):
        return value
    if kind.name == "bit":
        return int.from_bytes(value, "big")
    if kind.name == "bigint" and kind.unsigned:
        return int(value) % (1 << 64)
    return value_of(kind, value) if isinstance(value, str) else value
