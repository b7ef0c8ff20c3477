"""A table's columns against its layout: what is told, and which statement undoes it."""

import pytest

from pipeline.model import change, types
from pipeline.model.columns import SourceColumn, TableVersion
from pipeline.model.names import TableName, WarehouseName
from pipeline.warehouse.alterations import (
    COLUMNS_CHANGED,
    NOTHING_NOTED,
    Noted,
    compared,
    fields,
    of_changes,
    of_current,
    reason,
    with_ids,
)
from pipeline.warehouse.evolution import Policy, meet
from pipeline.warehouse.layout import Layout

NAME = WarehouseName("shop", "t")
SPEC = {
    "bigint": "long", "timestamp": "timestamptz", "timestamp_ntz": "timestamp", "decimal(20,0)": "decimal(20, 0)",
    "array<float>": {"type": "list", "element-id": 90, "element": "float", "element-required": False},
    "map<string,string>": {
        "type": "map", "key-id": 91, "key": "string", "value-id": 92, "value": "string", "value-required": False,
    },
}  # fmt: skip


def layout(*, before=False):
    columns = tuple(
        SourceColumn(name, kind, tidb, nullable=True)
        for name, kind, tidb in (
            ("id", types.BIGINT, "BIGINT"), ("v", types.INT, "INT"), ("d", types.UNSIGNED_BIGINT, "BIGINT UNSIGNED"),
            ("at", types.TIMESTAMP, "TIMESTAMP"), ("day", types.TIMESTAMP_NTZ, "DATETIME"),
            ("e", types.VECTOR, "VECTOR"),
        )
    )  # fmt: skip
    made, _ = meet(Layout(before=before), TableVersion(TableName("shop", "t"), 1, columns, ("id",)), Policy())
    return made


def schema_of(wanted):
    """The schema that Iceberg has for these columns."""
    found, inner = [], []
    for number, (place, kind) in enumerate(wanted.items(), 1):
        field = {"id": number, "name": place[-1], "required": False, "type": SPEC.get(kind, kind)}
        (found if len(place) == 1 else inner).append(field)
    for field in found:
        if field["name"] == change.BEFORE:
            field["type"] = {"type": "struct", "fields": inner}
    return {"type": "struct", "schema-id": 0, "fields": found}


def altered(schema, name, /, **changes):
    """The schema with a column of another form; no changes: without it."""
    kept = [{**f, **changes} if f["name"] == name else f for f in schema["fields"] if changes or f["name"] != name]
    return {**schema, "fields": kept}


def added(schema, name, kind="boolean", number=99, **more):
    field = {"id": number, "name": name, "required": False, "type": kind, **more}
    return {**schema, "fields": [*schema["fields"], field]}


def told(schema, was, wanted, claimed=()):
    former = {place: field.id for place, field in fields(was).items()}
    found = compared(NAME, wanted, fields(schema), former, claimed)
    return found, [statement.removeprefix("ALTER TABLE `warehouse`.`shop`.`t` ") for f in found.faults
                   for statement in f.statements]  # fmt: skip


WANTED = of_current(layout())
SCHEMA = schema_of(WANTED)


@pytest.mark.parametrize("wanted", [WANTED, of_changes(layout()), of_changes(layout(before=True))])
def test_a_table_as_it_was_made_differs_in_nothing(wanted):
    found = compared(NAME, wanted, fields(schema_of(wanted)), {})
    assert (found.faults, found.not_ours, reason(found.faults)) == ((), (), "")


def test_a_column_of_a_users_is_told_and_no_fault():
    found, statements = told(added(SCHEMA, "reviewed"), SCHEMA, WANTED)
    assert (found.not_ours, statements) == (("reviewed",), [])


