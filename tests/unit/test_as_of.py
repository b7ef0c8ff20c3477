"""`tables as-of`: the consistent set, its tag and its refusals, on a warehouse that PyIceberg wrote."""

import contextlib
import datetime as dt
import json
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from unit.configuration import SMALL
from unit.test_report_cli import schema

from pipeline import cli
from pipeline.cli import tables as command
from pipeline.errors import Refused
from pipeline.lake import catalog, consistent_points
from pipeline.model.messages import EVER
from pipeline.warehouse import state, tags
from pipeline.warehouse.stored import StoredBinding

DAY_MS = 24 * 3600 * 1000
FIRST = 450_000_000_000_000_000


def at(number):
    """The commit ts of a cut, by its number."""
    return FIRST + number * (60_000 << 18)


def time_of(commit_ts):
    return dt.datetime.fromtimestamp((commit_ts >> 18) / 1000, dt.UTC)


class Warehouse:
    """Pairs of tables, cuts and statements, as a run would leave them."""

    def __init__(self, folder):
        place = folder / "warehouse"
        place.mkdir()
        self.catalog = SqlCatalog("warehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}")
        for namespace in ("_pipeline", "shop"):
            self.catalog.create_namespace(namespace)
        self.unwritten = {"cuts": [], "ddl_history": []}
        for name in self.unwritten:
            self.catalog.create_table(f"_pipeline.{name}", schema(name))
        self.batches = 0

    def pair(self, name):
        ids = pa.schema([("id", pa.int64())])
        about = {
            **state.ROLE.entry("changes"), **state.SOURCE_SCHEMA.entry("shop"), **state.SOURCE_TABLE.entry(name)
        }  # fmt: skip
        self.catalog.create_table(f"shop.{name}__changes", ids, properties=about)
        self.catalog.create_table(f"shop.{name}", ids, properties=state.ROLE.entry("current"))

    def table(self, name):
        return self.catalog.load_table(f"shop.{name}")

    def uuid(self, name):
        return str(self.table(f"{name}__changes").metadata.table_uuid)

    def say(self, name, **about):
        """Properties of a changes table."""
        with self.table(f"{name}__changes").transaction() as change:
            change.set_properties({f"ticdc.{key.replace('_', '-')}": str(value) for key, value in about.items()})

    def dropped(self, name, commit_ts):
        self.say(name, state="dropped", dropped_at=commit_ts)

    def renamed(self, name, to, commit_ts=None):
        """Another name for a pair; with a commit ts it is known since when, as by commit ts."""
        for old, new in ((name, to), (f"{name}__changes", f"{to}__changes")):
            self.catalog.rename_table(f"shop.{old}", f"shop.{new}")
        self.say(to, source_table=to)
        if commit_ts:
            said = state.NAME_BINDINGS.read(self.table(f"{to}__changes").properties)
            *older, last = said or [StoredBinding("shop", name, 0, EVER)]
            bindings = (*older, last._replace(until=commit_ts), StoredBinding("shop", to, commit_ts, EVER))
            self.say(to, spans=state.NAME_BINDINGS.codec.encode(bindings))

    def removed(self, name, commit_ts=None, kind="DropTable"):
        """A pair that is gone; with a commit ts, by a statement."""
        for one in (name, f"{name}__changes"):
            self.catalog.drop_table(f"shop.{one}")
        if commit_ts:
            table = "" if kind == "DropDatabase" else name
            self._record("ddl_history", commit_ts=commit_ts, schema_name="shop", table_name=table, ddl_type=kind)

    def removed_and_noted(self, name, commit_ts):
        """A pair that is gone, as the ordering by commit ts leaves it: its names stay known."""
        changes = self.table(f"{name}__changes")
        said = state.NAME_BINDINGS.read(changes.properties) or ()
        self.removed(name)
        gone = [*said[:-1], *(one._replace(until=commit_ts) for one in said[-1:])]
        with self.catalog.load_table("_pipeline.ddl_history").transaction() as change:
            uuid = str(changes.metadata.table_uuid)
            change.set_properties(state.GONE.entry(tuple(one._replace(pair=uuid) for one in gone)))

    def cut(self, commit_ts, *names, level="exact", reason=""):
        """A batch: a row into each of these tables, and their rows of `cuts`."""
        self.batches += 1
        for name in names:
            table = self.table(name)
            table.append(pa.table({table.schema().fields[0].name: [self.batches]}))
            self._record(
                "cuts", cut_ts=commit_ts, cut_time=time_of(commit_ts), table_uuid=self.uuid(name), schema_name="shop",
                table_name=name, snapshot_id=table.current_snapshot().snapshot_id, level=level, reason=reason,
            )  # fmt: skip

    def _record(self, name, **row):
        shared = {"pipeline": "shop", "batch_id": self.batches, "recorded_at": dt.datetime.now(dt.UTC)}
        self.unwritten[name].append({**dict.fromkeys(schema(name).names), **shared, **row})

    def flush(self):
        """Write the pipeline's own rows, all at once: a commit takes a while."""
        for name, rows in self.unwritten.items():
            if rows:
                self.catalog.load_table(f"_pipeline.{name}").append(pa.Table.from_pylist(rows, schema(name)))
                rows.clear()

    def expire(self, name, number):
        """Forget a table's snapshot, the oldest being number 0."""
        table = self.table(name)
        table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[number].snapshot_id).commit()

    def refs(self, name):
        return {tag: ref.snapshot_id for tag, ref in self.table(name).refs().items() if tag != "main"}


