"""The second readers of Simple and Open, and what is computed from them, without Spark."""

import datetime as dt
import re
from collections import Counter
from itertools import pairwise

import pytest
from golden import decode_simple
from golden.checking_cut import ENVELOPE_TYPES, changes_differ, cuts_differ, inexact, state_differs
from golden.checking_history import history_differs, told
from golden.checking_steps import Columns, answers_of, steps_differ
from golden.comparing import assert_none, rows_differ
from golden.corpus import GoldenCase, manifest
from golden.cut_events import events, replayed
from golden.decode_open import unquoted
from golden.delivery import around_repetition, beside_ddl, boundaries, dice_of, spread, undescribed, uneven
from golden.exceptions import unread_table
from golden.expected import tables_after, tables_at_the_end
from golden.loading import LoadedCase
from golden.moments import Frontier, resolved, step_at, tables_at, torn
from golden.warehouse import CurrentTable

from pipeline.model.messages import EVER
from pipeline.settings.rules import contradictions
from pipeline.warehouse.pairs import StoredBinding

CASES = [case for case in manifest() if case.by_cut]
WITHOUT_DDL_ON_ROWS = [case for case in CASES if case.scenario not in ("ddl", "ddl_nokey")]
STEPWISE = [case for case in CASES if case.scenario != "orders_small" and case.steps_agree]
DDL = GoldenCase("ddl", "simple_json")
SHOP = GoldenCase("orders_small", "simple_json")


def differences(case, tables, found):
    """But for tables that are not compared at all (`exceptions`)."""
    read = {source: table for source, table in tables.items() if unread_table(case, source) is None}
    names = {table.name for table in read.values()}
    rows = replayed(event for event in found if event.table in names)
    for source, table in read.items():
        left = [event.after for event in rows.get(table.name, ())]
        assert all(row.values.keys() == table.types.keys() for row in left), source
        yield from rows_differ(table.name, [*table.types], table.key, table.rows, left)


@pytest.mark.parametrize("case", WITHOUT_DDL_ON_ROWS, ids=str)
def test_replayed_by_commit_ts_the_events_are_tidbs_tables_at_the_end_in_whatever_order_they_came(case):
    found = events(case)
    dice_of(case).shuffle(found)
    assert_none(list(differences(case, tables_at_the_end(case), found)))


@pytest.mark.parametrize("case", [case for case in WITHOUT_DDL_ON_ROWS if case.scenario == "orders_small"], ids=str)
def test_replayed_up_to_a_step_they_are_tidbs_tables_then(case):
    found = events(case)
    for step in (step for step in case.steps if "tables" in step):
        closed = [event for event in found if event.commit_ts <= step["commit_ts"]]
        assert_none(list(differences(case, tables_after(case, step["step"]), closed)))


@pytest.mark.parametrize("case", STEPWISE, ids=str)
def test_each_transaction_turns_one_answer_of_tidb_into_the_next(case):
    """What goes are the rows that it says were there, what comes are the rows that it says are there: `ddl` too."""
    found, before = events(case), None
    for step in case.steps:
        after = tables_after(case, step["step"]) if "tables" in step else {}
        if step["kind"] == "txn" and before is not None:
            mine = [event for event in found if event.commit_ts == step["commit_ts"]]
            for source in after:
                if unread_table(case, source) is None:
                    assert_turned(before[source], after[source], mine)
        before = after


def assert_turned(before, after, found):
    names = [*after.types]
    here = [event for event in found if event.table == after.name]
    gone, come = (
        Counter(row.of_columns(names) for row in rows if row)
        for rows in ([event.before for event in here], [event.after for event in here])
    )
    rows = Counter(row.of_columns(names) for row in before.rows) + come
    assert gone <= rows, (after.source, found)
    assert rows - gone == Counter(row.of_columns(names) for row in after.rows), (after.source, found)


def test_with_checksums_the_same_events_are_sent():
    plain, checked = (events(GoldenCase("ddl", f"simple_json{suffix}")) for suffix in ("", "_checksum"))
    assert [(one.table, one.op, one.after, one.before) for one in plain] == [
        (one.table, one.op, one.after, one.before) for one in checked
    ]


