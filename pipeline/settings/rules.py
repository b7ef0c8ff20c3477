"""Settings that make no sense together.

A rule reads what was written (not the finished model), so that it speaks even while another setting is wrong:
all faults come at once. A rule that meets a wrong type stays silent; the type's own error is there already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from pipeline.model.protocols import PROTOCOLS, facts_of
from pipeline.model.table_filter import NotARule, TableFilter
from pipeline.settings.faults import SettingFault, variable_of
from pipeline.settings.fields import local_path
from pipeline.settings.reserved import (
    refused_columns,
    refused_conf,
    refused_options,
    refused_properties,
    refused_store_options,
)
from pipeline.settings.sections import DATA_FOLDER, SourceSection

Written: TypeAlias = Mapping[str, Any]
_KEYS = {
    "kafka": (
        "bootstrap_servers",
        "topics",
        "topic_pattern",
        "starting_offsets",
        "max_offsets_per_trigger",
        "encoding",
        "claim_check",
        "upstream",
    ),
    "storage": ("path", "max_bytes_per_trigger", "full_listing", "cleanup"),
}
"""Keys of `source` that have a meaning with one kind of source only."""
_REQUIRED = {"kafka": "bootstrap_servers", "storage": "path"}
_POSTGRES = ("postgresql:", "postgres:", "postgresql+")


def contradictions(written: object, folder: Path) -> Iterator[SettingFault]:
    """Yield every contradiction of a configuration; `folder` is where its relative paths start."""
    if not isinstance(written, Mapping):
        return
    for rule in _RULES:
        yield from rule(written)
    yield from _folders(written, folder)


def _section(written: Written, *path: str) -> Written:
    for key in path:
        inner = written.get(key)
        if isinstance(inner, BaseModel):
            inner = inner.model_dump(by_alias=True, exclude_defaults=True)
        written = inner if isinstance(inner, Mapping) else {}
    return written


def _kind(written: Written) -> Iterator[SettingFault]:
    """What each kind of source needs, and what it has no use for."""
    source = _section(written, "source")
    kind, protocol = source.get("kind"), source.get("protocol")
    facts = facts_of(protocol)
    if not isinstance(kind, str) or kind not in _KEYS:
        return
    if facts is not None and kind not in facts.sources:
        kinds = " or ".join(f"`kind: {name}`" for name in facts.sources)
        yield SettingFault(("source", "protocol"), f"`{protocol}` is read with {kinds}")
    for other, keys in _KEYS.items():
        for key in keys if other != kind else ():
            if key in source and not _is_default(key, source[key]):
                yield SettingFault(
                    ("source", key), f"has no meaning with `kind: {kind}`: it is a key of `kind: {other}`"
                )
    required = _REQUIRED[kind]
    if source.get(required) in (None, ""):
        yield SettingFault(("source", required), f"required: {SourceSection.model_fields[required].description}")


def _is_default(key: str, value: object) -> bool:
    """Whether a key of `source` says no more than if it were not there: `config show` writes every key."""
    default = SourceSection.model_fields[key].default
    if isinstance(default, BaseModel) and isinstance(value, Mapping):
        return not any(value.values())
    return value is None or value == default or (isinstance(value, list) and value == list(default or ()))


def _topics(written: Written) -> Iterator[SettingFault]:
    source = _section(written, "source")
    topics, pattern = source.get("topics"), source.get("topic_pattern")
    if source.get("kind") == "storage":
        return
    if topics and pattern is not None:
        yield SettingFault(("source", "topic_pattern"), "give `topics` or `topic_pattern`, not both")
    if not topics and pattern is None:
        key = ("source", "topics") if "topics" in source else ("source",)
        yield SettingFault(key, "expected `topics: [a, b]` with at least one topic, or `topic_pattern`")


def _topic_names(written: Written) -> Iterator[SettingFault]:
    source = _section(written, "source")
    listed, offsets = source.get("topics"), source.get("starting_offsets")
    names: set[str] = set()
    for number, name in enumerate(listed if isinstance(listed, list | tuple) else ()):
        if isinstance(name, str) and name in names:
            yield SettingFault(("source", "topics", str(number)), "is in the list twice")
        names |= {name} if isinstance(name, str) else set()
    for topic in offsets if names and isinstance(offsets, Mapping) else ():
        if topic not in names:
            yield SettingFault(("source", "starting_offsets", str(topic)), "is not one of source.topics")


def _claim_check(written: Written) -> Iterator[SettingFault]:
    source = _section(written, "source")
    given, protocol = _section(written, "source", "claim_check"), source.get("protocol")
    facts = facts_of(protocol)
    if given.get("path") and facts is not None and not facts.has_large_rows:
        yield SettingFault(("source", "claim_check"), f"TiCDC writes no such objects with `protocol: {protocol}`")
    if (given.get("written_as") or given.get("options")) and not given.get("path"):
        yield SettingFault(("source", "claim_check", "path"), "required if another key of claim_check is set")
    yield from _refused(("source", "claim_check", "options"), refused_store_options(given.get("options") or {}))


def _upstream(written: Written) -> Iterator[SettingFault]:
    source = _section(written, "source")
    given, protocol = _section(written, "source", "upstream"), source.get("protocol")
    facts = facts_of(protocol)
    is_given = any(given.get(key) for key in ("host", "user", "password", "ca_file"))
    if is_given and facts is not None and not facts.has_large_rows:
        yield SettingFault(("source", "upstream"), f"`protocol: {protocol}` has no messages with the key alone")
    for key in ("host", "user"):
        if is_given and not given.get(key):
            yield SettingFault(("source", "upstream", key), "required if another key of upstream is set")


def _tables(written: Written) -> Iterator[SettingFault]:
    rules = _section(written, "source").get("tables")
    if not isinstance(rules, list | tuple):
        return
    try:
        takes_some = TableFilter.of(map(str, rules)).takes_some
    except NotARule:
        return
    if not takes_some:
        yield SettingFault(("source", "tables"), "leaves out every table; begin with `*.*`")


def _registry(written: Written) -> Iterator[SettingFault]:
    registry, protocol = _section(written, "registry"), _section(written, "source").get("protocol")
    facts = facts_of(protocol)
    if facts is not None and facts.needs_registry and not registry.get("url"):
        yield SettingFault(("registry", "url"), f"required with `protocol: {protocol}`: the schema registry's URL")
    if ("username" in registry) != ("password" in registry):
        given, absent = ("username", "password") if "username" in registry else ("password", "username")
        variable = variable_of(("registry", absent))
        yield SettingFault(("registry", given), f"needs registry.{absent} too, in the file or as {variable}")
    if "username" in registry and "@" in str(registry.get("url", "")).partition("//")[2].split("/")[0]:
        yield SettingFault(("registry", "username"), "registry.url names a user already; keep one of them")
    if "key_file" in registry and "cert_file" not in registry:
        yield SettingFault(("registry", "key_file"), "needs registry.cert_file too")


def _changefeed(written: Written) -> Iterator[SettingFault]:
    changefeed, protocol = _section(written, "changefeed"), _section(written, "source").get("protocol")
    optional = [name for name, facts in PROTOCOLS.items() if facts.old_values_optional]
    if "enable-old-value" in changefeed and facts_of(protocol) is not None and protocol not in optional:
        which = " or ".join(f"`protocol: {name}`" for name in optional)
        yield SettingFault(
            ("changefeed", "enable-old-value"), f"only a changefeed with {which} can leave out old values"
        )
    stated = changefeed.get("protocol")
    if facts_of(stated) is not None and facts_of(protocol) is not None and stated != protocol:
        yield SettingFault(("changefeed", "protocol"), f"is `{stated}`, but source.protocol is `{protocol}`")
    if _true(changefeed.get("avro-enable-watermark")) and _false(changefeed.get("enable-tidb-extension")):
        yield SettingFault(
            ("changefeed", "avro-enable-watermark"),
            "TiCDC sends watermarks only with `enable-tidb-extension: true`",
        )


def _free_keys(written: Written) -> Iterator[SettingFault]:
    catalog = _section(written, "warehouse", "catalog")
    options, kind = _section(written, "source", "options"), _section(written, "source").get("kind")
    yield from _refused(
        ("source", "options"), (refused_store_options if kind == "storage" else refused_options)(options)
    )
    yield from _refused(("spark", "conf"), refused_conf(_section(written, "spark", "conf")))
    yield from _refused(("warehouse", "catalog"), refused_properties(catalog))
    yield from _refused(("warehouse", "columns"), refused_columns(_section(written, "warehouse", "columns")))
    if catalog.get("type") == "rest" and not catalog.get("uri"):
        yield SettingFault(("warehouse", "catalog"), "a rest catalog needs its `uri`")
    yield from _jdbc_uri(catalog)


def _jdbc_uri(catalog: Written) -> Iterator[SettingFault]:
    """A URL of Java's begins with `jdbc:`; others are accepted by PyIceberg alone, and a run could not start."""
    uri = catalog.get("uri")
    if catalog.get("type", "jdbc") != "jdbc" or not isinstance(uri, str) or uri.startswith("jdbc:"):
        return
    path = ("warehouse", "catalog", "uri")
    if uri.startswith(_POSTGRES):
        text = "expected `jdbc:postgresql://host:port/database`; the user goes into `jdbc.user`, the password into "
        yield SettingFault(path, f"{text}`jdbc.password` ({variable_of((*path[:2], 'jdbc.password'))})")
    else:
        yield SettingFault(
            path, "expected a URL of JDBC: `jdbc:postgresql://host:port/database`, `jdbc:sqlite:/path/file.db`"
        )


