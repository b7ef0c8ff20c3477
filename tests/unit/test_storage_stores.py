"""Where new files of a changefeed are looked for: everywhere, or where they should come."""

import os

import pytest
from pyarrow.fs import LocalFileSystem

from pipeline.sources.storage.lanes import Lane, LaneEnd, live_folders, undated
from pipeline.sources.storage.paths import VersionPath
from pipeline.sources.storage.store import ArrowStore, FolderStore

OLD = 1_700_000_000


class Tree:
    """Files below a root, and what has been taken of them."""

    def __init__(self, root, store):
        self.root, self.store = root, store(root)
        self.described, self.ends = set(), {}

    def write(self, path, content="x", at=OLD):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        os.utime(file, (at, at))
        for folder in (file.parent, *file.parent.parents):
            if folder == self.root.parent:
                break
            os.utime(folder, (at, at))

    def describe(self, table, version):
        self.write(f"{table}/meta/schema_{version}_0000000001.json")
        self.described.add(VersionPath(table, version))

    def rows(self, folder, number, *, dispatcher="", at=OLD):
        name = f"CDC_{dispatcher}_{number:06}.csv" if dispatcher else f"CDC{number:06}.csv"
        self.write(f"{folder}/{name}", at=at)
        self.ends[Lane(folder, dispatcher)] = LaneEnd(number, f"{folder}/{name}", float(at))
        return f"{folder}/{name}"

    def everything(self):
        return sorted(entry.path for entry in self.store.everything())

    def recent(self):
        return sorted(entry.path for entry in self.store.recent(live_folders(self.ends, self.described)))


def arrow(root):
    return ArrowStore(LocalFileSystem(), str(root))


@pytest.fixture(params=[FolderStore, arrow], ids=["folder", "arrow"])
def tree(request, tmp_path):
    return Tree(tmp_path, request.param)


def test_everything_is_every_file(tree):
    tree.describe("s/t", 5)
    path = tree.rows("s/t/5/2026-01-02", 1)
    assert tree.everything() == [path, "s/t/meta/schema_5_0000000001.json"]
    entry = tree.store.entry(path)
    assert (entry.size, entry.modified) == (1, OLD)
    assert tree.store.read(path) == tree.store.read(path, 0, 5) == b"x"
    assert tree.store.read(path, 1) == tree.store.read(path, 7, 2) == b""
    with pytest.raises(FileNotFoundError):
        tree.store.entry("s/t/6")


def test_new_files_are_found_where_they_should_come(tree):
    tree.describe("s/t", 5)
    tree.rows("s/t/5/2026-01-02", 1)
    tree.describe("s/t", 6)
    last = tree.rows("s/t/6/2026-01-03", 7)
    tree.recent()
    new = [
        "s/t/6/2026-01-03/CDC000008.csv", "s/t/6/2026-01-04/CDC000001.csv", "s/t/7/2026-01-03/CDC000001.csv",
        "s/t/meta/schema_7_0000000002.json", "s/u/meta/schema_8_0000000003.json", "s/u/8/2026-01-03/CDC000001.csv",
        "s/meta/schema_9_0000000004.json", "r/v/meta/schema_1_0000000005.json",
    ]  # fmt: skip
    for path in new:
        tree.write(path, at=OLD + 60)
    assert {*tree.recent()} >= {*new}
    assert last not in new


def test_folders_of_older_dates_and_versions_are_not_listed(tree):
    tree.describe("s/t", 5)
    tree.describe("s/t", 6)
    tree.rows("s/t/6/2026-01-03", 1, at=OLD + 200_000)
    closed = [tree.rows("s/t/5/2026-01-02", 1), "s/t/6/2026-01-01/CDC000001.csv"]
    tree.write(closed[1])
    tree.ends.pop(Lane("s/t/6/2026-01-01", ""), None)
    assert not {*closed} & {*tree.recent()}
    assert {*closed} <= {*tree.everything()}


def test_an_older_version_is_looked_into_as_long_as_something_came_lately(tree):
    tree.describe("s/t", 5)
    tree.describe("s/t", 6)
    tree.rows("s/t/5", 1, at=OLD + 10)
    tree.rows("s/t/6", 1, at=OLD)
    tree.recent()
    tree.write("s/t/5/CDC000002.csv", at=OLD + 60)
    assert "s/t/5/CDC000002.csv" in tree.recent()


def test_each_partition_and_dispatcher_goes_on(tree):
    tree.describe("s/t", 5)
    tree.rows("s/t/5/101/2026-01-02", 1)
    tree.rows("s/t/5/1001/2026-01-02", 1)
    tree.rows("s/t/5/1002/2026-01-02", 1, dispatcher="a-b")
    tree.recent()
    new = [
        "s/t/5/101/2026-01-02/CDC000002.csv", "s/t/5/1001/2026-01-02/CDC000002.csv",
        "s/t/5/99/2026-01-02/CDC000001.csv",
        "s/t/5/1002/2026-01-02/CDC_a-b_000002.csv", "s/t/5/1002/2026-01-02/CDC_a-a_000001.csv",
    ]  # fmt: skip
    for path in new:
        tree.write(path, at=OLD + 60)
    assert {*tree.recent()} >= {*new}


def test_a_folder_that_was_not_changed_is_not_listed_again(tmp_path):
    tree = Tree(tmp_path, FolderStore)
    tree.describe("s/t", 5)
    path = tree.rows("s/t/5", 1)
    assert path in tree.recent()
    assert tree.recent() == []
    (tmp_path / path).touch()
    os.utime(tmp_path / "s/t/5")  # just now: it may change again at this time
    assert path in tree.recent()
    assert path in tree.recent()


@pytest.mark.parametrize("path", ["gone", "folder", "file/x", "x" * 300, "link", "link/inside", "pipe"])
def test_what_is_no_file_is_not_there(tmp_path, path):
    """A message names it, and whoever wrote that may have named anything."""
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "file").write_text("x")
    (root / "link").symlink_to(root / "file")
    os.mkfifo(root / "pipe")
    with pytest.raises(FileNotFoundError):
        FolderStore(root).read(path)
    assert FolderStore(root).read("file") == b"x"


def test_links_and_folders_called_like_files_are_passed_over(tmp_path):
    tree = Tree(tmp_path / "root", FolderStore)
    tree.rows("s/t/5", 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "root/s/link").symlink_to(tmp_path / "other")
    (tmp_path / "root/s/t/5/CDC000002.csv").symlink_to(tmp_path / "root/s/t/5/CDC000001.csv")
    (tmp_path / "root/s/t/5/CDC000003.csv").mkdir()
    (tmp_path / "root/s/t/5/CDC000003.csv/CDC000001.csv").touch()
    assert tree.everything() == ["s/t/5/CDC000001.csv"]
    assert sorted(tree.store.no_files) == ["s/link", "s/t/5/CDC000002.csv", "s/t/5/CDC000003.csv"]


@pytest.mark.parametrize(
    ("folder", "without"),
    [("s/t/5/2026-01-02", "s/t/5"), ("s/t/5/2026-01", "s/t/5"), ("s/t/5/2026", "s/t/5/2026"), ("s/t/5", "s/t/5")],
)
def test_a_year_may_be_a_partition(folder, without):
    assert undated(folder) == without