@pytest.mark.parametrize("scenario", ["all_types", "ddl", "ddl_nokey", "key_updates", "lifecycle", "orders_small"])
def test_all_protocols_say_the_same(scenario):
    """Open sends by batches of its own, but each event is Simple's."""
    one, other, third = (
        [
            (event.table, event.op, event.commit_ts, event.after, event.before)
            for event in events(GoldenCase(scenario, c))
        ]
        for c in ("simple_json", "simple_avro", "open")
    )
    assert one == other == third


def test_events_of_a_record_are_numbered_and_stand_at_its_offset():
    case = GoldenCase("key_updates", "open_p3")
    found = events(case)
    places = [event.place for event in found]
    assert len(set(places)) == len(places) == 200
    assert max(event.index for event in found) > 1
    per_partition = Counter(record.partition for record in case.records)
    assert all(event.offset < per_partition[event.record.partition] for event in found)


def test_what_was_dropped_from_an_update_is_what_it_left_as_it_was():
    case = GoldenCase("key_updates", "open_updated_only")
    update = next(event for event in events(case) if event.op == "update")
    assert update.told < update.before.values.keys()
    assert [(event.after, event.before) for event in events(case)] == [
        (event.after, event.before) for event in events(GoldenCase("key_updates", "open"))
    ]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (r"\x00\xff", b"\x00\xff"),
        (r"a\"b\\c\n\a", b'a"b\\c\n\a'),
        (r"\u2028é\U0001f600", "\u2028é😀".encode()),
        (r"\\x41", rb"\x41"),
    ],
)
def test_go_quoted_text_is_bytes(text, data):
    assert unquoted(text) == data


def test_a_table_without_a_key_is_a_multiset():
    case = GoldenCase("lifecycle", "simple_json")
    left = [event.after.values for event in replayed(events(case))["life.t_nokey"]]
    assert sorted(map(str, left)) == sorted(str(row.values) for row in case_rows(case, "life.t_nokey"))


def case_rows(case, source):
    return tables_at_the_end(case)[source].rows


class TestMoments:
    def test_the_greatest_moment_counts_and_a_ddl_lies_behind_the_watermark_of_its_ts(self):
        records = DDL.records
        assert resolved(records[:0]) is None
        assert resolved(records[:1]) == Frontier(450000000026148866, ddl=False)
        assert resolved(records[:2]) == Frontier(450000000026148866, ddl=True)
        assert resolved(records[:4]) == resolved(records[:8]) == Frontier(450000000052363267, ddl=True)

    def test_rows_behind_the_last_watermark_do_not_show(self):
        moment = resolved(DDL.records[:8])
        assert step_at(DDL, moment)["step"] == 1
        assert tables_at(DDL, moment)["d.t"].rows == ()
        assert len(tables_at(DDL, resolved(DDL.records[:9]))["d.t"].rows) == 3

    def test_a_ddl_shows_with_itself_or_with_a_later_watermark(self):
        before, behind = resolved(DDL.records[:14]), resolved(DDL.records[:15])
        assert before.commit_ts == behind.commit_ts
        assert "d1" not in tables_at(DDL, before)["d.t"].types
        assert "d1" in tables_at(DDL, behind)["d.t"].types

    def test_every_step_of_the_stream_is_the_last_at_some_moment(self):
        seen = {
            step["step"]
            for end in range(1, len(DDL.records) + 1)
            if (moment := resolved(DDL.records[:end])) and (step := step_at(DDL, moment))
        }
        with_ddl = {record.step for record in DDL.records if record.kind == "ddl"}
        assert seen >= with_ddl - {98}, "step 98 is two statements, with a commit ts each"

    def test_half_a_rename_of_two_tables_is_torn(self):
        first = next(at for at, one in enumerate(DDL.records) if b"`x1` TO `d`.`x3`" in (one.value or b""))
        assert not torn(DDL, DDL.records[:first])
        assert torn(DDL, DDL.records[: first + 1])
        assert not torn(DDL, DDL.records[: first + 2])


