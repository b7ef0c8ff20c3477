"""The one root of every error that this package raises on purpose, and its kinds.

A code is stable: a metric label, a column of dead letters, an anchor in docs/reference/error-codes.md.
"""

from __future__ import annotations


class RegistryError(Exception):
    """What is wrong (`message`), its stable name (`code`) and what to do (`hint`)."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(code, message, hint)  # all three in args: the error survives pickling
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n  {self.hint}" if self.hint else "")


class RegistryUnreachable(RegistryError):
    """No answer, or only 5xx answers, after every retry. The batch fails; nothing is lost."""


class NotARegistry(RegistryError):
    """Something answered that does not speak the Confluent API: never to be taken for "id not found"."""


class AuthenticationRefused(RegistryError):
    """The registry answered 401 or 403. Retrying does not help."""


class RequestRefused(RegistryError):
    """The registry understood and declined: an incompatible or an invalid schema, mostly."""


class SchemaNotFound(RegistryError):
    """The registry does not know this id. A property of one message: the caller makes a dead letter."""


class SubjectNotFound(RegistryError):
    """The registry has no such subject, or no version of it."""


class NotATicdcSchema(RegistryError):
    """The text is not a schema that TiCDC's Avro encoder writes."""


class NoWireHeader(RegistryError):
    """The bytes do not begin with the Confluent wire header."""


class InvalidConfig(RegistryError):
    """The connection settings make no sense; nothing was asked."""
