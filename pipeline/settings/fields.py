"""The types of single settings: each reads text (or the plain value) and says what it expected."""

import os
import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError

from pipeline.model.table_filter import NotARule, TableFilter
from pipeline.settings.column_types import column_type
from pipeline.settings.durations import seconds
from pipeline.settings.faults import did_you_mean
from pipeline.settings.sizes import bytes_of

REFUSED = "refused"  # the pydantic error type whose message is our own sentence
LONGEST_NAME = 128
SECONDS_OF_A_DAY = 86_400

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_BUCKET = re.compile(r"(?:s3|gs|gcs|abfss?)://[^/?]+(?:[/?]|$)")
_SERVER = re.compile(r"(?:[A-Z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
LARGEST_PORT = 65535
FOLDER = "folder"  # the key of the validation context that holds the configuration file's folder


def refuse(text: str) -> PydanticCustomError:
    """Make the error that a validator raises; its text reaches the user as it is."""
    return PydanticCustomError(REFUSED, text)


@dataclass(frozen=True, slots=True)
class FreeMap:
    """Marks a map with keys of the user's own; `joint` is what `_` in an environment variable stands for."""

    joint: str | None = None  # None: that can't be told, so the key must stand in the file


def _name(text: str) -> str:
    if not text.strip() or text != text.strip() or len(text) > LONGEST_NAME or _UNPRINTABLE.search(text):
        raise refuse(f"expected 1 to {LONGEST_NAME} printable characters without spaces around them")
    return text


def _line(text: str) -> str:
    if not text.strip() or _UNPRINTABLE.search(text):
        raise refuse("expected one line of text without control characters")
    return text


_NO_URL = {
    "path": "set a store's URL in warehouse.catalog.warehouse",
    "checkpoint": "the checkpoint is a cache that the tables do not need, so it needs no store",
}
"""Why a setting takes no URL, by its last key."""


def local_path(value: object, folder: Path, key: str = "") -> Path:
    """Make a path absolute: relative ones against the configuration file's folder, `~` as the user's home.

    `key`: the setting's last key, by which a URL is refused with the reason.
    """
    if not isinstance(value, str | Path) or not str(value).strip() or _UNPRINTABLE.search(str(value)):
        raise refuse("expected the path of a file or folder")
    text = str(value).removeprefix("file://") if str(value).startswith("file:///") else str(value)
    if _SCHEME.match(text):
        raise refuse("expected a path of this machine, not a URL" + (f"; {_NO_URL[key]}" if key in _NO_URL else ""))
    try:
        os.fsencode(text)
        return Path(os.path.abspath(folder / Path(text).expanduser()))  # noqa: PTH100 - resolve() follows links
    except (RuntimeError, ValueError):
        raise refuse(
            "expected a path that is valid on this machine; if it begins with a home folder, that must exist"
        ) from None


def _path(value: object, info: ValidationInfo) -> Path:
    return local_path(value, (info.context or {}).get(FOLDER) or Path.cwd(), info.field_name or "")


def _storage_path(value: object, info: ValidationInfo) -> str:
    """A folder made absolute, or the URL of a bucket without a slash at its end."""
    match = _BUCKET.match(str(value))
    if match is None:
        return str(_path(re.sub(r"^file:/+", "/", value) if isinstance(value, str) else value, info))
    if "?" in str(value) or _UNPRINTABLE.search(str(value)):
        raise refuse("expected the sink URI of the changefeed without its query: `s3://bucket/prefix`")
    return str(value).rstrip("/")


def _servers(text: str) -> str:
    for server in text.split(",") if text else ():
        match = _SERVER.fullmatch(server.strip())
        if not match or not 1 <= int(match[1]) <= LARGEST_PORT:
            raise refuse("expected `host:port`, more of them separated by commas")
    return ",".join(server.strip() for server in text.split(","))


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise refuse("expected a Kafka topic: 1 to 249 of a-z A-Z 0-9 . _ -")
    return text


def _url(text: str) -> str:
    for url in text.split(","):
        _one_url(url.strip())
    return text


def _one_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _UNPRINTABLE.search(text) or " " in text:
        raise refuse("expected a URL: http://host:port/path or https://…, or several of them with commas between")
    if parts.query or parts.fragment:
        raise refuse("expected a URL without `?` and `#`")


def _duration(text: str) -> str:
    try:
        seconds(text)
    except ValueError as error:
        raise refuse(str(error)) from None
    return text


LINE_ENDS = ("\r\n", "\n")


def _size(text: object) -> str:
    try:
        bytes_of(str(text))
    except ValueError as error:
        raise refuse(str(error)) from None
    return str(text)


def _line_end(text: str) -> str:
    if text not in LINE_ENDS:
        raise refuse('expected "\\r\\n" or "\\n", in double quotes')
    return text


def _quote(text: str) -> str:
    if not text.isascii():
        raise refuse("expected a character of ASCII: TiCDC takes no other one")
    return text


def _long_duration(text: str) -> str:
    if seconds(_duration(text)) < SECONDS_OF_A_DAY:
        raise refuse("expected at least `1 day`: a younger file may belong to a commit that is under way")
    return text


def _timezone(text: str) -> str:
    if text != "UTC" and text not in (zones := zoneinfo.available_timezones()):
        near = did_you_mean(text, zones)
        raise refuse(f"expected a time zone of the IANA database such as Europe/Berlin{near}")
    return text


def _namespace(text: str) -> str:
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        parts = [("", "", None, None)]
    fields_are_plain = all(
        (name, spec or "", turn) in {(None, "", None), ("schema", "", None)} for _, name, spec, turn in parts
    )
    sample = text.replace("{schema}", "s")
    if not fields_are_plain or not _NAMESPACE.fullmatch(sample):
        raise refuse("expected a name of letters, digits, _ and .; it may contain {schema}, but no other {field}")
    if sample.split(".")[0].lower() == "_pipeline":
        raise refuse("`_pipeline` holds this product's own tables; choose another name")
    return text


def _table_rule(text: str) -> str:
    try:
        TableFilter.of([text])
    except NotARule as error:
        raise refuse(f"expected a rule of TiCDC's filter.rules: {error}") from None
    return text


def _column_type(text: str) -> str:
    try:
        return column_type(text)
    except ValueError as error:
        raise refuse(f"expected {error}") from None


def _offsets(value: object, handler: Callable[[object], Any]) -> Any:
    try:
        return handler(value)
    except ValidationError:
        raise refuse("expected earliest, latest, or {topic: {partition: offset}} with numbers") from None


def _format(name: str) -> Any:
    """Name what the text holds in the JSON Schema; validators ignore formats they do not know."""
    return Field(json_schema_extra={"format": name})


Name = Annotated[str, AfterValidator(_name)]
Line = Annotated[str, AfterValidator(_line)]
LocalPath = Annotated[Path, BeforeValidator(_path)]
StoragePath = Annotated[str, BeforeValidator(_storage_path)]
"""The folder of a storage changefeed: of this machine, or in a bucket."""
Servers = Annotated[str, AfterValidator(_servers), _format("host-port-list")]
Topic = Annotated[str, AfterValidator(_topic), _format("kafka-topic")]
TopicPattern = Annotated[str, AfterValidator(_line), _format("regex")]
"""A regular expression of Java's, which Java alone can judge (`sources.kafka`): Python's are others."""
TableRule = Annotated[str, AfterValidator(_table_rule), _format("table-filter-rule")]
Url = Annotated[str, AfterValidator(_url), _format("uri")]
Bytes = Annotated[str, BeforeValidator(_size), _format("size")]
Quote = Annotated[str, AfterValidator(_quote)]
LineEnd = Annotated[str, AfterValidator(_line_end), _format("line-end")]
Duration = Annotated[str, AfterValidator(_duration), _format("spark-duration")]
LongDuration = Annotated[str, AfterValidator(_long_duration), _format("spark-duration")]
Timezone = Annotated[str, AfterValidator(_timezone), _format("iana-timezone")]
Namespace = Annotated[str, AfterValidator(_namespace), _format("name-template")]
ColumnType = Annotated[str, AfterValidator(_column_type), _format("column-type")]
Columns = Annotated[Mapping[str, ColumnType], FreeMap()]
Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
StartingOffsets = Annotated[Literal["earliest", "latest"] | Offsets, WrapValidator(_offsets)]