class TestDelivery:
    @pytest.mark.parametrize("case", [GoldenCase("key_updates", "simple_json_p3"), DDL], ids=str)
    def test_uneven_pieces_are_the_same_records_in_the_same_order_per_partition(self, case):
        records = spread(case.records, 3) if case.partitions == 1 else list(case.records)
        dice = dice_of("uneven", case)
        pieces = list(uneven(records, boundaries(records, 12, dice), dice))
        sent = [record for piece in pieces for record in piece]
        for partition in range(3):
            assert [r for r in sent if r.partition == partition] == [r for r in records if r.partition == partition]
        assert [len(piece) for piece in pieces] != [len(piece) for piece in list(uneven(records, [], dice))]

    @pytest.mark.parametrize("seed", range(20))
    def test_uneven_pieces_are_what_ticdc_may_send(self, seed):
        """No row comes behind a moment that closes it, and none before all copies of an older DDL."""
        records, dice = spread(DDL.records, 3), dice_of(seed)
        sent = []
        for piece in uneven(records, boundaries(records, 10, dice), dice):
            moment = resolved(sent)
            for record in piece:
                if record.kind == "row" and moment:
                    assert record.commit_ts > moment.commit_ts
            sent += piece
            newest = max((record.commit_ts for record in sent if record.kind == "row"), default=0)
            for ddl in (record for record in records if record.kind == "ddl" and record.commit_ts < newest):
                assert ddl in sent

    def test_some_partition_lags(self):
        records, dice = spread(DDL.records, 3), dice_of("lag")
        sent, moments = [], []
        for piece in uneven(records, boundaries(records, 10, dice), dice):
            sent += piece
            moments.append({resolved([one for one in sent if one.partition == number]) for number in range(3)})
        assert any(len(found) > 1 for found in moments)

    @pytest.mark.parametrize("case", [SHOP, DDL, GoldenCase("orders_small", "simple_json_p3")], ids=str)
    def test_a_start_in_the_middle_has_rows_whose_schema_comes_with_the_next_bootstrap(self, case):
        before, bootstraps, rest = around_repetition(case, 20 if case.scenario == "orders_small" else 2)
        assert before[0].kind == "row"
        assert {one.kind for one in bootstraps} == {"bootstrap"}
        assert undescribed(case, before)
        assert undescribed(case, before) == [one for one in before if one.kind == "row"]
        assert undescribed(case, [*before, *bootstraps, *rest]) == []

    def test_watermarks_of_a_ddls_ts_stand_on_the_side_that_was_asked_for(self):
        for side, steps in {"before": {-1}, "behind": {1}, "none": set()}.items():
            records = beside_ddl(DDL.records, side)
            ddl = {record.commit_ts: at for at, record in enumerate(records) if record.kind == "ddl"}
            marks = [(at, one) for at, one in enumerate(records) if one.kind == "resolved" and one.commit_ts in ddl]
            found = {1 if at > ddl[one.commit_ts] else -1 for at, one in marks}
            assert found == steps
            assert [one for one in records if one.kind != "resolved"] == [
                one for one in DDL.records if one.kind != "resolved"
            ]
            assert resolved(records) == resolved(DDL.records)

    def test_a_schema_is_told_by_bootstrap_and_ddl(self):
        told = decode_simple.described(DDL, DDL.records[:5])
        assert set(told) == {("d", "t", 450000000047120387)}
        assert undescribed(DDL, DDL.records) == []


@pytest.mark.parametrize("case", [SHOP, GoldenCase("ddl", "simple_avro"), GoldenCase("ddl", "open")], ids=str)
def test_the_settings_of_a_case_say_only_what_its_protocol_has(case, tmp_path):
    loaded = LoadedCase(case, Stack(), "p", {})
    tree = loaded.settings_tree(tmp_path, source={"max_offsets_per_trigger": 7})
    assert tree["source"]["protocol"] == case.protocol
    assert tree["source"].get("encoding") == case.encoding
    assert tree["source"]["max_offsets_per_trigger"] == 7
    assert "registry" not in tree
    assert list(contradictions(tree, tmp_path)) == []


class Stack:
    bootstrap_servers = "localhost:9092"
    registry_url = "http://localhost:8081"


