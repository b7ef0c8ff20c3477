"""What a task of Python leaves to the next one of its process."""

import importlib
import sys
import zipfile
from zipimport import zipimporter

from pipeline.runtime.python_tasks import forget_archives


def test_archives_are_forgotten_and_met_again(tmp_path, monkeypatch):
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("in_archive_one.py", "NUMBER = 1\n")
        written.writestr("in_archive_two.py", "NUMBER = 2\n")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("in_archive_one").NUMBER == 1
    assert isinstance(sys.path_importer_cache[str(archive)], zipimporter)
    forget_archives()
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    importlib.invalidate_caches()
    assert importlib.import_module("in_archive_two").NUMBER == 2