CASES = {
    "renamed": (altered(SCHEMA, "v", name="w"), "RENAME COLUMN `w` TO `v`"),
    "renamed in letters": (altered(SCHEMA, "v", name="V"), "RENAME COLUMN `V` TO `v__`; RENAME COLUMN `v__` TO `v`"),
    "dropped": (altered(SCHEMA, "v"), "ADD COLUMN `v` int"),
    "retyped": (altered(SCHEMA, "v", type="long"), "DROP COLUMN `v`; ADD COLUMN `v` int"),
    "required": (altered(SCHEMA, "v", required=True), "ALTER COLUMN `v` DROP NOT NULL"),
    "required of a user": (added(SCHEMA, "own", required=True), "ALTER COLUMN `own` DROP NOT NULL"),
    "no type of Spark's": (added(SCHEMA, "own", "time"), "DROP COLUMN `own`"),
    "alike": (added(SCHEMA, "ID"), "RENAME COLUMN `ID` TO `ID_2`"),
    "ours": (altered(SCHEMA, "_commit_ts", name="ts"), "RENAME COLUMN `ts` TO `_commit_ts`"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_keeps_a_table_from_being_written_is_told_with_what_undoes_it(case):
    schema, statement = CASES[case]
    found, statements = told(schema, SCHEMA, WANTED)
    assert "; ".join(statements) == statement
    assert reason(found.faults).startswith(f"{COLUMNS_CHANGED}: ")
    assert all(one in reason(found.faults) for one in statements)


def test_a_renamed_column_is_none_of_a_users():
    found, _ = told(altered(SCHEMA, "v", name="w"), SCHEMA, WANTED)
    assert found.not_ours == ()


def test_a_column_that_was_dropped_and_one_that_was_added_are_no_rename():
    found, statements = told(added(altered(SCHEMA, "v"), "w", "int"), SCHEMA, WANTED)
    assert (found.not_ours, statements) == (("w",), ["ADD COLUMN `v` int"])
    assert found.lost == {("v",): fields(SCHEMA)["v",].id}


def test_the_name_of_a_users_column_that_the_source_needs_is_to_be_freed():
    schema = added(added(SCHEMA, "note"), "note_2", number=98)
    assert told(schema, SCHEMA, WANTED)[1] == []
    assert told(schema, SCHEMA, WANTED, ["NOTE"])[1] == ["RENAME COLUMN `note` TO `note_3`"]


def test_the_columns_of_the_row_as_it_was_count():
    wanted = of_changes(layout(before=True))
    schema = schema_of(wanted)
    before = next(field for field in schema["fields"] if field["name"] == change.BEFORE)
    inner = before["type"]["fields"]
    one, *rest = inner
    cases = {
        "RENAME COLUMN `_before`.`x` TO `id`": [{**one, "name": "x"}, *rest],
        "ADD COLUMN `_before`.`id` bigint": rest,
        "DROP COLUMN `_before`.`own`": [*inner, {"id": 99, "name": "own", "required": False, "type": "int"}],
    }
    for statement, columns in cases.items():
        other = altered(schema, change.BEFORE, type={"type": "struct", "fields": columns})
        found, statements = told(other, schema, wanted)
        assert (statements, found.not_ours) == ([statement], ())
    gone = told(altered(schema, change.BEFORE), schema, wanted)[1]
    assert len(gone) == 1
    assert gone[0].startswith("ADD COLUMN `_before` struct<`id`: bigint, `v`: int, ")


def test_a_column_that_was_added_again_gets_the_number_by_which_files_know_it():
    again = added(altered(SCHEMA, "v"), "v", "int")
    found, _ = told(altered(SCHEMA, "v"), SCHEMA, WANTED)
    ids = Noted.from_json(Noted({}, {"current": found.lost}).to_json()).ids["current"]
    assert fields(with_ids(again, ids))["v",] == fields(SCHEMA)["v",]
    assert with_ids(SCHEMA, ids) == SCHEMA
    taken = added(again, "other", "int", number=fields(SCHEMA)["v",].id)
    assert with_ids(taken, ids) == taken


def test_what_is_noted_is_read_again():
    noted = Noted({"changes": ["b", "a"]}, {"changes": {("_before", "v"): 7, ("v",): 3}})
    read = Noted.from_json(noted.to_json())
    assert (read.claimed, read.ids) == ({"changes": ["a", "b"]}, {"changes": {("_before", "v"): 7, ("v",): 3}})
    assert Noted.from_json("{}") == NOTHING_NOTED