@pytest.fixture
def warehouse(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticdc-warehouse.yaml").write_text(SMALL)
    made = Warehouse(tmp_path)
    yield made
    made.catalog.close()


class Told(list):
    """What the writer was asked for; it tags as Iceberg's Java library would."""

    def __init__(self, warehouse):
        super().__init__()
        self.warehouse = warehouse

    def tag(self, _settings, name, keep_ms, snapshots, _waiting):
        self.append((name, keep_ms))
        catalog = self.warehouse.catalog
        for table in ("orders", "items", "bills"):
            if not catalog.table_exists(f"shop.{table}") or name in self.warehouse.refs(table):
                continue
            if (snapshot := snapshots.get(self.warehouse.uuid(table))) is not None:
                found = self.warehouse.table(table)
                age = int(time.time() * 1000) - found.snapshot_by_id(snapshot).timestamp_ms
                found.manage_snapshots().create_tag(snapshot, name, age + keep_ms).commit()


@pytest.fixture
def told(warehouse, monkeypatch):
    """What was asked of the writer."""
    asked = Told(warehouse)
    monkeypatch.setattr(command, "_client", lambda: asked)
    monkeypatch.setattr(command, "_starting", contextlib.nullcontext)
    return asked


@pytest.fixture
def ask(warehouse, capsys):
    """`tables as-of` with these words: the document, or the error with its code."""

    def call(*words):
        warehouse.flush()
        code = cli.main(["tables", "as-of", *map(str, words), "--output", "json"])
        out, err = capsys.readouterr()
        return json.loads(out if code == 0 else err)

    return call


@pytest.fixture
def shop(warehouse):
    """Two tables and three cuts: both, orders alone, both."""
    warehouse.pair("orders")
    warehouse.pair("items")
    warehouse.cut(at(1), "orders", "items")
    warehouse.cut(at(2), "orders")
    warehouse.cut(at(3), "orders", "items")
    return warehouse


def ids(found, warehouse):
    """What the snapshots of a document show."""
    return {
        row["source"]: sorted(
            warehouse.catalog.load_table(row["table"]).scan(snapshot_id=row["snapshot"]).to_arrow()["id"].to_pylist()
        )
        for row in found["tables"]
    }


class TestTheSet:
    def test_each_table_has_its_newest_cut_up_to_the_moment(self, shop, ask):
        for moment, cut, orders, items in [
            (at(1), at(1), [1], [1]),
            (at(2) - 1, at(1), [1], [1]),
            (at(2), at(2), [1, 2], [1]),
            (at(3), at(3), [1, 2, 3], [1, 3]),
            (at(9), at(3), [1, 2, 3], [1, 3]),
            (time_of(at(2)).isoformat(), at(2), [1, 2], [1]),
        ]:
            found = ask(moment, "--look")
            assert (found["cut_ts"], found["level"]) == (cut, "exact")
            assert ids(found, shop) == {"shop.orders": orders, "shop.items": items}

    def test_no_cut_beyond_the_moment_is_read_and_of_the_others_few_at_a_time(self, shop, ask, monkeypatch):
        rows = []

        def read(*about):
            found = catalog.batches(*about)
            pieces = [piece for batch in found for piece in (batch.slice(at, 1) for at in range(batch.num_rows))]
            rows.append(len(pieces))
            return pa.RecordBatchReader.from_batches(found.schema, pieces)

        monkeypatch.setattr(consistent_points, "batches", read)
        monkeypatch.setattr(consistent_points, "_AT_ONCE", 1)
        for moment, count in [(at(1), 2), (at(2), 3), (at(9), 5)]:
            found = ask(moment, "--look")
            assert rows.pop() == count
            assert ids(found, shop)["shop.items"] == ([1, 3] if count == 5 else [1])
        shop.expire("orders", 0)
        assert ask(at(1), "--look")["hint"].endswith(f"tables as-of {at(2)}")
        assert rows == [2, 0], "of the later ones none is of a table that is gone"

    @pytest.mark.usefixtures("shop")
    def test_without_a_moment_it_is_the_newest_cut(self, ask):
        assert ask("--look")["cut_ts"] == at(3)

    @pytest.mark.usefixtures("shop")
    def test_a_moment_before_every_cut_is_refused(self, ask):
        assert ask("2001-01-01", "--look")["code"] == "NO_CUT"

    def test_a_later_batch_of_the_same_cut_goes_before_an_earlier_one(self, shop, ask):
        shop.cut(at(3), "orders", level="bounded")
        assert ids(ask("--look"), shop)["shop.orders"] == [1, 2, 3, 4]

    def test_a_renamed_table_is_shown_with_both_names_and_read_under_todays(self, shop, ask):
        shop.renamed("orders", "bills")
        row = next(row for row in ask(at(2), "--look")["tables"] if row["source"] == "shop.orders")
        assert (row["today"], row["table"]) == ("shop.bills", "shop.bills")
        assert ids(ask(at(2), "--look"), shop)["shop.orders"] == [1, 2]

    def test_another_table_under_the_old_name_is_another_table(self, shop, ask):
        shop.renamed("orders", "bills")
        shop.pair("orders")
        shop.cut(at(4), "orders", "bills")
        assert ids(ask(at(3), "--look"), shop) == {"shop.orders": [1, 2, 3], "shop.items": [1, 3]}
        assert ids(ask(at(4), "--look"), shop)["shop.orders"] == [4]
        assert ids(ask(at(4), "--look"), shop)["shop.bills"] == [1, 2, 3, 4]

    def test_a_table_has_the_name_that_it_had_at_the_cut_though_no_row_came_since(self, shop, ask):
        shop.renamed("orders", "bills", at(3) + 5)
        shop.cut(at(4), "items")
        assert set(ids(ask(at(3), "--look"), shop)) == {"shop.orders", "shop.items"}
        assert ids(ask(at(4), "--look"), shop) == {"shop.bills": [1, 2, 3], "shop.items": [1, 3, 4]}

    def test_tables_whose_names_have_moved_on_are_two_and_both_are_read(self, shop, ask):
        shop.cut(at(4), "orders", "items")
        shop.renamed("orders", "bills", at(4) + 5)
        shop.renamed("items", "orders", at(4) + 5)
        shop.cut(at(5), "orders")
        found = ask("--look")
        assert ids(found, shop) == {"shop.bills": [1, 2, 3, 4], "shop.orders": [1, 3, 4, 5]}
        both = {shop.uuid("bills"), shop.uuid("orders")}
        assert {row["uuid"] for row in found["tables"]} == set(found["spark_sql"]) == set(found["pyiceberg"]) == both

    def test_two_tables_of_one_recorded_name_are_both_read(self, shop, ask):
        """Without watermarks nobody tells which name a table had when."""
        shop.renamed("orders", "bills")
        shop.renamed("items", "orders")
        shop.cut(at(4), "orders")
        found = ask("--look")
        assert [row["source"] for row in found["tables"]] == ["shop.orders", "shop.orders"]
        assert set(found["spark_sql"]) == set(found["pyiceberg"]) == {shop.uuid("bills"), shop.uuid("orders")}

    @pytest.mark.parametrize("dropped", [at(2) + 5, at(3)])
    def test_a_dropped_table_is_left_out_from_its_drop_on(self, shop, ask, dropped):
        shop.dropped("items", dropped)
        assert set(ids(ask(at(3), "--look"), shop)) == {"shop.orders"}
        found = ask(at(2), "--look")
        assert set(ids(found, shop)) == {"shop.orders", "shop.items"}
        assert {row["source"]: row["note"] for row in found["tables"]}["shop.items"] == "dropped since"

    def test_the_time_of_a_drop_counts_only_while_the_table_is_dropped(self, shop, ask):
        shop.say("items", state="live", dropped_at=at(1))
        assert set(ids(ask("--look"), shop)) == {"shop.orders", "shop.items"}

    def test_a_renamed_column_has_the_name_that_it_had_then(self, shop, ask):
        with shop.table("orders").update_schema() as change:
            change.rename_column("id", "order_id")
        shop.cut(at(4), "orders")
        assert ids(ask(at(2), "--look"), shop)["shop.orders"] == [1, 2]
        newest = next(row for row in ask("--look")["tables"] if row["source"] == "shop.orders")
        assert shop.table("orders").scan(snapshot_id=newest["snapshot"]).to_arrow().column_names == ["order_id"]


class TestLevels:
    def test_one_table_that_is_not_exact_makes_the_set_so_and_says_why(self, shop, ask):
        shop.cut(at(4), "orders", level="partial", reason="held: shop.items")
        found = ask("--look")
        assert (found["level"], found["levels"]) == ("partial", ["exact", "partial"])
        assert {row["source"]: (row["level"], row["note"]) for row in found["tables"]} == {
            "shop.orders": ("partial", "held: shop.items"),
            "shop.items": ("exact", ""),
        }

    def test_people_are_told_what_the_level_means(self, shop, capsys):
        meaning = {
            "exact": "each table is as the source had it",
            "bounded": "every change up to it is in the tables, except rows that were set aside",
            "partial": "missing",
        }
        for number, (level, said) in enumerate(meaning.items(), start=4):
            shop.cut(at(number), "orders", level=level)
            shop.flush()
            assert cli.main(["tables", "as-of", "--look"]) == 0
            first = capsys.readouterr().out.splitlines()[0]
            assert f"2 tables, {level}: " in first
            assert said in first


class TestWhatIsGone:
    @pytest.mark.parametrize("kind", ["DropTable", "DropDatabase"])
    def test_a_table_whose_drop_removed_it_is_left_out_afterwards_and_missed_before(self, shop, ask, kind):
        shop.removed("items", at(3) + 5, kind)
        shop.renamed("orders", "bills")
        shop.cut(at(4), "bills")
        assert set(ids(ask("--look"), shop)) == {"shop.bills"}
        refused = ask(at(3), "--look")
        assert refused["code"] == tags.CUT_EXPIRED
        assert "shop.items" in refused["message"]
        assert refused["hint"].endswith(f"tables as-of {at(4)}")

    def test_a_table_that_was_renamed_and_dropped_after_its_last_row_is_left_out_too(self, shop, ask):
        """As online schema changes end: another table has its name, and it goes."""
        shop.renamed("items", "bills", at(3) + 5)
        shop.removed_and_noted("bills", at(3) + 9)
        shop.cut(at(4), "orders")
        found = ask("--look")
        assert (found["level"], set(ids(found, shop))) == ("exact", {"shop.orders"})
        refused = ask(at(3), "--look")
        assert refused["code"] == tags.CUT_EXPIRED
        assert "shop.items" in refused["message"]

    def test_a_table_that_went_nobody_knows_when_is_shown_and_makes_the_set_partial(self, shop, ask, told):
        shop.removed("items")
        found = ask()
        assert found["level"] == "partial"
        assert {row["source"]: row["note"] for row in found["tables"]}["shop.items"] == "the table is gone"
        assert set(found["spark_sql"]) == {shop.uuid("orders")}
        assert told == [(f"cut_{at(3)}", 7 * DAY_MS)]

    def test_an_expired_snapshot_is_refused_with_the_oldest_cut_that_is_whole(self, shop, ask):
        shop.expire("orders", 0)
        refused = ask(at(1))
        assert refused["code"] == tags.CUT_EXPIRED
        assert "shop.orders" in refused["message"]
        assert "shop.items" not in refused["message"]
        assert refused["hint"].endswith(f"tables as-of {at(2)}")
        assert ask(at(2), "--look")["cut_ts"] == at(2)

    def test_the_oldest_usable_cut_needs_every_tables_snapshot(self, shop, ask):
        shop.expire("orders", 0)
        shop.expire("items", 0)
        assert ask(at(1), "--look")["hint"].endswith(f"tables as-of {at(3)}")
        assert ask(at(2), "--look")["code"] == tags.CUT_EXPIRED

    def test_a_table_dropped_since_is_not_needed_by_later_cuts(self, shop, ask):
        shop.cut(at(4), "orders", "items")
        shop.dropped("items", at(4))
        shop.expire("items", 1)
        assert ask(at(3), "--look")["hint"].endswith(f"tables as-of {at(1)}")
        assert ask(at(4), "--look")["cut_ts"] == at(4)

    def test_where_no_cut_is_whole_it_says_so(self, shop, ask):
        shop.catalog.drop_table("shop.items")
        shop.catalog.create_table("shop.items", pa.schema([("id", pa.int64())]))
        assert ask("--look")["hint"].startswith("no cut can be read as a whole any more")


class TestTags:
    def test_every_table_of_the_set_gets_the_cuts_tag_at_its_snapshot(self, shop, ask, told):
        found = ask(at(2))
        snapshots = {row["source"]: row["snapshot"] for row in found["tables"]}
        assert found["tag"] == f"cut_{at(2)}"
        assert shop.refs("orders") == {f"cut_{at(2)}": snapshots["shop.orders"]}
        assert shop.refs("items") == {f"cut_{at(2)}": snapshots["shop.items"]}
        assert told == [(f"cut_{at(2)}", 7 * DAY_MS)]

    @pytest.mark.usefixtures("told")
    def test_it_says_how_each_table_is_read(self, shop, ask):
        found = ask(at(2), "--tag", "audit")
        snapshot = next(row["snapshot"] for row in found["tables"] if row["source"] == "shop.items")
        assert found["spark_sql"][shop.uuid("items")].endswith("`shop`.`items` VERSION AS OF 'audit'")
        assert found["pyiceberg"][shop.uuid("items")] == (
            f"catalog.load_table(('shop', 'items')).scan(snapshot_id={snapshot}).to_arrow()"
        )

    def test_people_see_the_tag_its_end_and_how_every_table_is_read(self, shop, told, capsys):
        shop.flush()
        assert cli.main(["tables", "as-of", "--keep-days", "30"]) == 0
        said = capsys.readouterr().out
        until = dt.datetime.now(dt.UTC) + dt.timedelta(30)
        assert f"tag cut_{at(3)} is on each table, kept until {until:%Y-%m-%d}" in said
        assert said.count(f"VERSION AS OF 'cut_{at(3)}'") == said.count(".scan(snapshot_id=") == 2
        assert told == [(f"cut_{at(3)}", 30 * DAY_MS)]

    def test_looking_writes_nothing_and_reads_by_snapshot(self, shop, ask, monkeypatch):
        monkeypatch.setattr(command, "_client", lambda: pytest.fail("looking started Spark"))
        found = ask("--look")
        snapshot = next(row["snapshot"] for row in found["tables"] if row["source"] == "shop.items")
        assert (found["tag"], found["kept_until"]) == (None, None)
        assert found["spark_sql"][shop.uuid("items")].endswith(f"VERSION AS OF {snapshot}")
        assert shop.refs("items") == {}

    @pytest.mark.usefixtures("shop")
    def test_asking_again_does_nothing_and_finds_the_same(self, ask, told):
        first = ask(at(2))
        assert ask(at(2)) == first
        assert ask(at(3) - 1, "--keep-days", 30) == first
        assert len(told) == 1

    def test_what_a_death_left_half_tagged_is_completed(self, shop, ask, told):
        found = ask(at(2), "--look")
        orders = next(row["snapshot"] for row in found["tables"] if row["source"] == "shop.orders")
        shop.table("orders").manage_snapshots().create_tag(orders, f"cut_{at(2)}").commit()
        assert ask(at(2))["cut_ts"] == at(2)
        assert len(told) == 1
        assert set(shop.refs("items")) == {f"cut_{at(2)}"}

    @pytest.mark.parametrize("make", ["create_tag", "create_branch"])
    def test_a_name_that_stands_for_something_else_is_refused(self, shop, ask, told, make):
        table = shop.table("orders")
        snapshot = table.metadata.snapshots[0 if make == "create_tag" else 2].snapshot_id
        getattr(table.manage_snapshots(), make)(snapshot, "audit").commit()
        assert ask("--tag", "audit")["code"] == tags.TAG_TAKEN
        assert told == []

    @pytest.mark.usefixtures("told")
    def test_a_tag_on_a_table_that_is_not_of_the_cut_is_refused(self, shop, ask):
        ask("--tag", "audit")
        shop.dropped("items", at(3) + 1)
        shop.cut(at(4))
        assert ask("--tag", "audit")["tag"] == "audit"  # the newest cut with rows is the same still
        shop.pair("bills")
        shop.cut(at(4), "bills")
        refused = ask("--tag", "audit")
        assert refused["code"] == tags.TAG_TAKEN
        assert "shop.items" in refused["message"]

    @pytest.mark.parametrize("name", ["main", "Main", "stage_batch7", "", "a b", "x'y", "a/b", "ä", "123", "x" * 101])
    def test_names_that_are_none_are_refused_before_anything_is_read(self, told, capsys, name):
        assert cli.main(["tables", "as-of", "--tag", name]) == 2
        assert told == []
        capsys.readouterr()

    @pytest.mark.usefixtures("told")
    def test_names_of_letters_digits_and_some_signs_are_taken(self, shop, ask):
        names = {"eod-2026.11.21", "_x", "v1"}
        for name in names:
            assert ask("--tag", name)["tag"] == name
        assert set(shop.refs("items")) == names


class Current:
    """A current table as `tags` sees it."""

    def __init__(self, snapshots, refs=(), branches=("main",)):
        self.name, self.snapshots, self.refs, self.there = "shop.t", snapshots, dict(refs), branches

    def refresh(self):
        pass

    def head(self, name):
        return self.refs.get(name)

    def branches(self):
        return list(self.there)

    def has(self, snapshot):
        return snapshot in self.snapshots

    def tag(self, name, snapshot, _keep_ms):
        self.refs[name] = snapshot


def tagged(name, **tables):
    """Tag snapshot 1 of each of these."""
    pairs = {uuid: SimpleNamespace(current=table) for uuid, table in tables.items() if table}
    return tags.tag(SimpleNamespace(by_uuid=pairs.get), name, DAY_MS, dict.fromkeys(tables, 1))


class TestWriting:
    def test_tables_that_have_the_tag_are_passed_over(self):
        done, due = Current({1}, {"x": 1}), Current({1})
        assert tagged("x", a=done, b=due) == 1
        assert due.refs == {"x": 1}
        assert tagged("x", a=done, b=due) == 0

    @pytest.mark.parametrize(
        ("other", "code"),
        [
            (Current({1, 2}, {"x": 2}), "TAG_TAKEN"),
            (Current({1}, {"x": 1}, ("main", "x")), "TAG_TAKEN"),
            (Current({2}), "CUT_EXPIRED"),
            (None, "CUT_EXPIRED"),
        ],
    )
    def test_a_refusal_leaves_every_table_as_it_was(self, other, code):
        first = Current({1})
        with pytest.raises(Refused) as refused:
            tagged("x", a=first, b=other)
        assert refused.value.code == code
        assert first.refs == {}
