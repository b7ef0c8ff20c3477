"""Golden trees of the storage sink: unpacked, in part or whole, and a pipeline that reads them."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from golden.corpus import FOLDER, GoldenCase
from golden.warehouse import Warehouse

from pipeline.service import Pipeline
from pipeline.settings import parse
from pipeline.sources.storage.paths import METADATA, DataFile, read_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipeline.settings import Settings

_OLD = 1_700_000_000
"""When the files of a tree were written, so that nothing of them can still come."""


def storage_cases() -> list[GoldenCase]:
    """Every tree."""
    archives = sorted(FOLDER.glob("*/*storage_c*.tar.gz"))
    return [GoldenCase(archive.parent.name, archive.name.partition(".")[0]) for archive in archives]


def files_of(scenario: str, config: str) -> dict[str, bytes]:
    """The files of a tree, by their paths below the root."""
    with tarfile.open(FOLDER / scenario / f"{config}.tar.gz") as archive:
        members = [
            (member.name.partition("/")[2], archive.extractfile(member)) for member in archive if member.isfile()
        ]
        return {path: file.read() for path, file in members if file is not None}


@dataclass(slots=True)
class Tree:
    """A tree in a folder of its own, of which parts are copied to where a pipeline reads."""

    case: GoldenCase
    whole: Path
    shown: Path

    @staticmethod
    def of(case: GoldenCase, folder: Path) -> Tree:
        """Unpack it."""
        with tarfile.open(FOLDER / case.scenario / f"{case.config}.tar.gz") as archive:
            archive.extractall(folder / "whole", filter="data")
        (inside,) = (folder / "whole").iterdir()
        (folder / "shown").mkdir()
        return Tree(case, inside, folder / "shown")

    def paths(self) -> list[str]:
        """Every file, by its path below the root."""
        return sorted(str(file.relative_to(self.whole)) for file in self.whole.rglob("*") if file.is_file())

    def rows(self) -> list[str]:
        """The files of rows."""
        return [path for path in self.paths() if isinstance(read_path(path), DataFile)]

    def events(self) -> Counter[int]:
        """How many row events the files have, by commit ts."""
        return sum((self.events_of(path) for path in self.rows()), Counter())

    def events_of(self, path: str) -> Counter[int]:
        """How many row events a file has, by commit ts; a D and an I that say so are one UPDATE."""
        content = (self.whole / path).read_bytes().decode("latin-1")
        if path.endswith(".json"):
            return Counter(json.loads(line)["_tidb"]["commitTs"] for line in content.split("\r\n")[:-1])
        events: Counter[int] = Counter()
        for row in csv.reader(io.StringIO(content, newline="")):
            if row[0].startswith("ticdc-meta$"):
                continue
            is_first_half = row[0] == "D" and row[4:5] == ["true"]
            events[int(row[3])] += not is_first_half
        return events

    def show(self, paths: Iterable[str], checkpoint_ts: int | None = None) -> None:
        """Copy these files to where the pipeline reads; `metadata` last, with this commit ts or as it is."""
        for path in paths:
            if path != METADATA:
                self._copy(path, path)
        self.say(checkpoint_ts)

    def say(self, checkpoint_ts: int | None = None) -> None:
        """Write `metadata`."""
        text = (self.whole / METADATA).read_text() if checkpoint_ts is None else f'{{"checkpoint-ts":{checkpoint_ts}}}'
        self.write(METADATA, text.encode())

    def copy_under_another_number(self, path: str, content: bytes | None = None) -> None:
        """As after a crash of TiCDC: the rows of a file, or some of them, come again in the next file of its folder."""
        file = Path(path)
        there = [
            int(other.stem[-20:]) for root in (self.whole, self.shown) for other in (root / file.parent).glob("CDC*.*")
        ]
        next_path = file.with_name(f"{file.stem[:-20]}{max(there) + 1:020}{file.suffix}")
        self.write(str(next_path), content or (self.whole / path).read_bytes())

    def write(self, path: str, content: bytes, modified: float = _OLD) -> None:
        """Write a file; `modified`: Unix time."""
        to = self.shown / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
        os.utime(to, (modified, modified))

    def _copy(self, path: str, to: str) -> None:
        self.write(to, (self.whole / path).read_bytes())

    def settings(self, folder: Path, *, suites: str = "", **source: Any) -> Settings:
        """Settings of a pipeline that reads what is shown. `suites`: the folder of the checks."""
        protocol = "csv" if "csv" in self.case.config else "canal-json"
        tree = {
            "name": "golden",
            "source": {"kind": "storage", "protocol": protocol, "path": str(self.shown), **source},
            "warehouse": {"path": str(folder / "warehouse")},
            "checkpoint": str(folder / "checkpoint"),
            **({"quality": {"suites": suites}} if suites else {}),
            "spark": {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
        }
        return parse(yaml.safe_dump(tree, allow_unicode=True), folder)


def taken(settings: Settings) -> Warehouse:
    """Take everything that is there, in a process of its own as far as the pipeline can tell; the warehouse then."""
    with Pipeline.open(settings) as pipeline:
        pipeline.run(available_now=True)
    return Warehouse.at(settings.warehouse.path)


__all__ = ["Tree", "files_of", "storage_cases", "taken"]
