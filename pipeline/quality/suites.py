"""The user's suites: YAML files that say what is expected of a table, as types, with the place of everything written.

    table: shop.orders              # or a list, or a pattern: shop.order_*
    owner: orders team
    private: [email]                # no samples of these columns are kept
    checks:
      - expect_column_values_to_be_between: {column: total, min_value: 0}
        severity: quarantine
        because: refunds are rows of their own

A suite is read without Great Expectations and without the table: whether an expectation exists and a column is there
is not asked here (decision 003).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipeline.errors import SettingsError
from pipeline.model.names import confusable, folded
from pipeline.settings import document
from pipeline.settings.document import Document, SettingPlace
from pipeline.settings.faults import did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

    from pipeline.model.names import TableName
    from pipeline.settings.faults import Path as Path_

SUFFIXES = (".yaml", ".yml")
PREFIX = "expect_"
_PREFIXES = (PREFIX, "unexpected_rows_expectation")
LARGEST_FILE = 1 << 20
CODE = "SUITE_INVALID"
_HINT = "a suite has `table: schema.table` and `checks:`, a list of `- expect_…: {column: …}`"
PLACE = re.compile(r"(.*?):([0-9]+):([0-9]+): ")
"""What a sentence about a file begins with."""


class Severity(StrEnum):
    """How bad a violation is. `policy` says what it does, so that no code compares severities."""

    WARN = "warn"
    QUARANTINE = "quarantine"
    HOLD = "hold"
    FAIL = "fail"

    @property
    def policy(self) -> SeverityPolicy:
        """What a violation does."""
        return _POLICIES[self]


@dataclass(frozen=True, slots=True)
class SeverityPolicy:
    """What a violation does, besides being recorded. `rank`: 0 is the mildest severity.

    `sets_row_aside`: the row goes to quarantine. `holds_table`: the batch stays out, and the table waits for a person.
    `ends_stream`: the batch stays out, and the run ends with exit code 1.
    """

    rank: int
    sets_row_aside: bool = False
    holds_table: bool = False
    ends_stream: bool = False

    @property
    def forbids_batch(self) -> bool:
        """Whether nothing of the batch enters the table."""
        return self.holds_table or self.ends_stream

    @property
    def only_records(self) -> bool:
        """Whether everything enters the table all the same."""
        return not (self.sets_row_aside or self.forbids_batch)


_POLICIES = {
    Severity.WARN: SeverityPolicy(0),
    Severity.QUARANTINE: SeverityPolicy(1, sets_row_aside=True),
    Severity.HOLD: SeverityPolicy(2, holds_table=True),
    Severity.FAIL: SeverityPolicy(3, ends_stream=True),
}
SETTING_ASIDE = tuple(severity for severity in Severity if severity.policy.sets_row_aside)
"""Severities of rules that set rows aside."""
KEEPING_OUT = tuple(severity for severity in Severity if not severity.policy.only_records)
"""Severities of rules that keep rows, or their batch, out of a table."""
FORBIDDING = tuple(
    sorted((severity for severity in Severity if severity.policy.forbids_batch), key=lambda one: -one.policy.rank)
)
"""Severities of rules that keep a batch out, the worst first."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(_listed)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class CheckForm(_Strict):
    """One check as it is written, but for the key that names its expectation."""

    name: str = Field(
        default="", description="the check's name in reports; if empty, made of the expectation and its columns"
    )
    severity: Annotated[Severity, Field(strict=False)] = Field(
        default=Severity.WARN,
        description="warn records; quarantine sets the row aside; hold makes the table wait; fail ends the stream",
    )
    because: str = Field(default="", description="why this is expected: shown where it is violated")
    owner: str = Field(default="", description="whom to ask; if empty, the suite's owner")
    mostly: float = Field(
        default=1.0, gt=0, le=1, strict=False, description="the least share of rows that must meet it"
    )
    row_condition: str = Field(default="", description="SQL on the table's columns that selects the rows to check")


