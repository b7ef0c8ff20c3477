"""The file of ids: a cache, never a reason to fail."""

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from registry.cache import CachedSchema, SchemaCache

HERE = "http://registry"
ONE = CachedSchema('{"type":"record"}', ("t-value",))


def saved(path, *schemas):
    cache = SchemaCache(path, HERE)
    for number, schema in enumerate(schemas, start=1):
        cache.put(number, schema)
    return cache


def test_what_was_kept_is_there_after_a_restart(tmp_path):
    saved(tmp_path / "ids.json", ONE, CachedSchema("日本"))
    again = SchemaCache(tmp_path / "ids.json", HERE)
    assert (again.get(1), again.get(2), again.get(3)) == (ONE, CachedSchema("日本"), None)


def test_nothing_that_came_from_disk_counts_as_verified(tmp_path):
    assert saved(tmp_path / "ids.json", ONE).verified
    assert not SchemaCache(tmp_path / "ids.json", HERE).verified
    assert SchemaCache(None, HERE).verified


def test_the_folder_is_made_and_nothing_is_left_beside_the_file(tmp_path):
    saved(tmp_path / "checkpoint" / "registry" / "ids.json", ONE)
    assert [p.name for p in (tmp_path / "checkpoint" / "registry").iterdir()] == ["ids.json"]


def test_clearing_removes_the_file(tmp_path):
    cache = saved(tmp_path / "ids.json", ONE)
    cache.clear()
    assert cache.get(1) is None
    assert not (tmp_path / "ids.json").exists()
    cache.clear()  # a file that is already gone is no error


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format":1}',
        b'{"format":1,"registry":"http://registry","schemas":{"one":{"text":"x"}}}',
        b'{"format":1,"registry":"http://registry","schemas":{"1":{"text":7}}}',
        b'{"format":1,"registry":"http://registry","schemas":{"1":{"text":"x","subjects":"t"}}}',
        b'{"format":2,"registry":"http://registry","schemas":{"1":{"text":"x"}}}',
        b'{"format":1,"registry":"http://another","schemas":{"1":{"text":"x"}}}',
        b"[" * 100_000,
    ],
)
def test_a_file_that_is_not_ours_is_discarded_with_a_line_and_no_error(tmp_path, caplog, content):
    path = tmp_path / "ids.json"
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="registry"):
        cache = SchemaCache(path, HERE)
    assert cache.get(1) is None
    assert cache.verified
    assert ["discarded" in line.getMessage() for line in caplog.records] == [True]
    cache.put(1, ONE)
    assert SchemaCache(path, HERE).get(1) == ONE


def test_a_folder_in_place_of_the_file_is_a_line_in_the_log_and_no_error(tmp_path, caplog):
    (tmp_path / "ids.json").mkdir()
    cache = SchemaCache(tmp_path / "ids.json", HERE)
    cache.put(1, ONE)
    assert cache.get(1) == ONE
    assert "not written" in caplog.text
    assert [p.name for p in tmp_path.iterdir()] == ["ids.json"]


def test_a_kill_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    saved(tmp_path / "ids.json", ONE)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        SchemaCache(tmp_path / "ids.json", HERE).put(2, ONE)
    assert list(json.loads((tmp_path / "ids.json").read_text())["schemas"]) == ["1"]


def test_witnesses_are_each_subjects_oldest_and_newest_id(tmp_path):
    cache = saved(
        tmp_path / "ids.json",
        CachedSchema("1", ("t-key",)),
        CachedSchema("2", ("t-value",)),
        CachedSchema("3", ("t-value", "renamed-value")),
        CachedSchema("4", ("t-value",)),
        CachedSchema("5"),
    )
    assert cache.witnesses() == [1, 2, 3, 4, 5]
    cache.put(6, CachedSchema("6", ("t-value",)))
    assert cache.witnesses() == [1, 2, 3, 5, 6]


def test_many_threads_keep_every_id(tmp_path):
    cache = SchemaCache(tmp_path / "ids.json", HERE)
    threads = [threading.Thread(target=cache.put, args=(n, ONE)) for n in range(1, 51)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = SchemaCache(tmp_path / "ids.json", HERE)
    assert all(again.get(n) == ONE for n in range(1, 51))
    assert os.listdir(tmp_path) == ["ids.json"]  # noqa: PTH208
