"""The checks themselves: a warehouse that is right passes, and each way of being wrong is told."""

import copy
import datetime as dt
from dataclasses import dataclass, field

import pytest
from golden import checking
from golden.comparing import report
from golden.corpus import GoldenCase
from golden.decode import columns_of, events, replayed
from golden.expected import tables_at_the_end
from golden.loading import LoadedCase
from golden.warehouse import CurrentTable

OWN_TYPES = {"_commit_ts": "bigint", "_unrepresentable": "map<string,string>"}
ENVELOPE_TYPES = {
    **OWN_TYPES,
    "_op": "string",
    "_commit_time": "timestamp",
    "_topic": "string",
    "_kafka_partition": "int",
    "_offset": "bigint",
    "_index": "int",
    "_schema_id": "bigint",
    "_batch_id": "bigint",
    "_ingested_at": "timestamp",
}


@dataclass
class RightWarehouse:
    """What a warehouse must be after a case, made by replaying it; a test then breaks something in it."""

    tables: dict
    logs: dict
    aside: list = field(default_factory=list)

    def current_names(self):
        return sorted(self.tables)

    def current(self, name):
        return self.tables[name]

    def changes(self):
        return self.logs

    def types_of_changes(self, _name):
        return ENVELOPE_TYPES

    def own(self, name):
        return self.aside if name == "held" else []


def right(loaded):
    types = columns_of(loaded.case)
    tables = {
        name: CurrentTable(
            {column.name: column.type for column in types[name]},
            dict(OWN_TYPES),
            [copy.deepcopy(event.row) for event in rows.values()],
            [event.commit_ts for event in rows.values()],
        )
        for name, rows in replayed(loaded.events()).items()
    }
    logs = {}
    for event in loaded.events():
        logs.setdefault(event.table, []).append(change(loaded, event))
    return RightWarehouse(tables, logs)


def change(loaded, event):
    ts = event.commit_ts
    return {
        "_op": event.op,
        "_commit_ts": ts,
        "_commit_time": ts and dt.datetime.fromtimestamp((ts >> 18) / 1000, dt.UTC),
        "_topic": loaded.topic(event.record),
        "_kafka_partition": event.record.partition,
        "_offset": event.offset,
        "_index": 0,
        "_schema_id": loaded.schema_id(event),
        "_unrepresentable": list(event.row.lost.items()) or None,
        **event.row.values,
    }


def loaded_case(scenario, config):
    """A case as if it were produced; the registry gave the ids that the files have, plus 100."""
    case = GoldenCase(scenario, config)
    ids = {(entry.subject, entry.id): entry.id + 100 for entry in case.schemas}
    return LoadedCase(case, None, "p", ids, case.partitions, list(case.records))


def told(loaded, warehouse):
    case = loaded.case
    found = [
        *checking.set_aside(case, warehouse),
        *checking.tables_are_those_of_tidb(case, warehouse),
        *checking.changes_differ(loaded, warehouse),
    ]
    if case.scenario == "ddl":
        return [*found, *checking.newest_rows_differ(loaded, warehouse)]
    tables = tables_at_the_end(case).values()
    return [
        *found,
        *checking.currents_differ(case, warehouse, tables),
        *checking.states_differ(loaded, warehouse),
    ]


CASES = [
    ("all_types", "avro_ext_precise_long"),
    ("all_types", "avro_checksum_watermark"),
    ("lifecycle", "avro_noext"),
    ("key_updates", "avro_ext_precise_long_p3"),
]


@pytest.mark.parametrize(("scenario", "config"), CASES)
def test_a_right_warehouse_passes_every_check(scenario, config):
    loaded = loaded_case(scenario, config)
    assert report(told(loaded, right(loaded))) == "0 differences"


def test_without_ddl_only_rows_of_older_schemas_may_differ():
    """A replayed warehouse is right, too, once columns that TiDB has no more are its business alone."""
    loaded = loaded_case("ddl", "avro_noext")
    warehouse = right(loaded)
    assert report(told(loaded, warehouse)) == "0 differences"
    rows = warehouse.tables["d.t"].rows
    old = next(row for row in rows if row.values["id"] == 12)
    old.values["d1"] = "anything"
    assert told(loaded, warehouse) == []
    new = next(row for row in rows if row.values["id"] == 30)
    new.values["a"] = 31
    assert "d.t [id=30] a: expected 30, got 31" in report(told(loaded, warehouse))
    del rows[0]
    assert len(told(loaded, warehouse)) == 2


def test_a_column_that_tidb_dropped_may_stay_and_one_that_it_never_had_may_not():
    loaded = loaded_case("ddl", "avro_noext")
    warehouse = right(loaded)
    warehouse.tables["d.t"].types.update({"nd": "string", "b__v1": "string"})
    assert told(loaded, warehouse) == []
    warehouse.tables["d.t"].types["zz"] = "string"
    assert "zz" in report(told(loaded, warehouse))


def value_changed(warehouse):
    warehouse.tables["types.t_float"].rows[0].values["f2"] = 0.01