class Perfect:
    """A warehouse that is right at a list of moments, as `cuts` would tell it; every snapshot is a whole table."""

    def __init__(self, case, moments, spoil=None):
        self.case, self.rows, self.tables = case, [], {}
        for batch, moment in enumerate(moments):
            for source, table in tables_at(case, moment).items():
                number = len(self.rows)
                schema, _, name = source.partition(".")
                self.rows.append(
                    {
                        "batch_id": batch, "cut_ts": moment.commit_ts, "table_uuid": source, "level": "exact",
                        "schema_name": schema, "table_name": name, "snapshot_id": number, "reason": "",
                    }
                )  # fmt: skip
                rows = [row for row in table.rows if (source, batch) != spoil]
                own = {"_commit_ts": "bigint", "_unrepresentable": "map<string,string>"}
                self.tables[number] = CurrentTable(table.types, own, rows, [0] * len(rows))

    def own(self, name):
        return self.rows if name == "cuts" else []

    def by_uuid(self):
        return {row["table_uuid"]: row["table_uuid"] for row in self.rows}

    def bindings(self):
        names = {row["table_uuid"]: (row["schema_name"], row["table_name"]) for row in self.rows}
        return {uuid: (StoredBinding(*name, 0, EVER),) for uuid, name in names.items()}

    def current(self, _name, snapshot=None):
        return self.tables[snapshot]


class Changes:
    """Changes tables made from the events, and current tables that a test fills."""

    def __init__(self, loaded):
        self.logs, self.tables, self.waiting = {}, {}, []
        self.types = {name: ENVELOPE_TYPES | one.types for name, one in tables_at_the_end(loaded.case).items()}
        for event in loaded.cut_events():
            self.logs.setdefault(event.table, []).append(self._row(loaded, event))

    @staticmethod
    def _row(loaded, event):
        row = event.after or event.before
        values = row.values if event.after else {name: row.values[name] for name in event.handle}
        _, partition, offset, index = event.place
        return {
            "_op": event.op,
            "_commit_ts": event.commit_ts,
            "_commit_time": dt.datetime.fromtimestamp((event.commit_ts >> 18) / 1000, dt.UTC),
            "_topic": loaded.topic(event.record),
            "_kafka_partition": partition,
            "_offset": offset,
            "_index": index,
            "_schema_id": event.schema_id or 17,
            "_unrepresentable": list(row.lost.items()) or None,
            "_before": event.before and {**event.before.values, "_unrepresentable": [*event.before.lost.items()]},
            **values,
        }

    def changes(self):
        return self.logs

    def types_of_changes(self, name):
        return self.types[name]

    def by_uuid(self):
        return {name: name for name in self.types}

    def bindings(self):
        return {name: (StoredBinding(*name.split("."), 0, EVER),) for name in self.types}

    def own(self, name):
        return self.waiting if name == "held" else []

    def current_names(self):
        return sorted(self.tables)

    def current(self, name):
        rows, stamps = zip(*self.tables[name], strict=True)
        types = {"id": "int", "v": "string"}
        return CurrentTable(types, {"_commit_ts": "bigint", "_unrepresentable": "map<string,string>"}, rows, stamps)


def lose(logs):
    logs["ku.t_pk"].pop()


def double(logs):
    logs["ku.t_pk"].append(logs["ku.t_pk"][0])


def forget_before(logs):
    next(row for row in logs["ku.t_pk"] if row["_op"] == "delete")["_before"] = None


def forget_key(logs):
    next(row for row in logs["ku.t_pk"] if row["_op"] == "delete")["id"] = None


def other_ts(logs):
    logs["ku.t_pk"][0]["_commit_ts"] += 1


def swap_transactions(logs):
    first, *_, last = logs["ku.t_shift"]
    first["_commit_ts"], last["_commit_ts"] = last["_commit_ts"], first["_commit_ts"]


def lose_what_is_gone_at_the_end(logs):
    """A row between its coming and its going was another one."""
    log = logs["ku.t_pk"]
    come, go = next((a, b) for a in log for b in log if b["_op"] == "delete" and b["_before"]["v"] == a.get("v"))
    come["v"], go["_before"] = "another", {**go["_before"], "v": "another"}