def _refused(path: tuple[str, ...], refusals: Iterator[tuple[str, str]]) -> Iterator[SettingFault]:
    yield from (SettingFault((*path, key), reason) for key, reason in refusals)


def _folders(written: Written, folder: Path) -> Iterator[SettingFault]:
    try:
        warehouse = _real(_section(written, "warehouse").get("path"), folder)
        checkpoint = _real(written.get("checkpoint"), folder)
    except PydanticCustomError:
        return
    if warehouse == checkpoint:
        yield SettingFault(("checkpoint",), "is the folder of the warehouse; give the checkpoint one of its own")
    elif checkpoint.is_relative_to(warehouse / DATA_FOLDER):
        yield SettingFault(
            ("checkpoint",), "lies in the warehouse's data folder, where maintenance removes unknown files"
        )
    elif warehouse.is_relative_to(checkpoint):
        yield SettingFault(("warehouse", "path"), "lies in the checkpoint, which may be deleted at any time")


def _real(value: object, folder: Path) -> Path:
    return Path(os.path.realpath(local_path(value, folder)))  # follows links, as far as there are any


def _true(value: object) -> bool:
    return str(value).lower() in {"true", "yes", "on", "1", "t", "y"}


def _false(value: object) -> bool:
    return str(value).lower() in {"false", "no", "off", "0", "f", "n"}


_RULES: tuple[Callable[[Written], Iterator[SettingFault]], ...] = (
    _kind,
    _topics,
    _topic_names,
    _tables,
    _claim_check,
    _upstream,
    _registry,
    _changefeed,
    _free_keys,
)
