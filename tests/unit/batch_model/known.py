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


def _suite(*names: str) -> Any:
    return "the_suite_changes", {"suite": names}


def _redrive(what: str, crash: int | None = None, then: tuple[str, ...] | None = None) -> Any:
    return "what_was_set_aside_is_redriven", {"what": what, "crash": crash, "then": then}


LOST = ("something_befalls_the_checkpoint", {"what": "lose"})
FORGET = ("the_registry_forgets_or_remembers", {"pick": 0, "forget": True})
FORGET_ANOTHER = ("the_registry_forgets_or_remembers", {"pick": 1, "forget": True})
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
    "what lies beyond the end of a table that is held since is held, and nothing else": (
        PLAIN,
        [_batch(), _row("b", 1), _batch(crash=6), LOST, _row("b", 3), _hold("b"), _batch()],
    ),
    "a release that is taken up again quarantines nothing of what it has appended": (
        PLAIN,
        [_suite("wait"), _row("a", 2, times=3), _batch(), _hold("a", hold=False, crash=1), _redrive("quarantine", 3)],
    ),
    "statements of a held table are counted once, where some of their copies are not held": (
        COLUMNS,
        [("a_statement_of_another_kind", {"name": "a", "what": "strange_statement"})],
    ),
    "statements of a table that was released in the middle of their batch are counted once": (
        COLUMNS,
        [_column("a", "add", 0), _suite("wait"), _batch(crash=23), _hold("a", hold=False)],
    ),
    "what is quarantined of a dropped table is not of the next one of its name": (
        NAMES,
        [_suite("set aside"), _row("a", 3), _batch(), _names("a", "recreate")],
    ),
    "dead letters of two tables that nobody knew": (
        PLAIN,
        [_row("b", 0), FORGET, _column("a", "add", 0), FORGET_ANOTHER, _batch()],
    ),
    "dead letters of a batch that is not committed do not pass its other records": (
        PLAIN,
        [
            _hold("a"),
            _row("b", 3),
            FORGET,
            _row("b", 3, "replace"),
            _batch(crash=2),
            _redrive("dead_letters", 1),
        ],
    ),
    "a redrive of dead letters that is taken up again under other rules": (
        PLAIN,
        [
            _row("a", 0),
            _batch(),
            _column("a", "add", 1),
            _row("a", 1, times=3),
            FORGET,
            _batch(),
            REMEMBER,
            _suite("set more aside"),
            _redrive("dead_letters", 8, ()),
        ],
    ),
    "a redrive that is taken up again under other rules does not undo what it has done": (
        PLAIN,
        [
            _row("b", 0, times=4),
            _row("a", 1),
            _row("b", 0, times=2),
            _row("a", 1),
            _suite("set aside"),
            _batch(),
            _suite("set more aside"),
            _redrive("quarantine", 10, ()),
        ],
    ),
    "a redrive that is taken up again when its schema cannot be read any more": (
        PLAIN,
        [
            _row("a", 0, times=2),
            _suite("set more aside"),
            _batch(),
            _suite(),
            _redrive("quarantine", 4),
            FORGET,
            _hold("a"),
        ],
    ),
    "rows and a RENAME of a column that a changefeed has sent again": (
        COLUMNS,
        [
            _column("a", "add", 0),
            _batch(),
            _batch((1,)),
            _column("a", "rename", 0),
            _batch((0, 4)),
            ("the_changefeed_restarts", {"back": 4}),
        ],
    ),
}

OPEN: dict[str, tuple[str, list[Any]]] = {
    "names change places in a batch of redelivered rows, and change again": (
        NAMES,
        [
            _column("a", "add", 0),
            _row("a", 0, times=3),
            _row("a", 1, "replace", 2),
            _batch(),
            ("the_changefeed_restarts", {"back": 11}),
            _names("a", "cycle"),
            _batch(),
            _names("b", "away and back"),
        ],
    ),
    "tables that were made anew, of which one cannot be read, change names": (
        NAMES,
        [
            _batch((0, 4)),
            _names("a", "restore"),
            ("the_registry_forgets_or_remembers", {"pick": 1, "forget": True}),
            _names("a", "cycle"),
            _batch((0, 0, 3, 3)),
        ],
    ),
    "a table is made anew after an exchange that was read in part": (
        NAMES,
        [
            _batch(),
            ("the_changefeed_restarts", {"back": 2}),
            _damage("a", 0),
            _row("a", 0, times=2),
            _batch((0, 0, 0, 3)),
            _column("a", "add", 0),
            _column("a", "add", 0),
            _row("a", 0, times=3),
            _names("a", "cycle"),
            _batch((0, 0, 3, 3)),
            _names("a", "recreate"),
        ],
    ),
    "a held table changes its name twice, and loses a column": (
        NAMES,
        [
            _batch((0, 4)),
            _hold("b"),
            _names("a", "swap"),
            _batch((0, 4)),
            _column("a", "drop", 0),
            _names("a", "swap"),
            _hold("b"),
            _batch(crash=15),
        ],
    ),
    "tables made anew, a lost checkpoint, and then a restored one": (
        NAMES,
        [
            _batch(),
            _names("a", "restore"),
            _batch((1,), crash=0),
            ("something_befalls_the_checkpoint", {"what": "back up"}),
            ("something_befalls_the_checkpoint", {"what": "lose"}),
            _batch(fault=("a", "evolve")),
            ("something_befalls_the_checkpoint", {"what": "restore"}),
        ],
    ),
    "a column is widened twice, and one partition is read ahead": (
        COLUMNS,
        [
            _column("a", "widen", 1),
            _column("a", "widen", 1),
            _row("a", 2),
            _batch((3, 0, 0, 0)),
            _batch((3, 0, 0, 0)),
        ],
    ),
}
"""Histories by offset that fail today: of 100,000 about ten do. When one holds, it moves to `KNOWN`."""
