"""The simulator's files against TiCDC's own: decoded and encoded again they are the same bytes."""

import json
import re
import tarfile
from collections import defaultdict

import pytest
from golden.corpus import FOLDER, GoldenCase
from unit.simulate_golden import tables_of, value_from

from pipeline.simulate import files
from pipeline.simulate.ddl import SimulatedDdl
from pipeline.simulate.files import CanalCodec, CsvCodec, schema_file

SCENARIOS = ("key_updates", "lifecycle", "all_types", "orders_small")
KINDS = re.compile(rb'"mysqlType":\{[^}]*\}')
CLOCK = re.compile(rb'"ts":\d+')


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(files, "clock", lambda: 1)


def tree(scenario, config):
    """Path below the root → content."""
    with tarfile.open(FOLDER / scenario / f"{config}.tar.gz") as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read() for member in archive if member.isfile()
        }


def rows(scenario, config, end):
    """Table → its lines, in the order of their files."""
    lines = defaultdict(list)
    for path, content in sorted(tree(scenario, config).items()):
        if "/CDC" in path and not path.endswith(".index"):
            name = "/".join(path.split("/")[:2]).replace("/", ".")
            lines[name] += [line + b"\r\n" for line in content.split(end)[:-1]]
    return lines


def normal(line):
    return KINDS.sub(b'"mysqlType":{}', CLOCK.sub(b'"ts":1', line))


def image(table, sent):
    return sent and {name: value_from(table.column(name), decoded(table, name, text)) for name, text in sent.items()}


def decoded(table, name, text):
    return text.encode("latin-1") if text is not None and table.column(name).parsed.is_binary else text


def events(scenario):
    """Each line of Canal-JSON, as what the simulator encodes."""
    tables = tables_of(GoldenCase(scenario, "simple_json"))
    for name, lines in rows(scenario, "storage_canal_day", b"\r\n").items():
        for line in lines if name in tables else ():
            told = json.loads(line)
            op, data, old = told["type"].lower(), told["data"][0], (told["old"] or [None])[0]
            if {*data} != {column.name for column in tables[name].sent_columns}:
                continue  # of a version after the first one
            after, before = image(tables[name], data), image(tables[name], old)
            images = (after, None) if op == "delete" else (before, after)
            yield name, tables[name], line, (op, *images, told["_tidb"]["commitTs"])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_line_of_canal_json_is_the_one_that_ticdc_wrote(scenario):
    count = 0
    for _, table, line, event in events(scenario):
        assert normal(CanalCodec(table).lines(*event).encode()) == normal(line)
        count += 1
    assert count > 100


@pytest.mark.parametrize("scenario", ["key_updates", "all_types", "orders_small"])
def test_every_line_of_csv_is_the_one_that_ticdc_wrote(scenario):
    """With the events of the Canal-JSON of the same changes: one file of CSV holds the same in the same order."""
    written = defaultdict(bytes)
    for path, content in sorted(tree(scenario, "storage_csv_day").items()):
        if "/CDC" in path and path.endswith(".csv"):
            name = ".".join(path.split("/")[:2])
            written[name] += content.partition(b"\r\n")[2]
    ours = defaultdict(bytes)
    for name, table, _, event in events(scenario):
        ours[name] += CsvCodec(table).lines(*event).encode()
    assert ours
    assert {name: ours[name] for name in ours} == {name: written[name] for name in ours}


@pytest.mark.parametrize("scenario", ["lifecycle", "all_types", "orders_small"])
def test_every_first_schema_file_of_a_table_is_the_one_that_ticdc_wrote(scenario):
    """But for the default of a CREATE that TiDB writes otherwise than it shows it, and unknown collations."""
    tables, count = tables_of(GoldenCase(scenario, "simple_json")), 0
    for path, content in sorted(tree(scenario, "storage_csv_day").items()):
        if "/meta/schema_" not in path:
            continue
        told = json.loads(content)
        table = tables.get(f"{told['Schema']}.{told['Table']}")
        if table is None or told["Type"] != 3 or len(told["TableColumns"]) != len(table.columns):
            continue
        ddl = SimulatedDdl(told["Query"], told["Type"], told["Schema"], told["Table"])
        ours, written = schema_file(told["Schema"], table, told["TableVersion"], ddl)
        assert json.loads(written)["TableColumns"] == told["TableColumns"]
        assert (ours, written) == (path, content)
        count += 1
    assert count >= 5


def test_a_database_has_files_of_its_own():
    path, content = schema_file("shop", None, 450000000026148866, SimulatedDdl("CREATE DATABASE `shop`", 1, "shop"))
    assert (path, content) == next(
        (path, content)
        for path, content in tree("orders_small", "storage_csv_day").items()
        if path.startswith("shop/meta/schema_")
    )
