"""Which changes show and which rows they end, against a replay in plain Python."""

import datetime as dt
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.warehouse.clone import files, keys, live_files, parquet
from pipeline.warehouse.clone.keys import CannotClone, ChangedKeys, Changes, winners
from pipeline.warehouse.clone.live_files import LiveFile, LiveFiles, deleted_rows
from pipeline.warehouse.clone.parquet import ColumnFile

TYPES = {
    "bigint": (pa.int64(), lambda n: n - 3),
    "text": (pa.binary(), lambda n: f"ä{n}".encode()),
    "unsigned": (pa.decimal128(20, 0), lambda n: Decimal(2**64 - 1 - n)),
    "date": (pa.date32(), lambda n: dt.date(2024, 1, 1) + dt.timedelta(n)),
    "time": (pa.timestamp("us", "UTC"), lambda n: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n)),
}


def column(kind, numbers):
    arrow, value = TYPES[kind]
    half = len(numbers) // 2
    parts = (numbers[:half], numbers[half:])
    return pa.chunked_array([pa.array([None if n is None else value(n) for n in part], arrow) for part in parts], arrow)


def drawn(dice, kinds, events):
    """Events (key, key before or None, commit ts, leaves a row) and the same as `Changes`."""
    several = [[dice.randrange(6) for _ in kinds] for _ in range(events)]
    rows = []
    for number, key in enumerate(several):
        before = dice.choice([None, several[dice.randrange(events)]])
        there = before is not None or dice.random() < 0.6
        rows.append((key, before, dice.randrange(1, 9), there, number))
    order = np.array([2 * ts + there for _, _, ts, there, _ in rows], np.int64)
    counts = np.array([dice.random() < 0.9 for _ in rows])
    before = [[None if old is None else old[at] for _, old, *_ in rows] for at in range(len(kinds))]
    changes = Changes(
        [column(kind, [key[at] for key, *_ in rows]) for at, kind in enumerate(kinds)],
        [column(kind, before[at]) for at, kind in enumerate(kinds)],
        order,
        np.arange(len(rows)),
        np.zeros(len(rows), np.int64),
        np.array([there for *_, there, _ in rows]),
        counts,
    )
    return [row for row, one in zip(rows, counts, strict=True) if one], changes


def replayed(rows):
    """By key, the event that is its last: its number where it leaves a row, else None."""
    last = {}
    for key, before, ts, there, number in rows:
        if before is not None:
            last[tuple(before)] = max(last.get(tuple(before), (-1,)), (2 * ts, number, 0, None))
        last[tuple(key)] = max(last.get(tuple(key), (-1,)), (2 * ts + there, number, 1, number if there else None))
    return {key: end for key, (*_, end) in last.items()}


@pytest.mark.parametrize("kinds", [["bigint"], ["text"], ["unsigned"], ["date"], ["time"], ["bigint", "text", "date"]])
def test_the_last_change_of_each_key_shows_and_no_other(kinds):
    for seed in range(60):
        dice = random.Random(seed)  # noqa: S311 - the same histories each time
        rows, changes = drawn(dice, kinds, dice.randrange(1, 40))
        wanted = replayed(rows)
        done = winners(changes, by_place=False)
        assert {*np.flatnonzero(done.shows)} == {end for end in wanted.values() if end is not None}, seed
        if not rows:
            assert done.keys is None
            continue
        live = [[dice.randrange(9) for _ in kinds] for _ in range(50)]
        columns = [column(kind, [key[at] for key in live]) for at, kind in enumerate(kinds)]
        assert [*done.keys.among(columns)] == [tuple(key) in wanted for key in live], seed


def one_key(*sources, by_place=True):
    size = len(sources)
    key = [pa.chunked_array([pa.array([7] * size)])]
    flags = np.ones(size, np.bool_)
    order, place = np.zeros(size, np.int64), np.arange(size)
    return winners(Changes(key, [], order, place, np.array(sources, np.int64), flags, flags), by_place=by_place)


def test_a_key_of_two_partitions_is_not_ordered_by_places():
    assert [*one_key(1, 1).shows] == [False, True]
    with pytest.raises(CannotClone, match="several partitions"):
        one_key(1, 2)
    assert [*one_key(1, 2, by_place=False).shows] == [False, True]


def test_a_key_that_is_null_is_not_compared():
    key = [pa.chunked_array([pa.array([1, None])])]
    zeros, flags = np.zeros(2, np.int64), np.ones(2, np.bool_)
    with pytest.raises(CannotClone, match="held by its column"):
        winners(Changes(key, [], zeros, zeros, zeros, flags, flags), by_place=True)


def test_combinations_beyond_64_bits_are_not_numbered(monkeypatch):
    monkeypatch.setattr(keys, "_LARGEST", 3)
    two = [pa.chunked_array([pa.array([1, 2])])] * 2
    zeros, flags = np.zeros(2, np.int64), np.ones(2, np.bool_)
    with pytest.raises(CannotClone, match="combinations"):
        winners(Changes(two, [], zeros, zeros, zeros, flags, flags), by_place=True)


def changed(*values):
    return ChangedKeys([pa.array(values)], np.arange(len(values)))


@pytest.mark.parametrize("few", [keys._FEW_VALUES, 0])
def test_row_groups_are_passed_over_by_their_bounds(few, monkeypatch):
    monkeypatch.setattr(keys, "_FEW_VALUES", few)
    some = changed(5, 20)
    between = [(0, 4), (5, 5), (6, 19), (20, 30), (21, 30), (None, 3), (b"a", b"z")]
    inside = [some.may_lie_between(low, high) for low, high in between]
    assert inside == [False, True, not few, True, False, True, True]


