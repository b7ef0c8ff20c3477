"""What the golden test does not compare, and why. A test fails when an entry here is no longer needed."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from golden.corpus import GoldenCase


@dataclass(frozen=True, slots=True)
class Excepted:
    """Cases by shell pattern, and the source table; the table `*` stands for the whole case."""

    scenario: str
    config: str
    table: str
    reason: str

    def covers(self, case: GoldenCase) -> bool:
        """Whether the case is one of these."""
        return fnmatchcase(case.scenario, self.scenario) and fnmatchcase(case.config, self.config)


READ_PROTOCOLS = ("simple", "open-protocol", "canal-json")
"""Protocols of the ordering by commit ts that the product reads."""

CASES = (
    *(
        one
        for protocol, one in {
            "simple": Excepted("*", "simple_*", "*", "the Simple protocol is not read yet"),
            "open-protocol": Excepted("*", "open*", "*", "the Open protocol is not read yet"),
        }.items()
        if protocol not in READ_PROTOCOLS
    ),
    Excepted("*", "storage_*", "*", "object storage is an issue of its own"),
)

RAW = (
    "cannot be right: a changed key arrives under the new key and the old key gets no tombstone; the changes "
    "tables are compared, and the current tables with what the stream says"
)
NOT_SENT = "without force-replicate TiCDC sends no table without a primary key or a unique key that is NOT NULL"
NO_KEY = "TiCDC's Avro leaves out tables without a primary key or a unique key that is NOT NULL"

PARTITIONS = (
    "partition DDL that rewrites rows (TRUNCATE, DROP, EXCHANGE PARTITION) is not applied yet: it holds its tables, "
    "visibly, until they are released"
)

NAMELESS = (
    "TiCDC's new architecture sends no key of a table without a PRIMARY KEY, and of its deletes nothing, or a commit "
    "ts alone: the table is held"
)

KEYLESS = (
    "without enable-tidb-extension nothing tells a row that was sent twice from one that was inserted twice, and "
    "Canal-JSON names no key but the primary key: the table is held"
)

PARTIAL_DELETES = (
    "with delete-only-output-handle-key-columns the deletes of a table with a unique key and no primary key have that "
    "key alone, and Canal-JSON names none but the primary key: the table is held"
)

HOLDING = (PARTITIONS, NAMELESS, KEYLESS, PARTIAL_DELETES)
"""Reasons that put a table's records into `_pipeline.held`."""

UNIQUE_KEYS_ONLY = (("lifecycle", "life.t_uk"), ("lifecycle", "life.t_uk2"), ("key_updates", "ku.t_uk_only"))
WITHOUT_OLD_VALUES = ("new_avro_ext_*", "new_avro_string_*", "new_avro_noext", "new_avro_watermark")

TABLES = (
    *(
        Excepted("ddl", config, table, PARTITIONS)
        for config in ("avro_watermark", "avro_checksum_watermark", "new_avro_watermark", "new_avro_before_watermark")
        for table in ("d.part", "d.part_x", "d.hash_part")
    ),
    *(
        Excepted("ddl", config, table, PARTITIONS)
        for config in ("canal_json_plain", "new_canal_json_plain")
        for table in ("d.part", "d.part_x", "d.hash_part")
    ),
    Excepted("ddl_nokey", "canal_json_plain", "*", KEYLESS),
    *(
        Excepted(scenario, "*canal_json_plain", table, KEYLESS)
        for scenario, table in (*UNIQUE_KEYS_ONLY, ("lifecycle", "life.t_nokey"), ("lifecycle", "life.t_uk_null"))
    ),
    *(
        Excepted("lifecycle", "canal_json_handle_key_delete", table, NOT_SENT)
        for table in ("life.t_nokey", "life.t_uk_null")
    ),
    *(
        Excepted(scenario, "canal_json_handle_key_delete", table, PARTIAL_DELETES)
        for scenario, table in UNIQUE_KEYS_ONLY
    ),
    Excepted("*", "avro_*_raw", "*", RAW),
    *(
        Excepted("lifecycle", config, table, NO_KEY)
        for config in ("avro_*", "new_avro_*")
        for table in ("life.t_nokey", "life.t_uk_null")
    ),
    *(
        Excepted(scenario, config, table, NAMELESS)
        for config in WITHOUT_OLD_VALUES
        for scenario, table in UNIQUE_KEYS_ONLY
    ),
    Excepted(
        "all_types",
        "*_checksum*",
        "types.t_zero_part",
        "its statements were skipped: partial zero dates make TiCDC fail when the integrity check is on",
    ),
)


def unread_case(case: GoldenCase) -> str | None:
    """Why this case is not run at all; None where it is."""
    return next((one.reason for one in CASES if one.covers(case)), None)


def unread_table(case: GoldenCase, source: str) -> str | None:
    """Why this table of the case is not compared; None where it is."""
    return next((one.reason for one in TABLES if one.table in (source, "*") and one.covers(case)), None)