class Kept:
    """What became of `ddl`'s table `d.t` and its columns at the end."""

    def by_uuid(self):
        return {"t": "d.t"}

    def types_of_changes(self, _name):
        return {
            "id": "int", "a": "bigint", "b2": "string", "c": "string", "d1__v1": "int", "nn": "int", "nd": "string",
            "first_col": "string", "mid__v1": "decimal(10,2)", "d1": "string", "mid": "decimal(20,5)", "e1": "string",
            "e2": "string",
        }  # fmt: skip

    def bindings(self):
        names = ("d", "t"), ("d", "t_renamed"), ("d", "t"), ("d2", "t"), ("d", "t")
        renamed = re.compile(r"rename .*(t_renamed|d2\.t)")
        at = [step["commit_ts"] for step in DDL.steps if any(map(renamed.search, step["sql"]))]
        return {
            "t": tuple(StoredBinding(*name, *span) for name, span in zip(names, pairwise([0, *at, EVER]), strict=True))
        }


class History:
    """A history that says what it must."""

    def __init__(self, loaded):
        self.rows = [
            {
                "commit_ts": one.commit_ts, "schema_name": one.schema, "table_name": one.table, "ddl_type": one.type,
                "action": one.action if one.sql else f"{one.action}, existing rows show '7'", "status": one.status,
                "sql": one.sql,
            }
            for one in told(loaded)
        ]  # fmt: skip

    def own(self, _name):
        return self.rows