class SuiteForm(_Strict):
    """One file as it is written."""

    table: Texts = Field(min_length=1, description="`schema.table` at the source, or patterns with `*` and `?`")
    owner: str = Field(default="", description="whom to ask about these checks")
    private: Texts = Field(default=(), description="columns whose values are never kept as a sample")
    checks: list[dict[Any, Any]] = Field(default=[], description="what is expected")


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation about a table, by GX's name with GX's arguments."""

    expectation: str
    arguments: Mapping[str, Any]
    name: str
    severity: Severity = Severity.WARN
    because: str = ""
    owner: str = ""
    mostly: float = 1.0
    row_condition: str = ""
    place: SettingPlace = field(default_factory=lambda: SettingPlace(""), compare=False)
    places: Mapping[Path_, SettingPlace] = field(default_factory=dict, compare=False, repr=False)

    def at(self, *keys: str) -> SettingPlace:
        """Where a key of it was written, or the nearest one around it; arguments stand under the expectation."""
        return _nearest(self.places, keys, self.place)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it names, in the order of GX's arguments."""
        single = (self.arguments.get(key) for key in ("column", "column_A", "column_B"))
        many = self.arguments.get("column_list") or ()
        return tuple(name for name in (*single, *many) if isinstance(name, str))

    def facts(self) -> dict[str, Any]:
        """What decides a verdict: names and reasons do not."""
        return {
            "expectation": self.expectation, "arguments": self.arguments, "severity": self.severity,
            "mostly": self.mostly, "row_condition": self.row_condition,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one file, and the tables that they are about."""

    tables: tuple[str, ...]
    checks: tuple[Check, ...]
    private: frozenset[str] = frozenset()
    place: SettingPlace = field(default_factory=lambda: SettingPlace(""), compare=False)
    places: Mapping[Path_, SettingPlace] = field(default_factory=dict, compare=False, repr=False)

    def at(self, *keys: str) -> SettingPlace:
        """Where a key of it was written, or the nearest one around it."""
        return _nearest(self.places, keys, self.place)

    def is_about(self, table: TableName | str) -> bool:
        """Whether a source table is one of its tables."""
        return any(matches(pattern, table) for pattern in self.tables)


def matches(pattern: str, table: TableName | str) -> bool:
    """Whether a pattern of a suite means a source table; names have no case."""
    return fnmatchcase(folded(str(table)), folded(pattern))


def _nearest(places: Mapping[Path_, SettingPlace], path: Path_, otherwise: SettingPlace) -> SettingPlace:
    while path and path not in places:
        path = path[:-1]
    return places.get(path, otherwise)


def fingerprint(checks: Iterable[Check]) -> str:
    """Twelve hex digits that change when a verdict could."""
    facts = sorted(json.dumps(check.facts(), sort_keys=True, default=str) for check in checks)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def load(folder: Path) -> tuple[Suite, ...]:
    """Every suite of a folder (`*.yaml`, `*.yml`, also in folders within), in the order of their names.

    Raises `SettingsError` with everything that is wrong, each with file, line and column.
    """
    suites, faults = scan(folder)
    if faults:
        raise refused(faults)
    return suites


def scan(folder: Path) -> tuple[tuple[Suite, ...], list[str]]:
    """Every suite of a folder, and what cannot be read of them.

    A suite in which something cannot be read has the checks that can be read. `validation` looks at those, so that a
    person hears of everything at once. Raises `SettingsError` if there is no folder.
    """
    if not folder.is_dir():
        sentence = f"quality.suites: there is no folder {printable(str(folder))}"
        raise SettingsError(CODE, sentence, "make it, or leave the setting out")
    suites: list[Suite] = []
    faults: list[str] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        try:
            suites.append(read(_text(path), printable(str(path.relative_to(folder)))))
        except Faults as error:
            faults += error.sentences
            suites += [error.suite] if error.suite is not None else []
    return tuple(suites), faults


def refused(faults: Iterable[str]) -> SettingsError:
    """One error for everything that is wrong in suites."""
    sentences = list(faults)
    count = "1 thing is" if len(sentences) == 1 else f"{len(sentences)} things are"
    return SettingsError(CODE, "\n  ".join([f"{count} wrong in the suites", *sentences]), _HINT)


class Faults(Exception):
    """What is wrong in one file, as sentences that begin with the place; `suite`: what could be read of it."""

    def __init__(self, sentences: Iterable[str], suite: Suite | None = None) -> None:
        super().__init__()
        self.sentences = list(sentences)
        self.suite = suite


def read(text: str, source: str) -> Suite:
    """One suite of YAML text; `source` names it. Raises `Faults`."""
    try:
        written = document.read(text, source)  # its places, and what YAML itself lets pass: doubled keys, great depth
        tree = yaml.safe_load(text)
    except SettingsError as error:
        raise Faults([error.message]) from None
    except (yaml.YAMLError, ValueError) as error:  # a value that is none: 2026-13-45
        raise Faults([f"{source}: {printable(str(error))}"]) from None
    faults = [f"{fault.place}: {fault.text}" for fault in written.faults]
    form = _valid(SuiteForm, tree, (), written, faults)
    listed = tree.get("checks") if isinstance(tree, dict) else None
    items = enumerate(listed if isinstance(listed, list) else [])
    read_checks = [_check(number, entry, written, faults) for number, entry in items if isinstance(entry, dict)]
    checks = tuple(replace(check, owner=check.owner or (form.owner if form else "")) for check in read_checks if check)
    faults += _doubled(checks)
    private = frozenset(confusable(name) for name in form.private) if form else frozenset()
    suite = Suite(form.table if form else (), checks, private, SettingPlace(source, 1, 1), written.places)
    if faults or form is None:
        raise Faults(sorted(faults, key=_line), suite)
    return suite


def _line(sentence: str) -> tuple[int, int]:
    place = PLACE.match(sentence)
    return (int(place[2]), int(place[3])) if place else (0, 0)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise Faults([f"{printable(path.name)}: larger than a megabyte"])
        return data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Faults([f"{printable(path.name)}: can't be read: {reason}"]) from None


Form = TypeVar("Form", bound=BaseModel)


def _valid(form: type[Form], tree: object, path: Path_, written: Document, faults: list[str]) -> Form | None:
    try:
        return form.model_validate(tree)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            inner = (*path, *map(str, detail["loc"]))
            faults.append(f"{written.place(inner)}: {_sentence(form, detail)}")
        return None


def _sentence(form: type[BaseModel], detail: ErrorDetails) -> str:
    key = printable(str(detail["loc"][-1])) if detail["loc"] else "the file"
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{key}`{did_you_mean(key, form.model_fields)}"
    if detail["type"] == "missing":
        return f"`{key}` is missing: {form.model_fields[key].description}"
    if detail["type"] == "dict_type":
        return "a check is keys and values"
    return f"`{key}`: {printable(detail['msg'].replace('Input should', 'should'))}"


def _check(number: int, item: Mapping[Any, Any], written: Document, faults: list[str]) -> Check | None:
    path: Path_ = ("checks", str(number))
    place = written.place(path)
    named = [key for key in item if str(key).startswith(_PREFIXES)]
    if len(named) != 1:
        what = "no expectation" if not named else "more than one expectation"
        faults.append(f"{place}: {what}; a check has exactly one key such as `{PREFIX}column_values_to_not_be_null`")
        return None
    (expectation,) = named
    arguments = item[expectation] or {}
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        faults.append(f"{written.place((*path, expectation))}: expected arguments: {{column: …}}")
        return None
    beside = [key for key in arguments if key in CheckForm.model_fields]
    faults += [
        f"{written.place((*path, expectation, key))}: write `{key}` beside `{expectation}`, not in it" for key in beside
    ]
    rest = {key: value for key, value in item.items() if key != expectation}
    form = _valid(CheckForm, rest, path, written, faults) or CheckForm(name=str(rest.get("name") or f"check {number}"))
    arguments = {key: value for key, value in arguments.items() if key not in beside}
    check = Check(
        expectation, arguments, form.name, form.severity, form.because, form.owner, form.mostly,
        form.row_condition, written.place((*path, expectation)), _within(written, path),
    )  # fmt: skip
    return check if check.name else replace(check, name=_named(check))


def _within(written: Document, path: Path_) -> dict[Path_, SettingPlace]:
    start = len(path)
    return {one[start:]: place for one, place in written.places.items() if one[:start] == path and len(one) > start}


def _named(check: Check) -> str:
    """A name for a check without one: `not_be_null(total)`."""
    words = check.expectation.removeprefix(PREFIX)
    for start in ("column_pair_values_", "column_values_to_", "column_value_", "column_", "table_"):
        if words.startswith(start):
            words = words.removeprefix(start).removeprefix("to_")
            break
    return f"{words}({', '.join(check.columns)})" if check.columns else words


def _doubled(checks: Iterable[Check]) -> Iterator[str]:
    first: dict[str, Check] = {}
    for check in checks:
        other = first.setdefault(check.name, check)
        if other is not check:
            yield f"{check.place}: the check at {other.place} is named `{printable(check.name)}` too; give it a `name`"
