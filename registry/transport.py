"""One question to the registry: asked through confluent-kafka's client, retried, its failures given names.

What that client does well, and we use: the API's paths and answers, TLS, basic authentication, several URLs.
What it does not, and is done here (seen in 2.16): it waits for ever by default; it retries silently, and a
refused certificate too; it keeps `latest`, every id and every registration for as long as it lives, which is
wrong once a registry was wiped; it has no setting for headers.
"""

from __future__ import annotations

import importlib
import logging
import ssl
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from registry.errors import (
    AuthenticationRefused,
    InvalidConfig,
    NotARegistry,
    RegistryError,
    RegistryUnreachable,
    RequestRefused,
    SchemaNotFound,
    SubjectNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.config import RegistryConfig

T = TypeVar("T")
Absent = type[SchemaNotFound] | type[SubjectNotFound]

_log = logging.getLogger("registry")
_MAX_WAIT_SECONDS: Final = 20.0
_SHOWN: Final = 500
_TRANSIENT: Final = "REGISTRY_UNREACHABLE"
_NOT_FOUND_CODES: Final = range(40400, 40500)  # Confluent's API: 40401 subject, 40402 version, 40403 schema
_LOGIN_STATUSES: Final = frozenset({401, 403, 407})
_BUSY_STATUSES: Final = frozenset({408, 429})


def _network_errors() -> tuple[type[Exception], ...]:
    """HTTPError of the libraries that confluent-kafka uses: httpx2 where installed, else httpx."""
    classes: list[type[Exception]] = []
    for library in ("httpx2", "httpx"):
        with suppress(ImportError):
            classes.append(importlib.import_module(library).HTTPError)
    return tuple(classes)


_NETWORK_ERRORS: Final = _network_errors()


class Transport:
    """Asks questions. Safe to share between threads."""

    def __init__(self, config: RegistryConfig) -> None:
        self._url = config.shown_url
        self._attempts = config.retries + 1
        self._retrying = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_exponential(multiplier=config.backoff_seconds, max=_MAX_WAIT_SECONDS)
            + wait_random(0, config.backoff_seconds),
            retry=retry_if_exception(_is_transient),
            before_sleep=self._tell,
            reraise=True,
        )
        self._resources = ExitStack()
        self._client = self._resources.enter_context(_connect(config))

    def ask(self, what: str, question: Callable[[SchemaRegistryClient], T], absent: Absent = SubjectNotFound) -> T:
        """Ask until there is an answer. `what` names the thing asked for, for use in sentences.

        Raises RegistryUnreachable after the last attempt, any other RegistryError at once, and `absent` if the
        registry says that it has no such thing.
        """
        answer: T = self._retrying.copy()(self._ask_once, what, question, absent)
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._resources.close()

    def _ask_once(self, what: str, question: Callable[[SchemaRegistryClient], T], absent: Absent) -> T:
        self._client.clear_caches()
        try:
            return question(self._client)
        except SchemaRegistryError as error:
            raise self._named(what, error, absent) from error
        except _NETWORK_ERRORS as error:
            raise self._unreachable(what, error) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # an answer in no known form
            raise self._no_registry(what, type(error).__name__) from error

    def _named(self, what: str, error: SchemaRegistryError, absent: Absent) -> RegistryError:
        status, answer = error.http_status_code, str(error.error_message)[:_SHOWN]
        if status in _LOGIN_STATUSES:
            return AuthenticationRefused(
                "REGISTRY_AUTHENTICATION",
                f"The registry {self._url} refused {what} with status {status}: {answer}",
                "Check registry.username and registry.password, and what that user may read.",
            )
        if status in _BUSY_STATUSES or status >= 500:  # noqa: PLR2004 - HTTP's server errors
            return RegistryUnreachable(
                _TRANSIENT,
                f"The registry {self._url} answered {what} with status {status}: {answer}",
                "Nothing was committed; the batch is repeated when the registry answers again.",
            )
        if status == 404:  # noqa: PLR2004
            return self._not_found(what, error, absent)
        if status < 400:  # noqa: PLR2004 - redirects are not followed
            return self._no_registry(what, f"status {status}")
        code = "SCHEMA_INCOMPATIBLE" if status == 409 else "REGISTRY_REFUSED"  # noqa: PLR2004
        return RequestRefused(code, f"The registry {self._url} refused {what} with status {status}: {answer}")

    def _not_found(self, what: str, error: SchemaRegistryError, absent: Absent) -> RegistryError:
        """Distinguish "no such schema" from "no such page": a wrong base URL must never make dead letters."""
        if error.error_code not in _NOT_FOUND_CODES:
            return self._no_registry(what, "status 404 without a registry's error code")
        if absent is SchemaNotFound:
            return SchemaNotFound(
                "SCHEMA_NOT_FOUND",
                f"The registry {self._url} does not know {what}.",
                "Check whether the registry was wiped, or is another one than the changefeed's.",
            )
        return SubjectNotFound(
            "SUBJECT_NOT_FOUND",
            f"The registry {self._url} has no {what}.",
            "A changefeed registers a subject with the first row of its table.",
        )

    def _unreachable(self, what: str, error: Exception) -> RegistryError:
        refused = _certificate_error(error)
        if refused is not None:
            return RegistryUnreachable(
                "REGISTRY_CERTIFICATE",
                f"The certificate of the registry {self._url} was not accepted: {refused.verify_message}.",
                "Give the authority that signed it as registry.ca_file.",
            )
        return RegistryUnreachable(
            _TRANSIENT,
            f"The registry {self._url} did not answer ({what}): {type(error).__name__} {str(error)[:_SHOWN]}",
            "Nothing was committed; the batch is repeated when the registry answers again.",
        )

    def _no_registry(self, what: str, why: str) -> NotARegistry:
        return NotARegistry(
            "NOT_A_REGISTRY",
            f"The answer of {self._url} for {what} is not a schema registry's ({why}).",
            "Is registry.url complete? Apicurio's Confluent API lies under /apis/ccompat/v7.",
        )

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        reason = error.message if isinstance(error, RegistryError) else error
        wait = state.next_action.sleep if state.next_action else 0.0
        _log.warning("attempt %d of %d: %s; again in %.1f s", state.attempt_number, self._attempts, reason, wait)


def _connect(config: RegistryConfig) -> SchemaRegistryClient:
    try:
        client = SchemaRegistryClient(config.settings())
    except (OSError, ValueError) as error:  # a missing or unreadable certificate, a key without one
        raise InvalidConfig(
            "REGISTRY_CONFIG",
            f"The registry's connection cannot be set up: {error}.",
            "Check registry.ca_file, registry.cert_file and registry.key_file.",
        ) from error
    if config.headers:
        client._rest_client.session.headers.update(config.headers)  # noqa: SLF001 - there is no setting for it
    return client


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, RegistryError) and error.code == _TRANSIENT


def _certificate_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