def float_not_single(warehouse):
    row = next(row for row in warehouse.tables["types.t_float"].rows if row.values["id"] == 6)
    row.values["f"] = 0.1


def microsecond_lost(warehouse):
    row = next(row for row in warehouse.tables["types.t_time"].rows if row.values["id"] == 6)
    row.values["dt6"] = row.values["dt6"].replace(microsecond=999998)


def null_for_nothing(warehouse):
    warehouse.tables["types.t_string"].rows[0].values["ve"] = None


def text_not_kept(warehouse):
    row = next(row for row in warehouse.tables["types.t_zero"].rows if row.lost)
    row.lost.popitem()


def row_missing(warehouse):
    table = warehouse.tables["types.t_int"]
    del table.rows[0], table.commit_ts[0]


def row_twice(warehouse):
    table = warehouse.tables["types.t_int"]
    table.rows.append(table.rows[0])
    table.commit_ts.append(table.commit_ts[0])


def commit_ts_of_another_event(warehouse):
    warehouse.tables["types.t_bit"].commit_ts[0] += 1


def type_too_wide(warehouse):
    warehouse.tables["types.t_int"].types["ti"] = "bigint"


def column_missing(warehouse):
    del warehouse.tables["types.t_json"].types["j"]


def virtual_column(warehouse):
    warehouse.tables["types.t_generated"].types["vg"] = "int"


def table_missing(warehouse):
    del warehouse.tables["types.t_vector"]


def table_too_many(warehouse):
    warehouse.tables["types.t_new"] = warehouse.tables["types.t_int"]


def event_missing(warehouse):
    del warehouse.logs["types.t_wide"][2]


def event_twice(warehouse):
    warehouse.logs["types.t_wide"].append(warehouse.logs["types.t_wide"][2])


def event_in_another_table(warehouse):
    warehouse.logs["types.t_int"].append(warehouse.logs["types.t_wide"].pop())


def delete_with_values(warehouse):
    change = next(change for change in warehouse.logs["types.t_int"] if change["_op"] == "delete")
    change["ti"] = 0


def wrong_op(warehouse):
    warehouse.logs["types.t_int"][0]["_op"] = "upsert"


def wrong_schema_id(warehouse):
    warehouse.logs["types.t_int"][0]["_schema_id"] += 1


def record_held(warehouse):
    warehouse.aside.append(
        {
            "topic": "t",
            "kafka_partition": 0,
            "offset": 0,
            "reason": "NO_HANDLE_KEY",
            "status": "open",
            "schema_name": "types",
            "table_name": "t_int",
        }
    )


@pytest.mark.parametrize(
    "breakage",
    [
        value_changed,
        float_not_single,
        microsecond_lost,
        null_for_nothing,
        text_not_kept,
        row_missing,
        row_twice,
        commit_ts_of_another_event,
        type_too_wide,
        column_missing,
        virtual_column,
        event_missing,
        event_twice,
        event_in_another_table,
        delete_with_values,
        wrong_op,
        wrong_schema_id,
        table_too_many,
        record_held,
    ],
)
def test_each_way_of_being_wrong_is_told(breakage):
    loaded = loaded_case("all_types", "avro_ext_precise_long")
    warehouse = right(loaded)
    breakage(warehouse)
    assert told(loaded, warehouse) != []


def test_a_missing_table_is_told():
    case = GoldenCase("all_types", "avro_ext_precise_long")
    warehouse = right(loaded_case(case.scenario, case.config))
    del warehouse.tables["types.t_vector"]
    found = list(checking.currents_differ(case, warehouse, tables_at_the_end(case).values()))
    assert [str(one) for one in found] == ["types.t_vector: expected 'a table of 3 rows', got 'no table'"]


def test_an_excepted_table_that_is_right_is_told():
    case = GoldenCase("all_types", "avro_checksum_watermark")
    other = GoldenCase("all_types", "avro_ext_string_string")
    warehouse = right(loaded_case(other.scenario, other.config))
    assert not list(checking.currents_differ(case, warehouse, tables_at_the_end(case).values()))
    found = report(list(checking.needless_exceptions(case, warehouse)))
    assert "the exception can go" in found


def test_a_difference_names_table_key_column_and_both_values():
    loaded = loaded_case("key_updates", "avro_noext")
    warehouse = right(loaded)
    row = next(row for row in warehouse.tables["ku.t_comp"].rows if row.values["b"] == "z")
    row.values["v"] = 99
    found = checking.currents_differ(loaded.case, warehouse, tables_at_the_end(loaded.case).values())
    assert report(list(found)) == ("1 differences\nku.t_comp [a=11, b='z'] v: expected 2, got 99")


def test_events_stand_at_offsets_counted_per_partition():
    case = GoldenCase("key_updates", "avro_ext_precise_long_p3")
    places = [(event.record.topic, event.record.partition, event.offset) for event in events(case)]
    assert len(set(places)) == len(places) == len(case.records)
