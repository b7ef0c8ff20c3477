"""The ids met so far and their schema texts, kept in a file of the checkpoint folder.

The file is a cache: losing it costs requests, never data. It is therefore written without fsync; one that
cannot be read, or belongs to another registry, is discarded with a log line, and one that cannot be written
is only a log line.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations of this module
from threading import Lock
from typing import Final

from pydantic import TypeAdapter

_log = logging.getLogger("registry")
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class CachedSchema:
    """A schema's text, and the subjects that it was registered under when it was fetched."""

    text: str
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Content:
    """The file: which layout, which registry, which ids."""

    format: int
    registry: str
    schemas: dict[int, CachedSchema] = field(default_factory=dict)


_CONTENT: Final = TypeAdapter(_Content)


class SchemaCache:
    """Schemas by id, in memory and, where `path` is given, on disk. Safe to share between threads."""

    def __init__(self, path: Path | None, registry: str) -> None:
        self._path = path
        self._registry = registry
        self._lock = Lock()
        self._schemas = self._load()
        self.verified = not self._schemas
        """Whether what came from disk was compared with the registry. Nobody may use it before."""

    def get(self, schema_id: int) -> CachedSchema | None:
        """Find a schema, or None."""
        with self._lock:
            return self._schemas.get(schema_id)

    def put(self, schema_id: int, schema: CachedSchema) -> None:
        """Keep a schema, and write the file anew."""
        with self._lock:
            self._schemas[schema_id] = schema
            self._save()

    def clear(self) -> None:
        """Forget everything, on disk too."""
        with self._lock:
            self._schemas.clear()
            self.verified = True
            if self._path is not None:
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)

    def witnesses(self) -> list[int]:
        """Choose the ids whose comparison with the registry speaks for all: each subject's newest and oldest.

        Of a registry that was wiped and filled again, the newest alone could agree by chance. An id whose
        subject is unknown speaks for itself only.
        """
        with self._lock:
            by_subject: dict[str, list[int]] = {}
            for schema_id, schema in self._schemas.items():
                for subject in schema.subjects or (f"schema id {schema_id}",):
                    by_subject.setdefault(subject, []).append(schema_id)
        return sorted({end(ids) for ids in by_subject.values() for end in (min, max)})

    def _load(self) -> dict[int, CachedSchema]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            content = _CONTENT.validate_json(self._path.read_bytes(), strict=True)
        except (OSError, ValueError) as error:
            _log.warning("schema cache %s discarded: unreadable (%s)", self._path, type(error).__name__)
            return {}
        if (content.format, content.registry) != (_FORMAT, self._registry):
            _log.warning("schema cache %s discarded: it is of %s", self._path, content.registry)
            return {}
        return dict(content.schemas)

    def _save(self) -> None:
        if self._path is None:
            return
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(_CONTENT.dump_json(_Content(_FORMAT, self._registry, self._schemas)))
            unfinished.replace(self._path)
        except OSError as error:
            _log.warning("schema cache %s not written: %s", self._path, error)
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
