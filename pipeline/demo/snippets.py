"""What a person can paste into a terminal after the demo; a test runs each of them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

_PYICEBERG = """\
from pyiceberg.catalog import load_catalog

catalog = load_catalog("warehouse", type="sql", uri="sqlite:///{warehouse}/catalog.db")
paid = catalog.load_table("shop.orders").scan(row_filter="status = 'paid'").to_arrow()
print(paid.group_by("channel").aggregate([("order_id", "count"), ("total", "sum")]).to_pylist())
"""
_SPARK = """\
from pathlib import Path
from pipeline.settings import load
from pipeline.runtime.session import session

spark = session(load(Path("{config}")))
spark.sql("SELECT channel, count(*), sum(total) FROM warehouse.shop.orders WHERE status = 'paid' GROUP BY 1").show()
"""


def pyiceberg(warehouse: Path) -> str:
    """Give a command that reads the current table of orders with PyIceberg."""
    return _command(_PYICEBERG.format(warehouse=warehouse))


def spark(config: Path) -> str:
    """Give a command that asks the same of Spark."""
    return _command(_SPARK.format(config=config))


def tables(config: Path) -> list[str]:
    """Give the commands that show what the warehouse holds."""
    asked = ("list", "describe shop.orders", "history shop.orders", "as-of --look")
    return [f"{_program()} tables {what} -c {shlex.quote(str(config))}" for what in asked]


def quality(config: Path, report: Path) -> list[str]:
    """Give the commands that show what was set aside, and write the report anew."""
    asked = ("quarantine list", "quarantine show --limit 3", f"report --to {shlex.quote(str(report))}")
    return [f"{_program()} {what} -c {shlex.quote(str(config))}" for what in asked]


def _command(code: str) -> str:
    return f"{shlex.quote(_short(sys.executable))} - <<'END'\n{code}END"


def _program() -> str:
    """Name this program as it can be called from here."""
    if shutil.which("ticdc-warehouse"):
        return "ticdc-warehouse"
    beside = Path(sys.executable).with_name("ticdc-warehouse")
    return _short(str(beside)) if beside.exists() else f"{_short(sys.executable)} -m pipeline"


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