class TestChecks:
    FRONTIERS = tuple(Frontier(DDL.steps[number]["commit_ts"], ddl=True) for number in (2, 8, 40, 60, 90))

    def test_right_cuts_pass(self):
        warehouse = Perfect(DDL, self.FRONTIERS)
        loaded = LoadedCase(DDL, None, "p", {})
        assert list(cuts_differ(loaded, warehouse)) == []
        assert list(inexact(warehouse)) == []

    @pytest.mark.parametrize("batch", range(5))
    def test_a_transaction_that_a_cut_lacks_is_told(self, batch):
        found = list(cuts_differ(LoadedCase(DDL, None, "p", {}), Perfect(DDL, self.FRONTIERS, ("d.t", batch))))
        assert found
        assert str(self.FRONTIERS[batch].commit_ts) in str(found[0])

    def test_a_cut_that_shows_a_later_state_is_told(self):
        warehouse = Perfect(DDL, self.FRONTIERS)
        for row in warehouse.rows:
            row["cut_ts"] -= 1
        assert list(cuts_differ(LoadedCase(DDL, None, "p", {}), warehouse))

    @pytest.mark.parametrize("config", ["simple_json", "simple_avro_raw", "open", "open_updated_only"])
    def test_right_changes_pass_and_wrong_ones_are_told(self, config):
        case = GoldenCase("key_updates", config)
        loaded = LoadedCase(case, None, "p", {}, 1, list(case.records))
        warehouse = Changes(loaded)
        assert list(changes_differ(loaded, warehouse)) == []
        for break_it in (lose, double, forget_before, forget_key, other_ts):
            broken = Changes(loaded)
            break_it(broken.logs)
            assert list(changes_differ(loaded, broken)), break_it

    @pytest.mark.parametrize("config", ["simple_json", "simple_avro_raw", "open", "open_updated_only"])
    def test_right_states_between_pass_and_wrong_ones_are_told(self, config):
        case = GoldenCase("key_updates", config)
        loaded = LoadedCase(case, None, "p", {}, 1, list(case.records))
        assert list(steps_differ(loaded, Changes(loaded))) == []
        for break_it in (lose, forget_before, other_ts, swap_transactions, lose_what_is_gone_at_the_end):
            broken = Changes(loaded)
            break_it(broken.logs)
            assert list(steps_differ(loaded, broken)), break_it

    def test_a_state_between_two_answers_may_be_any(self):
        loaded = LoadedCase(SHOP, None, "p", {}, 1, list(SHOP.records))
        warehouse = Changes(loaded)
        assert list(steps_differ(loaded, warehouse)) == []
        next(row for rows in warehouse.logs.values() for row in rows if row["_op"] == "update")["_before"] = None
        assert list(steps_differ(loaded, warehouse))

    def test_columns_are_found_whatever_became_of_them(self):
        answers = answers_of(DDL)
        columns = Columns(DDL, Kept(), answers)

        def at(step):
            number = next(n for n, answer in enumerate(answers) if answer.step == step)
            return columns.of(number, tables_after(DDL, step)["d.t"])

        assert at(5) == {"id": "id", "a": "a", "b": "b2", "c": "c"}
        assert at(29).items() >= {"b": "b2", "d1": "d1__v1", "mid": "mid__v1", "nd": "nd"}.items()
        assert at(36).items() >= {"b_renamed": "b2", "d1": "d1", "mid": "mid__v1", "nd": "nd"}.items()
        assert at(46).items() >= {"b2": "b2", "mid": "mid", "nd": "nd"}.items()
        for answer in answers:
            if "d.t" in answer.tables and answer.kind == "txn":
                asked = tables_at(DDL, Frontier(answer.commit_ts, ddl=True))["d.t"]
                assert columns.of(answers.index(answer), asked).keys() == asked.types.keys()

    @pytest.mark.parametrize("config", ["simple_json", "simple_avro", "simple_json_checksum", "open"])
    def test_a_history_of_everything_passes_and_others_are_told(self, config):
        case = GoldenCase("ddl", config)
        loaded = LoadedCase(case, None, "p", {}, 1, [*case.records, *case.records])
        assert list(history_differs(loaded, History(loaded))) == []
        for break_it in (
            lambda rows: rows[0].update(table_name="other"),
            lambda rows: rows[-1].update(schema_name="other"),
            lambda rows: rows[9].update(ddl_type="NoEffect"),
            lambda rows: rows[20].update(status="held"),
            lambda rows: rows[30].update(action="other"),
            lambda rows: rows.append(rows[40]),
            lambda rows: rows.pop(50),
        ):
            broken = History(loaded)
            break_it(broken.rows)
            assert list(history_differs(loaded, broken))

    def test_a_history_says_what_each_statement_did(self):
        said = told(LoadedCase(DDL, None, "p", {}, 1, list(DDL.records)))
        by_ts = {}
        for one in said:
            by_ts.setdefault(one.commit_ts, []).append((one.schema, one.table, one.type, one.action))
        steps = {step["step"]: by_ts.get(step["commit_ts"]) for step in DDL.steps}
        assert steps[37] == [("d", "t", "RenameColumn", "done"), ("d", "t", "ModifyColumn", "done")]
        assert [kind for *_, kind, _ in steps[47]] == ["AddColumn", "AddColumn", "DropColumn"]
        assert steps[76] == [("d2", "t", "RenameTable", "renamed to d2.t")]
        assert [(table, kind) for _, table, kind, _ in steps[84]] == [("x3", "RenameTable"), ("x4", "RenameTable")]
        assert steps[125] == [("d", "src", "NoEffect", "done")]
        assert [steps[number][0][-1] for number in (142, 146)] == ["no such table", "kept, marked dropped"]
        columns = {(kind, action) for *_, kind, action in by_ts[None]}
        assert columns >= {
            ("add_column", "mid: decimal(10,2)"), ("keep_column", "c:"), ("rename_column", "b2: was b_renamed"),
            ("widen", "a: int to bigint"), ("fork", "mid: decimal(10,2) to decimal(20,5)"),
        }  # fmt: skip

    def test_what_waits_is_not_missed(self):
        loaded = LoadedCase(SHOP, None, "p", {}, 1, list(SHOP.records[:200]))
        warehouse = Changes(loaded)
        [name, *_] = warehouse.logs
        row = warehouse.logs[name].pop()
        assert list(changes_differ(loaded, warehouse))
        schema, _, table = name.partition(".")
        warehouse.waiting = [
            {
                "schema_name": schema, "table_name": table, "topic": row["_topic"], "reason": "SCHEMA_PENDING: …",
                "kafka_partition": row["_kafka_partition"], "offset": row["_offset"], "status": "open",
            }
        ]  # fmt: skip
        assert list(changes_differ(loaded, warehouse)) == []
        warehouse.waiting[0]["status"] = "released"
        assert list(changes_differ(loaded, warehouse))

    def test_a_current_table_that_shows_what_is_not_closed_is_told(self):
        case = GoldenCase("key_updates", "simple_json")
        end = next(at for at, one in enumerate(case.records) if one.kind == "row") + 2
        loaded = LoadedCase(case, None, "p", {}, 1, list(case.records[:end]))
        shown = Changes(loaded)
        assert list(state_differs(loaded, shown)) == []
        shown.tables["ku.t_pk"] = [(event.after, event.commit_ts) for event in loaded.cut_events()]
        assert list(state_differs(loaded, shown))
