"""Messages of Canal-JSON that are no rows, as a changefeed sends them to Kafka."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from pipeline.simulate import go

if TYPE_CHECKING:
    from pipeline.simulate.ddl import SimulatedDdl

_TYPES = {1: "QUERY", 2: "QUERY", 3: "CREATE", 4: "ERASE", 7: "CINDEX", 8: "DINDEX", 11: "TRUNCATE", 14: "RENAME"}
"""TiCDC's words, by TiDB's ActionType numbers; for all others it is ALTER."""
_WATERMARK = "TIDB_WATERMARK"
_PHYSICAL_BITS = 18


def ddl_message(ddl: SimulatedDdl, commit_ts: int, *, extension: bool = True) -> bytes:
    """Return a statement; it has no structure but its text. `extension`: enable-tidb-extension."""
    fields = {"database": ddl.schema, "table": ddl.table, "isDdl": True, "type": _TYPES.get(ddl.action, "ALTER")}
    return _message({**fields, "sql": ddl.query}, commit_ts, {"commitTs": commit_ts} if extension else None)


def watermark(commit_ts: int) -> bytes:
    """Return the message that says: everything up to this commit ts was sent. It is part of the extension."""
    fields = {"database": "", "table": "", "isDdl": False, "type": _WATERMARK, "sql": ""}
    return _message(fields, commit_ts, {"watermarkTs": commit_ts})


def _message(fields: dict[str, object], commit_ts: int, tidb: dict[str, int] | None) -> bytes:
    message: dict[str, object] = {
        "id": 0, "database": fields["database"], "table": fields["table"], "pkNames": None, "isDdl": fields["isDdl"],
        "type": fields["type"], "es": commit_ts >> _PHYSICAL_BITS, "ts": time.time_ns() // 1_000_000,
        "sql": fields["sql"], "sqlType": None, "mysqlType": None, "data": None, "old": None,
        **({} if tidb is None else {"_tidb": tidb}),
    }  # fmt: skip
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).translate(go.ESCAPES).encode()
