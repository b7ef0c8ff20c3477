"""In which order the suite runs, and where its time went.

Workers take whole files, the longest first, by the seconds that `durations.json` has for them. A run of the whole suite
with TICDC_WAREHOUSE_DURATIONS=record writes that file anew.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from support.slow import EVERY
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name("durations.json")
ALONE = ("golden/test_golden_cut.py",)
"""Files that take long and whose tests share nothing: any worker may take any of their tests."""
_SHOWN = 12


class ByFile(LoadScopeScheduling):
    """Workers share the suite out by file, for the sake of what its tests have in common, unless that is nothing."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith(ALONE) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Asked for by pytest-xdist, where there are workers."""
    return ByFile(config, log)


def pytest_collection_modifyitems(config, items):
    """Leave slow tests out, unless all are asked for; the longest files come first."""
    if not EVERY:
        slow = [item for item in items if item.get_closest_marker("slow")]
        if slow:
            config.hook.pytest_deselected(items=slow)
            items[:] = [item for item in items if not item.get_closest_marker("slow")]
    seconds = json.loads(RECORDED.read_text())
    items.sort(key=lambda item: -seconds.get(_file(item.nodeid), 0))


def pytest_terminal_summary(terminalreporter):
    """Print where the time went: by folder, and the files that took longest."""
    files = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                files[_file(report.nodeid)] += report.duration
    if len(files) < _SHOWN:
        return
    folders = Counter()
    for file, seconds in files.items():
        folders[str(Path(file).parent)] += seconds
    terminalreporter.section("where the time went (seconds of all workers)")
    for name, seconds in (*folders.most_common(), *files.most_common(_SHOWN)):
        terminalreporter.write_line(f"{seconds:8.0f}  {name}")
    if os.environ.get("TICDC_WAREHOUSE_DURATIONS") == "record":
        known = {file: round(seconds) for file, seconds in sorted(files.items()) if round(seconds)}
        RECORDED.write_text(json.dumps(known, indent=1) + "\n")


def _file(nodeid):
    return nodeid.partition("::")[0]
