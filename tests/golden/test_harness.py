"""The harness alone, without Spark: golden records replayed in plain Python must give TiDB's own tables."""

import pytest
from golden.comparing import assert_none, mappings_differ, rows_differ
from golden.corpus import FOLDER, manifest
from golden.decode import columns_of, events, replayed
from golden.exceptions import CASES, TABLES, unread_case, unread_table
from golden.expected import dumped_steps, tables_after, tables_at_the_end

READ = [case for case in manifest() if case.protocol == "avro"]
READ_AT_ALL = [case for case in manifest() if unread_case(case) is None]
REPLAYED = [case for case in READ if case.scenario != "ddl" and unread_table(case, "*") is None]
STEPS = [case for case in REPLAYED if case.config in ("avro_ext_precise_long", "avro_ext_string_string")]


def differences(case, tables, found):
    """The replayed tables against TiDB's, rows and types."""
    states, sent = replayed(found), columns_of(case)
    for table in tables.values():
        if unread_table(case, table.source):
            assert table.name not in states
            continue
        rows = [event.row for event in states.get(table.name, {}).values()]
        yield from rows_differ(table.name, [*table.types], table.key, table.rows, rows)
        types = {column.name: column.type for column in sent[table.name]}
        yield from mappings_differ(table.name, "type", table.types, types)


@pytest.mark.parametrize("case", REPLAYED, ids=str)
def test_replayed_records_are_tidbs_tables_at_the_end(case):
    assert_none(list(differences(case, tables_at_the_end(case), events(case))))


@pytest.mark.parametrize("case", STEPS, ids=str)
def test_replayed_records_are_tidbs_tables_after_every_step(case):
    found, steps = events(case), dumped_steps(case)
    for step in steps:
        sent = [event for event in found if event.record.step <= step]
        assert_none(list(differences(case, tables_after(case, step), sent)))
    assert steps


def test_a_raw_changefeed_leaves_rows_behind_that_no_consumer_can_remove():
    """The exception of the golden test, proven."""
    [key_updates, _] = [case for case in READ if case.config.endswith("_raw")]
    found = replayed(events(key_updates))
    left = tables_at_the_end(key_updates)["ku.t_shift_nc"]
    assert len(found[left.name]) > len(left.rows)


def test_the_repository_has_every_golden_file_that_is_read():
    for case in READ_AT_ALL:
        assert (FOLDER / case.scenario / f"{case.config}.jsonl.gz").is_file(), case
        assert case.records
        assert case.schemas or case.protocol != "avro"
        assert case.steps


def test_every_exception_excepts_something():
    for exception in CASES:
        assert any(exception.covers(case) for case in manifest()), exception
    for exception in TABLES:
        cases = [case for case in READ_AT_ALL if exception.covers(case)]
        assert cases, exception
        assert exception.table == "*" or all(exception.table in case.final for case in cases), exception
