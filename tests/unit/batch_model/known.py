"""Histories that once went wrong, cut down: each was a fault of the product."""

from __future__ import annotations

from typing import Any

from unit.batch_model.history import COLUMNS, NAMES, PLAIN


def _batch(limit: tuple[int, ...] = (9,), crash: int | None = None, fault: tuple[str, str] | None = None) -> Any:
    return "a_batch_is_taken", {"limit": limit, "crash": crash, "others": (), "fault": fault}


def _row(name: str, key: int, what: str = "put", times: int = 1) -> Any:
    return "a_row_changes", {"name": name, "key": key, "what": what, "times": times}


def _column(name: str, what: str, key: int) -> Any:
    return "a_column_changes", {"name": name, "what": what, "key": key, "pick": 0}


def _damage(name: str, partition: int, *, header: bool = False) -> Any:
    return "a_message_is_damaged", {"name": name, "partition": partition, "header": header}


def _hold(name: str, *, hold: bool = True, crash: int | None = None) -> Any:
    return "a_table_is_held_or_released", {"name": name, "crash": crash, "hold": hold}


def _names(name: str, what: str) -> Any:
    return "names_change", {"name": name, "what": what}


LOST = ("something_befalls_the_checkpoint", {"what": "lose"})
FORGET = ("the_registry_forgets_or_remembers", {"pick": 0, "forget": True})
REMEMBER = ("the_registry_forgets_or_remembers", {"pick": 0, "forget": False})

KNOWN = {
    "a schema that is readable again after a crash lies below the table's end": (
        PLAIN,
        [_column("a", "add", 0), FORGET, _column("a", "add", 0), _batch(crash=6), REMEMBER],
    ),
    "a partition that an unfinished batch has appended is not appended with another": (
        PLAIN,
        [_batch(), _row("a", 1), _batch(crash=6), LOST],
    ),
    "a dead letter of an unfinished batch with a longer range": (
        PLAIN,
        [_damage("b", 0), _damage("a", 0, header=True), _batch(fault=("b", "evolve")), LOST, _batch((0, 0, 3, 0))],
    ),
    "an undecodable record below the end of a table that was begun": (
        PLAIN,
        [_column("a", "add", 0), _batch(), _row("a", 0), _damage("b", 0), _batch(crash=21), LOST],
    ),
    "an undecodable record below the end of a table that is held since": (
        PLAIN,
        [_batch(), _damage("a", 0), _batch(crash=6), _hold("a"), _batch()],
    ),
    "a release that dies between living and marking": (
        PLAIN,
        [_row("a", 0), _batch(), _hold("a"), _row("a", 0), _batch(), _hold("a", hold=False, crash=5)],
    ),
    "a row of a version that comes after its fork": (
        PLAIN,
        [_column("b", "widen", 1), _column("b", "widen", 0), _batch((1, 0))],
    ),
    "a key-only version is not the newest": (
        PLAIN,
        [_row("a", 0), _column("a", "add", 0), _row("a", 1, "replace", 2), _batch((0, 4))],
    ),
    "a TRUNCATE in the batch of the table's first rows": (
        COLUMNS,
        [_row("b", 1), ("a_statement_of_another_kind", {"name": "b", "what": "truncate"})],
    ),
    "a copy of CREATE TABLE that comes after rows": (
        COLUMNS,
        [_batch((0, 1)), _row("a", 1), _batch((0, 1))],
    ),
    "a row that was met before a rename and is read again after it": (
        COLUMNS,
        [_row("a", 1), _batch((9,)), _column("a", "rename", 0), _batch((2,), crash=15), _batch()],
    ),
    "records of a held table, cut by a statement, are held once": (
        COLUMNS,
        [_row("a", 0), _batch((4, 0)), _row("a", 0), _row("a", 1), _hold("a"), _batch()],
    ),
    "a column added to a table that has just got its name": (
        NAMES,
        [_names("a", "swap"), _column("a", "add", 0)],
    ),
    "a crash between the renames of a pair": (
        NAMES,
        [_batch(), _row("a", 0), _names("a", "swap"), _batch(crash=5)],
    ),
    "a second try after renames binds names as before them": (
        NAMES,
        [_batch((2,)), _names("a", "swap"), _batch(fault=("b", "evolve")), _batch(crash=15)],
    ),
    "a held table keeps its records through renames": (
        NAMES,
        [_batch(), _hold("a"), _names("a", "away and back"), _batch()],
    ),
    "a held table that is renamed among others": (
        NAMES,
        [_batch(), _row("b", 1), _names("a", "swap"), _hold("b"), _batch()],
    ),
    "a release is taken up again when its schema cannot be read any more": (
        PLAIN,
        [_row("a", 0, times=2), _batch((1,)), _hold("a"), _batch(), _hold("a", hold=False, crash=3), FORGET, _batch()],
    ),
    "statements about a table without rows are sent again": (
        COLUMNS,
        [
            _batch(),
            _column("b", "widen", 1),
            _batch((1, 0), crash=0),
            _batch(),
            _column("b", "widen", 2),
            _batch((1,)),
            ("the_changefeed_restarts", {"back": 5}),
            _batch(),
        ],
    ),
    "a second try finds a chain of renames carried out in which a name is taken twice": (
        NAMES,
        [
            _names("a", "away and back"),
            _names("a", "swap"),
            _batch((0, 4), fault=("a", "evolve")),
            _batch(),
            _batch(crash=5),
            _batch(fault=("b", "append")),
        ],
    ),
}
