"""A registry client for a consumer that must never decode a message with the wrong schema."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka.schema_registry import Schema

from registry.cache import CachedSchema, SchemaCache
from registry.columns import TicdcSchema, is_same, read_schema
from registry.config import RegistryConfig
from registry.errors import AuthenticationRefused, NotARegistry, SchemaNotFound, SubjectNotFound
from registry.transport import Transport

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka.schema_registry import RegisteredSchema as Answer

__all__ = ["RegisteredSchema", "RegistryClient", "RegistryConfig"]

_log = logging.getLogger("registry")

MISSING_SECONDS: Final = 10.0
"""How long "id not found" is believed: a replica of the registry may only be late."""

_LARGEST_ID: Final = 2**31 - 1
_MISSING_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of one subject."""

    subject: str
    version: int
    schema_id: int
    text: str


class RegistryClient:
    """Asks a registry, and remembers what cannot change: the text of an id.

    With a `cache_file` ids survive a restart. What the file says is used only after it was compared with the
    registry, at the first question: a registry that was wiped gives the same ids to other schemas. Every
    method may raise RegistryUnreachable (after all retries), NotARegistry and AuthenticationRefused. Safe to
    share between threads; not to be pickled.
    """

    def __init__(self, config: RegistryConfig, cache_file: Path | None = None) -> None:
        self._transport = Transport(config)
        self._cache = SchemaCache(cache_file, registry=config.shown_url)
        self._schemas: dict[int, TicdcSchema] = {}
        self._missing: dict[int, float] = {}
        self._verifying = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        self._transport.close()

    def schema_text(self, schema_id: int) -> str:
        """Get the text of a schema. Raises SchemaNotFound."""
        self._verify_once()
        cached = self._cache.get(schema_id)
        if cached is not None:
            return cached.text
        self._refuse_missing(schema_id)
        try:
            text = self._fetch(schema_id)
        except SchemaNotFound:
            self._remember_missing(schema_id)
            raise
        self._cache.put(schema_id, CachedSchema(text, self.subjects_of(schema_id)))
        return text

    def ticdc_schema(self, schema_id: int) -> TicdcSchema:
        """Get a schema read as columns. Raises SchemaNotFound, NotATicdcSchema."""
        self._verify_once()
        schema = self._schemas.get(schema_id)
        if schema is None:
            schema = self._schemas[schema_id] = read_schema(self.schema_text(schema_id))
        return schema

    def latest(self, subject: str) -> RegisteredSchema:
        """Get the newest version of a subject, never from a cache. Raises SubjectNotFound."""
        return self._version(subject, "latest")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Get one version of a subject. Raises SubjectNotFound."""
        return self._version(subject, version)

    def versions(self, subject: str) -> list[int]:
        """List the versions of a subject, ascending. Raises SubjectNotFound."""
        return self._transport.ask(f"subject {subject}", lambda client: sorted(map(int, client.get_versions(subject))))

    def subjects(self) -> list[str]:
        """List the subjects, sorted.

        Apicurio lists no more than 1000 (`apicurio.ccompat.max-subjects`): a subject that is not in the list
        may still be there.
        """
        return self._transport.ask("list of subjects", lambda client: sorted(map(str, client.get_subjects())))

    def subjects_of(self, schema_id: int) -> tuple[str, ...]:
        """Name the subjects of an id; none if the registry lacks or refuses that page.

        Only comparisons are lost then: without a subject an id speaks for itself alone.
        """
        try:
            versions = self._transport.ask(
                f"subjects of schema id {schema_id}",
                lambda client: client.get_schema_versions(schema_id),
                SchemaNotFound,
            )
        except (SchemaNotFound, NotARegistry, AuthenticationRefused):
            return ()
        return tuple(sorted({str(version.subject) for version in versions}))

    def register(self, subject: str, text: str) -> int:
        """Register a schema as TiCDC does; the same text gives the same id. Raises RequestRefused."""
        return self._transport.ask(
            f"registration under {subject}",
            lambda client: int(client.register_schema(subject, Schema(text, "AVRO"))),
        )

    def compatibility(self, subject: str) -> str | None:
        """Get the rule that a new version of a subject is held to, the registry's own where it has none.

        None where the registry says neither.
        """
        return self.rule(subject) or self.rule()

    def rule(self, subject: str | None = None) -> str | None:
        """Get the compatibility that a subject has of its own; no subject: the registry's. None where there is none."""
        with suppress(SubjectNotFound):  # also: the subject has no rule of its own
            return self._rule(subject)
        return None

    def verify_cache(self) -> bool:
        """Compare the ids known so far with the registry, for each subject the newest and the oldest.

        Any difference discards them all, is logged, and gives False.
        """
        with self._verifying:
            return self._verify()

    def _verify_once(self) -> None:
        if self._cache.verified:
            return
        with self._verifying:
            if not self._cache.verified:
                self._verify()

    def _verify(self) -> bool:
        for schema_id in self._cache.witnesses():
            cached = self._cache.get(schema_id)
            if cached is not None and not self._is_still(schema_id, cached.text):
                self._cache.clear()
                self._schemas.clear()
                self._missing.clear()
                return False
        self._cache.verified = True
        return True

    def _is_still(self, schema_id: int, text: str) -> bool:
        try:
            same = is_same(self._fetch(schema_id), text)
        except SchemaNotFound:
            same = False
        if not same:
            _log.warning("schema cache discarded: the registry's schema %d is gone or another", schema_id)
        return same

    def _fetch(self, schema_id: int) -> str:
        if not 0 < schema_id <= _LARGEST_ID:
            raise SchemaNotFound(
                "SCHEMA_NOT_FOUND",
                f"{schema_id} is no schema id: registries count from 1 to {_LARGEST_ID}.",
                "The message was not written by TiCDC's Avro encoder.",
            )
        what = f"schema id {schema_id}"
        answer = self._transport.ask(what, lambda client: client.get_schema(schema_id), SchemaNotFound)
        return _text(what, answer)

    def _rule(self, subject: str | None) -> str:
        what = f"compatibility of {subject or 'all subjects'}"
        return str(self._transport.ask(what, lambda client: client.get_compatibility(subject)))

    def _version(self, subject: str, version: int | str) -> RegisteredSchema:
        what = f"version {version} of subject {subject}"
        answer: Answer = self._transport.ask(
            what,
            lambda client: client.get_version(subject, version),  # type: ignore[arg-type]
        )
        text = _text(what, answer.schema)
        if not isinstance(answer.version, int) or not isinstance(answer.schema_id, int):
            raise _incomplete(what)
        return RegisteredSchema(subject, answer.version, answer.schema_id, text)

    def _refuse_missing(self, schema_id: int) -> None:
        since = self._missing.get(schema_id)
        if since is not None and time.monotonic() - since < MISSING_SECONDS:
            raise SchemaNotFound(
                "SCHEMA_NOT_FOUND",
                f"The registry did not know schema id {schema_id} a moment ago.",
                "Check whether the registry was wiped, or is another one than the changefeed's.",
            )

    def _remember_missing(self, schema_id: int) -> None:
        if len(self._missing) >= _MISSING_KEPT:
            self._missing.clear()
        self._missing[schema_id] = time.monotonic()


def _text(what: str, schema: Schema) -> str:
    if not isinstance(schema.schema_str, str):
        raise _incomplete(what)
    return schema.schema_str


def _incomplete(what: str) -> NotARegistry:
    return NotARegistry("NOT_A_REGISTRY", f"The answer for {what} lacks the schema's text, id or version.")