def data_file(path, names, rows, row_group_size=4):
    """A file as Iceberg's writer makes one; names may be others than today's."""
    fields = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)}) for number, name in enumerate(names, 1)
    ]
    table = pa.table([pa.array(values, pa.int64()) for values in zip(*rows, strict=True)], schema=pa.schema(fields))
    pq.write_table(table, path, row_group_size=row_group_size, store_schema=False)
    return LiveFile(f"file:{path}", str(path), len(rows))


def test_rows_are_found_by_field_ids_in_files_of_any_names_and_only_once(tmp_path):
    old = data_file(tmp_path / "old.parquet", ["was", "v"], [(n, 0) for n in range(10)])
    new = data_file(tmp_path / "new.parquet", ["id", "v.x"], [(n, 1) for n in range(5, 15)])
    live = LiveFiles((1,), files={file.location: file for file in (old, new)})
    assert found(live, 3, 7, 99) == {"old": [3, 7], "new": [2]}
    old.delete(np.array([7]))
    assert found(live, 3, 7) == {"old": [3], "new": [2]}
    assert found(live, 99) == {}


def found(live, *values):
    holding = live.holding(changed(*values))
    return {file.path.rpartition("/")[2].removesuffix(".parquet"): [*rows] for file, rows in holding if len(rows)}


def test_of_a_large_file_only_row_groups_are_read_that_may_have_a_key(tmp_path, monkeypatch):
    monkeypatch.setattr(live_files, "_KEPT_ROWS", 5)
    file = data_file(tmp_path / "f.parquet", ["id"], [(n,) for n in range(20)])
    read = []
    true = ColumnFile.read
    monkeypatch.setattr(ColumnFile, "read", lambda *given: (read.append(given[2:]), true(*given))[1])
    live = LiveFiles((1,), files={file.location: file})
    assert found(live, 6, 19) == {"f": [6, 19]}
    assert read == [([1],), ([4],)]
    assert file.keys is None


def test_row_groups_that_stand_together_are_read_together_up_to_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(live_files, "_KEPT_ROWS", 5)
    monkeypatch.setattr(live_files, "_READ_ROWS", 8)
    file = data_file(tmp_path / "f.parquet", ["id"], [(n,) for n in range(30)])
    read = []
    true = ColumnFile.read
    monkeypatch.setattr(ColumnFile, "read", lambda *given: (read.append(given[2]), true(*given))[1])
    live = LiveFiles((1,), files={file.location: file})
    assert found(live, 0, 5, 9, 21, 29) == {"f": [0, 5, 9, 21, 29]}
    assert read == [[0, 1], [2], [5], [7]]


def test_deleted_rows_are_known_by_their_bits():
    dice = random.Random(31)  # noqa: S311 - no secret
    file, deleted = LiveFile("file:x", "x", 1000), set()
    for _ in range(30):
        rows = np.array(dice.sample(range(1000), dice.randrange(1, 40)))
        file.delete(np.append(rows, rows[0]))
        deleted |= {*rows.tolist()}
        asked = np.array(dice.sample(range(1000), 300))
        assert file.living(asked).tolist() == [row for row in asked.tolist() if row not in deleted]
    assert file.dead.nbytes == 126


@pytest.mark.parametrize(("of", "size"), [("_PART_ROWS", 3), ("_PART_BYTES", 100), ("_EXCERPT_BYTES", 1)])
@pytest.mark.parametrize("rows", [[0, 3, 4, 9], [7], list(range(10))])
def test_an_excerpt_has_the_rows_and_columns_asked_for_with_their_ids(tmp_path, monkeypatch, rows, of, size):
    monkeypatch.setattr(parquet, of, size)
    file = data_file(tmp_path / "one.parquet", ["was", "v", "w"], [(n, n + 10, n + 20) for n in range(10)])
    excerpt = list(ColumnFile.at(file.path).excerpt([1, 3, 99], np.array(rows)))
    assert pa.concat_tables(excerpt).to_pydict() == {"was": rows, "w": [n + 20 for n in rows]}
    files._write(tmp_path / "two.parquet", excerpt)
    read = ColumnFile.at(str(tmp_path / "two.parquet")).read([3, 1])
    assert [column.to_pylist() for column in read] == [[n + 20 for n in rows], rows]


def test_deleted_rows_are_read_by_file(tmp_path):
    for name, rows in (("a", [("x", 3), ("y", 1)]), ("b", [("x", 5)])):
        paths, positions = (list(values) for values in zip(*rows, strict=True))
        pq.write_table(pa.table({"file_path": paths, "pos": positions}), tmp_path / name)
    gone = deleted_rows([str(tmp_path / "a"), str(tmp_path / "b")])
    assert {location: sorted(rows) for location, rows in gone.items()} == {"x": [3, 5], "y": [1]}


@pytest.mark.parametrize("error", [None, OSError(18, "Invalid cross-device link")])
def test_a_file_is_linked_or_copied_and_found_by_a_second_try(tmp_path, monkeypatch, error):
    file, path = tmp_path / "changes" / "a.parquet", tmp_path / "current" / "data" / "a.parquet"
    file.parent.mkdir()
    file.write_bytes(b"rows")
    if error:
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(error))
    for _ in range(2):
        files._link(file, path)
        assert path.read_bytes() == b"rows"
        assert [entry.name for entry in path.parent.iterdir()] == ["a.parquet"]
    assert path.samefile(file) is (error is None)
    file.unlink()
    assert path.read_bytes() == b"rows"
