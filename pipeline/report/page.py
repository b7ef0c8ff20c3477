"""The report as one page: no script, nothing from elsewhere, every value escaped."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from pipeline.report import commands, wording
from pipeline.report.chart import Chart, spark
from pipeline.report.facts import CheckMark, PipelineState
from pipeline.report.phrases import GLYPHS, MARKS, SIGNS, cell_title, strip, window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.report.facts import Report


def page(report: Report) -> str:
    """Write it as HTML."""
    chart = Chart.of(report.volume)
    return _environment().get_template("page.html.j2").render(r=report, now=report.made_at, chart=chart)


def _in_order(items: Iterable[Any], name: str) -> list[tuple[Any, list[Any]]]:
    """Group neighbours by an attribute; Jinja's own `groupby` sorts."""
    return [(key, list(group)) for key, group in groupby(items, key=attrgetter(name))]


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "stamp": wording.stamp, "clock": wording.clock, "ago": wording.ago, "duration": wording.duration,
        "count": wording.count, "iso": lambda moment: moment.isoformat().replace("+00:00", "Z"),
        "number": lambda number: f"{number:,}",
    }  # fmt: skip
    made.filters["groupby_in_order"] = _in_order
    made.globals |= {
        "Standing": PipelineState, "Mark": CheckMark, "MARKS": MARKS, "GLYPHS": GLYPHS, "SIGNS": SIGNS,
        "cell_title": cell_title,
        "strip": strip, "window": window, "spark": spark, "commands": commands,
    }  # fmt: skip
    return made
