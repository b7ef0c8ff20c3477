"""How to reach a registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from registry.errors import InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, repr=False)
class RegistryConfig:
    """Address, credentials, TLS, patience. Its repr shows no secret."""

    url: str
    """Base of the Confluent API; several, separated by commas, are tried in turn.

    May carry URL-encoded credentials, as TiCDC's `--schema-registry` takes them: `https://user:p%40ss@host`.
    """
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    """PEM file or folder. Without it SSL_CERT_FILE or SSL_CERT_DIR, else certifi's list, not the system's."""
    cert_file: str | None = None
    key_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request, for gateways that want one. confluent-kafka's client has no such setting."""
    timeout_seconds: float = 10.0
    """Of each attempt: to connect, and between two pieces of an answer."""
    retries: int = 5
    backoff_seconds: float = 0.5
    """Before the first retry; doubled each time, up to 20 seconds, plus jitter."""

    def __repr__(self) -> str:
        shown = {
            "url": self.shown_url,
            "username": self.username,
            "password": None if self.password is None else "***",
            "ca_file": self.ca_file,
            "cert_file": self.cert_file,
            "key_file": self.key_file,
            "headers": dict.fromkeys(self.headers, "***"),
            "timeout_seconds": self.timeout_seconds,
            "retries": self.retries,
        }
        return f"RegistryConfig({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def shown_url(self) -> str:
        """The address without credentials; `(not a URL)` if credentials cannot be found in it."""
        try:
            return ",".join(_bare(part) for part in self._parts())
        except InvalidConfig:
            return "(not a URL)"

    def settings(self) -> dict[str, object]:
        """Put it as confluent-kafka's SchemaRegistryClient takes it. Raises InvalidConfig.

        Retries are off: ours tell a bad certificate from a network that comes back, and are logged.
        """
        settings: dict[str, object] = {
            "url": ",".join(_bare(part) for part in self._parts()),
            "timeout": self.timeout_seconds,  # the client's own default is to wait for ever
            "max.retries": 0,
        }
        credentials = self.credentials()
        if credentials is not None:
            settings["basic.auth.user.info"] = ":".join(credentials)
        tls = {
            "ssl.ca.location": self.ca_file,
            "ssl.certificate.location": self.cert_file,
            "ssl.key.location": self.key_file,
        }
        return settings | {name: path for name, path in tls.items() if path is not None}

    def credentials(self) -> tuple[str, str] | None:
        """User name and password, from the fields or from the URL. Raises InvalidConfig if they disagree."""
        pairs = {pair for part in self._parts() if (pair := _userinfo(part)) is not None}
        if self.username is not None or self.password is not None:
            pairs.add((self.username or "", self.password or ""))
        if len(pairs) > 1:
            raise InvalidConfig(
                "REGISTRY_CONFIG",
                "The registry has different credentials in its URL and in username and password.",
                "Keep one of the two places.",
            )
        pair = next(iter(pairs), None)
        if pair is not None and ":" in pair[0]:
            raise InvalidConfig(
                "REGISTRY_CONFIG",
                "The registry's user name contains a colon, which basic authentication cannot send.",
            )
        return pair

    def _parts(self) -> list[SplitResult]:
        return [_split(url.strip()) for url in self.url.split(",")]


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise InvalidConfig(  # no context: the reason would quote a part of the password
            "REGISTRY_CONFIG",
            "registry.url is not an http or https address without a query.",
            "User name and password in it have to be URL-encoded: https://user:p%40ss@host/path",
        )
    return parts


def _bare(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


def _userinfo(parts: SplitResult) -> tuple[str, str] | None:
    if "@" not in parts.netloc:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")
