"""What a message looks like from its first bytes, whatever the settings say: for people who look for what is wrong.

Sources: wire-formats.md, TiCDC's pages on its protocols, the Confluent wire format.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import registry.wire
from pipeline.protocols.compressed import codec_of
from registry.wire import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPEN_VERSION = b"\x00\x00\x00\x00\x00\x00\x00\x01"
_SIMPLE_BRANCH = b"\x16"
"""The branch of the union that a Simple message in Avro begins with."""
_CSV = re.compile(rb"""(["']?)[IUD]\1[^A-Za-z0-9]""")
"""How a line of CSV begins: with its operation."""
_MOMENT_BYTES = 9
_LENGTH_BYTES = 8
"""Of each row in a record of the Open protocol."""
_COMPRESSED = {
    b"\xff\x06\x00\x00sNaPpY": "Snappy",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x1f\x8b": "gzip",
}
"""What TiCDC does not use."""
_ALIBABAS = "Canal-JSON of Alibaba's Canal, whose id is not 0; this version reads TiCDC's alone"
_FLINKS = "Flink's canal-json, which this version does not read"
_SIMPLE = frozenset(
    "WATERMARK BOOTSTRAP INSERT UPDATE DELETE CREATE ALTER ERASE RENAME TRUNCATE CINDEX DINDEX QUERY".split()  # noqa: SIM905
)


class Likeness(NamedTuple):
    """`protocol` and `encoding` as the settings spell them, empty where none is known; `sentence` for people."""

    protocol: str
    encoding: str
    sentence: str


def recognise(key: bytes | None, value: bytes | None) -> Likeness:
    """What the bytes of a record look like."""
    if not key and not value:
        return Likeness("", "", "neither key nor value: with Avro a delete that names no row, otherwise not from TiCDC")
    if key and key.startswith(_OPEN_VERSION):
        codec = codec_of(value[_LENGTH_BYTES:]) if value else ""
        compressed = f"; {_by_ticdc(codec)}" if codec else ""
        sentence = f"the key begins with the Open protocol's version, 8 bytes 00 … 01{compressed}"
        return Likeness("open-protocol", "", sentence)
    if key and key[0] == registry.wire.MAGIC and len(key) >= HEADER_BYTES and not value:
        return Likeness("avro", "", "a delete in Avro: a key with a schema id, and no value")
    if not value:
        return Likeness("", "", "a key of unknown form, and no value")
    return _by_value(value)


def compressed_elsewhere(value: bytes) -> str:
    """By what these bytes are compressed that TiCDC does not use; empty if they are not."""
    return next((name for magic, name in _COMPRESSED.items() if value.startswith(magic)), "")


def _by_value(value: bytes) -> Likeness:
    codec = codec_of(value)
    if codec:
        return Likeness("", "", _by_ticdc(codec))
    if name := compressed_elsewhere(value):
        return Likeness("", "", f"compressed by {name} inside the message, which TiCDC does not do")
    if value.startswith(_SIMPLE_BRANCH):
        return Likeness("simple", "avro", "a Simple message in Avro")
    if avro := _avro(value):
        return Likeness("avro", "", avro)
    return Likeness("csv", "", "a line of TiCDC's CSV") if _CSV.match(value) else _by_json(value)


def _by_ticdc(codec: str) -> str:
    return f"compressed by {codec} inside the message (large-message-handle-compression)"


def _avro(value: bytes) -> str:
    """What a value is in TiCDC's Avro; nothing where it is none."""
    match value[0], len(value):
        case registry.wire.MAGIC, size if size >= HEADER_BYTES:
            return "Avro with a schema id (Confluent wire format)"
        case registry.wire.CHECKPOINT, size if size == _MOMENT_BYTES:
            return "a watermark of Avro with avro-enable-watermark"
        case registry.wire.DELETE, size if size == _MOMENT_BYTES:
            return "a delete of Avro that carries its commit ts"
        case registry.wire.DDL, _ if value[1:2] == b"{":
            return "a DDL of Avro with avro-enable-watermark"
    return ""


def _by_json(value: bytes) -> Likeness:
    try:
        message: Any = json.loads(value)
    except (ValueError, RecursionError):
        whole = "JSON that is cut off or damaged" if value.lstrip()[:1] in (b"{", b"[") else "no form that TiCDC writes"
        return Likeness("", "", whole)
    if not isinstance(message, dict):
        return Likeness("", "", f"JSON, but a {type(message).__name__} where TiCDC writes an object")
    return _by_members(message)


def _by_members(message: Mapping[str, Any]) -> Likeness:
    if message.get("type") in _SIMPLE and "version" in message:
        return Likeness("simple", "json", f"a Simple message in JSON, {message['type']}")
    if "TableColumns" in message:
        return Likeness("", "", "a schema file of a storage changefeed")
    if "isDdl" in message:
        by_ticdc = message.get("id") == 0
        return Likeness("canal-json", "", "Canal-JSON") if by_ticdc else Likeness("", "", _ALIBABAS)
    if {"data", "type"} <= message.keys():
        return Likeness("", "", _FLINKS)
    if "payload" in message or {"before", "after", "op"} <= message.keys():
        return Likeness("debezium", "", "Debezium's JSON, which this version does not read")
    return Likeness("", "", "a JSON object that no protocol of TiCDC has")
