"""What may be shown of a setting: secrets become `***`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, SecretStr

HIDDEN = "***"

_WORDS = (
    r"passw|passphrase|secret|token|credential|jaas|authori[sz]ation|cookie|signature|"
    r"(?:access|account|api|private|storage|encryption|shared)[._\-]?key"
)
_BITS = r"(?:key|keys|sas|pwd|pass|auth)"
"""Secret as a part of a name between dots, not inside a word: `sas.fixed`, not `saslevel`."""
_PLACES = r"(?:location|file|path|type|algorithm|class|url|uri|provider|lifetime)$"
_SECRET_WORD = re.compile(rf"{_WORDS}|(?:^|[._\-]){_BITS}(?:$|[._\-])")
_NAMES_A_PLACE = re.compile(_PLACES)
_USER_INFO = re.compile(r"(?<=//)\S*(?=@)")  # up to the last @, for a password may hold @ and /
_ASSIGNED = re.compile(
    r"(?i)([\w.\-]*(?:passw(?:or)?d|pwd|secret|token|credential|api[._\-]?key|access[._\-]?key|signature)"
    r"""[\w.\-]*\s*=\s*)("[^"]*"|'[^']*'|[^&;,\s]+)"""
)
_HUMP = r"(?-i:(?<=[a-z0-9])(?=[A-Z]))"
FOR_SPARK = (
    rf"(?i)^(?!.*{_PLACES})(?=[\w.\-]+$).*(?:{_WORDS}|(?:^|[._\-]|{_HUMP}){_BITS}(?:$|[._\-]|{_HUMP}))"
    rf"|(?:{_WORDS}|pwd)[\w.\-]*(?:[\"']?\s*=|[\"']\s*:)|--[\w.\-]*(?:{_WORDS}|pwd)[\w.\-]*\s"
    r"|//\S*@"
)
"""The same as one regular expression of Java's, which Spark looks for in each property's key and value.

It finds a name by itself, what is assigned inside a text, and user information of URLs; no path that has such a word,
as that of Spark's own `spark-token-provider-kafka`.
"""
_ANYTHING = {"headers"}  # maps in which a value of any name may authenticate
_NOTHING = {"columns"}  # maps whose keys are names of columns: `shop.users.password: string` is no secret


def is_secret(key: str) -> bool:
    """Tell whether a free key's value must be hidden: `kafka.sasl.jaas.config` yes, `ssl.key.location` no."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", ".", key).lower()
    if _NAMES_A_PLACE.search(words):
        return False
    return bool(_SECRET_WORD.search(words) or _SECRET_WORD.search(key.lower()))


def clean(text: str) -> str:
    """Hide user information of URLs and `password=…` assignments inside a text."""
    return _ASSIGNED.sub(rf"\1{HIDDEN}", _USER_INFO.sub(HIDDEN, text))


def redacted(key: str, value: object) -> object:
    """Give a value as it may be shown under its key; mappings and lists are walked."""
    if isinstance(value, Mapping):
        return _map(key, value)
    if isinstance(value, list | tuple):
        return [redacted(key, inner) for inner in value]
    if value is None or isinstance(value, bool | BaseModel):
        return value  # a section's own repr hides what it must
    if isinstance(value, SecretStr) or is_secret(key):
        return HIDDEN
    return value if isinstance(value, int | float) else clean(str(value))


def _map(key: str, value: Mapping[str, object]) -> dict[str, object]:
    if key in _ANYTHING:
        return dict.fromkeys(value, HIDDEN)
    return dict(value) if key in _NOTHING else {name: redacted(str(name), value[name]) for name in value}
