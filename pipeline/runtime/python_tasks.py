"""Tasks that run Python."""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Let the next task of this process begin at once.

    Before each task Spark has Python forget what it knows of the folders that it imports from. Spark's own packages lie
    in archives, and of each of these Python then reads the table of contents, which takes a tenth of a second. An
    archive that Python has not met is not read. It is met again with the next import of a module that is in it.
    """
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimporter)]:
        del finders[path]
