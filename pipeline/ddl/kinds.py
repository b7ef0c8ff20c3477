"""TiDB's DDL types as they stand in messages, and which of them leave rows and columns as they are.

Numbers: TiDB `pkg/meta/model/job.go`, `ActionType`. A number never changes its meaning there; 66 is unused. From 230 on
they are TiCDC's own (`pkg/filter` of its new architecture), for statements that TiDB's parser does not read yet.
"""

from __future__ import annotations

from enum import IntEnum


class ActionType(IntEnum):
    """TiDB's ActionType."""

    NONE = 0
    CREATE_SCHEMA = 1
    DROP_SCHEMA = 2
    CREATE_TABLE = 3
    DROP_TABLE = 4
    ADD_COLUMN = 5
    DROP_COLUMN = 6
    ADD_INDEX = 7
    DROP_INDEX = 8
    ADD_FOREIGN_KEY = 9
    DROP_FOREIGN_KEY = 10
    TRUNCATE_TABLE = 11
    MODIFY_COLUMN = 12
    REBASE_AUTO_ID = 13
    RENAME_TABLE = 14
    SET_DEFAULT_VALUE = 15
    SHARD_ROW_ID = 16
    MODIFY_TABLE_COMMENT = 17
    RENAME_INDEX = 18
    ADD_TABLE_PARTITION = 19
    DROP_TABLE_PARTITION = 20
    CREATE_VIEW = 21
    MODIFY_TABLE_CHARSET_AND_COLLATE = 22
    TRUNCATE_TABLE_PARTITION = 23
    DROP_VIEW = 24
    RECOVER_TABLE = 25
    MODIFY_SCHEMA_CHARSET_AND_COLLATE = 26
    LOCK_TABLE = 27
    UNLOCK_TABLE = 28
    REPAIR_TABLE = 29
    SET_TIFLASH_REPLICA = 30
    UPDATE_TIFLASH_REPLICA_STATUS = 31
    ADD_PRIMARY_KEY = 32
    DROP_PRIMARY_KEY = 33
    CREATE_SEQUENCE = 34
    ALTER_SEQUENCE = 35
    DROP_SEQUENCE = 36
    ADD_COLUMNS = 37
    """Until TiDB 6.1; MULTI_SCHEMA_CHANGE since."""
    DROP_COLUMNS = 38
    """Until TiDB 6.1; MULTI_SCHEMA_CHANGE since."""
    MODIFY_TABLE_AUTO_ID_CACHE = 39
    REBASE_AUTO_RANDOM_BASE = 40
    ALTER_INDEX_VISIBILITY = 41
    EXCHANGE_TABLE_PARTITION = 42
    ADD_CHECK_CONSTRAINT = 43
    DROP_CHECK_CONSTRAINT = 44
    ALTER_CHECK_CONSTRAINT = 45
    ALTER_TABLE_ALTER_PARTITION = 46
    RENAME_TABLES = 47
    DROP_INDEXES = 48
    ALTER_TABLE_ATTRIBUTES = 49
    ALTER_TABLE_PARTITION_ATTRIBUTES = 50
    CREATE_PLACEMENT_POLICY = 51
    ALTER_PLACEMENT_POLICY = 52
    DROP_PLACEMENT_POLICY = 53
    ALTER_TABLE_PARTITION_PLACEMENT = 54
    MODIFY_SCHEMA_DEFAULT_PLACEMENT = 55
    ALTER_TABLE_PLACEMENT = 56
    ALTER_CACHE_TABLE = 57
    ALTER_TABLE_STATS_OPTIONS = 58
    ALTER_NO_CACHE_TABLE = 59
    CREATE_TABLES = 60
    MULTI_SCHEMA_CHANGE = 61
    FLASHBACK_CLUSTER = 62
    RECOVER_SCHEMA = 63
    REORGANIZE_PARTITION = 64
    ALTER_TTL_INFO = 65
    ALTER_TTL_REMOVE = 67
    CREATE_RESOURCE_GROUP = 68
    ALTER_RESOURCE_GROUP = 69
    DROP_RESOURCE_GROUP = 70
    ALTER_TABLE_PARTITIONING = 71
    REMOVE_PARTITIONING = 72
    ADD_COLUMNAR_INDEX = 73
    MODIFY_ENGINE_ATTRIBUTE = 74
    ALTER_TABLE_MODE = 75
    REFRESH_META = 76
    MODIFY_SCHEMA_READ_ONLY = 77
    ALTER_TABLE_AFFINITY = 78
    ALTER_TABLE_SOFT_DELETE_INFO = 79
    MODIFY_SCHEMA_SOFT_DELETE_AND_ACTIVE_ACTIVE = 80
    CREATE_MASKING_POLICY = 81
    ALTER_MASKING_POLICY = 82
    DROP_MASKING_POLICY = 83
    ALTER_TABLE_SET_REGION_SPLIT_POLICY = 84
    ADD_FULLTEXT_INDEX = 230
    """TiCDC's number; the text is as the user wrote it."""
    CREATE_HYBRID_INDEX = 231
    """TiCDC's number; the text is as the user wrote it."""


_A = ActionType

COLUMN_KINDS = frozenset({
    _A.ADD_COLUMN, _A.DROP_COLUMN, _A.MODIFY_COLUMN, _A.SET_DEFAULT_VALUE, _A.ADD_COLUMNS, _A.DROP_COLUMNS,
    _A.MULTI_SCHEMA_CHANGE,
})  # fmt: skip
"""Statements whose text says what becomes of the columns."""

PARTITION_KINDS = frozenset({
    _A.ADD_TABLE_PARTITION, _A.DROP_TABLE_PARTITION, _A.TRUNCATE_TABLE_PARTITION, _A.EXCHANGE_TABLE_PARTITION,
    _A.REORGANIZE_PARTITION, _A.ALTER_TABLE_PARTITIONING, _A.REMOVE_PARTITIONING,
})  # fmt: skip
"""Statements about partitions, which are read only for who keeps their definitions; else see the groups below."""

PRIMARY_KEY_KINDS = frozenset({_A.ADD_PRIMARY_KEY, _A.DROP_PRIMARY_KEY})
"""Statements that change what identifies a row."""

NO_EFFECT = {
    _A.ADD_INDEX: "an index",
    _A.DROP_INDEX: "an index",
    _A.ADD_FOREIGN_KEY: "a foreign key",
    _A.DROP_FOREIGN_KEY: "a foreign key",
    _A.REBASE_AUTO_ID: "the next AUTO_INCREMENT value",
    _A.SHARD_ROW_ID: "how hidden row ids are spread",
    _A.MODIFY_TABLE_COMMENT: "a comment",
    _A.RENAME_INDEX: "an index",
    _A.ADD_TABLE_PARTITION: "new partitions are empty",
    _A.CREATE_VIEW: "a view has no rows of its own",
    _A.MODIFY_TABLE_CHARSET_AND_COLLATE: "the character set; texts are sent as UTF-8",
    _A.DROP_VIEW: "a view has no rows of its own",
    _A.MODIFY_SCHEMA_CHARSET_AND_COLLATE: "the character set of tables to come",
    _A.LOCK_TABLE: "a lock",
    _A.UNLOCK_TABLE: "a lock",
    _A.SET_TIFLASH_REPLICA: "replicas",
    _A.UPDATE_TIFLASH_REPLICA_STATUS: "replicas",
    _A.CREATE_SEQUENCE: "a sequence",
    _A.ALTER_SEQUENCE: "a sequence",
    _A.DROP_SEQUENCE: "a sequence",
    _A.MODIFY_TABLE_AUTO_ID_CACHE: "the AUTO_INCREMENT cache",
    _A.REBASE_AUTO_RANDOM_BASE: "the next AUTO_RANDOM value",
    _A.ALTER_INDEX_VISIBILITY: "an index",
    _A.ADD_CHECK_CONSTRAINT: "a check",
    _A.DROP_CHECK_CONSTRAINT: "a check",
    _A.ALTER_CHECK_CONSTRAINT: "a check",
    _A.ALTER_TABLE_ALTER_PARTITION: "the placement of a partition",
    _A.DROP_INDEXES: "indexes",
    _A.ALTER_TABLE_ATTRIBUTES: "scheduling attributes",
    _A.ALTER_TABLE_PARTITION_ATTRIBUTES: "scheduling attributes",
    _A.CREATE_PLACEMENT_POLICY: "placement",
    _A.ALTER_PLACEMENT_POLICY: "placement",
    _A.DROP_PLACEMENT_POLICY: "placement",
    _A.ALTER_TABLE_PARTITION_PLACEMENT: "placement",
    _A.MODIFY_SCHEMA_DEFAULT_PLACEMENT: "placement",
    _A.ALTER_TABLE_PLACEMENT: "placement",
    _A.ALTER_CACHE_TABLE: "caching",
    _A.ALTER_TABLE_STATS_OPTIONS: "statistics",
    _A.ALTER_NO_CACHE_TABLE: "caching",
    _A.REORGANIZE_PARTITION: "rows move between partitions and stay in the table",
    _A.ALTER_TTL_INFO: "when rows expire; their deletes are sent",
    _A.ALTER_TTL_REMOVE: "when rows expire; their deletes are sent",
    _A.CREATE_RESOURCE_GROUP: "resources",
    _A.ALTER_RESOURCE_GROUP: "resources",
    _A.DROP_RESOURCE_GROUP: "resources",
    _A.ALTER_TABLE_PARTITIONING: "rows move into partitions and stay in the table",
    _A.REMOVE_PARTITIONING: "rows leave their partitions and stay in the table",
    _A.ADD_COLUMNAR_INDEX: "an index",
    _A.MODIFY_ENGINE_ATTRIBUTE: "storage attributes",
    _A.ALTER_TABLE_MODE: "who may use the table",
    _A.MODIFY_SCHEMA_READ_ONLY: "who may write to the database",
    _A.ALTER_TABLE_AFFINITY: "placement",
    _A.CREATE_MASKING_POLICY: "what readers of TiDB may see; rows are sent as they are",
    _A.ALTER_MASKING_POLICY: "what readers of TiDB may see; rows are sent as they are",
    _A.DROP_MASKING_POLICY: "what readers of TiDB may see; rows are sent as they are",
    _A.ALTER_TABLE_SET_REGION_SPLIT_POLICY: "how the table is split into regions",
    _A.ADD_FULLTEXT_INDEX: "an index",
    _A.CREATE_HYBRID_INDEX: "an index",
}
"""Statements after which every row and column is what it was, with what they are about."""

NOT_HANDLED = {
    _A.NONE: "the message has no DDL type",
    _A.DROP_TABLE_PARTITION: "DROP PARTITION removes rows without sending their deletes",
    _A.TRUNCATE_TABLE_PARTITION: "TRUNCATE PARTITION removes rows without sending their deletes",
    _A.RECOVER_TABLE: "RECOVER TABLE brings rows back without sending them",
    _A.REPAIR_TABLE: "REPAIR TABLE replaces the table's definition",
    _A.ADD_PRIMARY_KEY: "ADD PRIMARY KEY changes what identifies a row",
    _A.DROP_PRIMARY_KEY: "DROP PRIMARY KEY changes what identifies a row",
    _A.EXCHANGE_TABLE_PARTITION: "EXCHANGE PARTITION swaps rows between tables without sending them",
    _A.FLASHBACK_CLUSTER: "FLASHBACK CLUSTER turns every table back without sending the changes",
    _A.RECOVER_SCHEMA: "FLASHBACK DATABASE brings rows back without sending them",
    _A.REFRESH_META: "REFRESH META replaces definitions",
    _A.ALTER_TABLE_SOFT_DELETE_INFO: "SOFTDELETE changes what a DELETE is, and which columns the table has",
    _A.MODIFY_SCHEMA_SOFT_DELETE_AND_ACTIVE_ACTIVE: "SOFTDELETE and ACTIVE_ACTIVE change what a DELETE is",
}
"""Statements that change rows or keys in a way that no message shows, with why."""


def known(number: int) -> ActionType | None:
    """Find the DDL type with this number; None for one that this version has not heard of."""
    try:
        return ActionType(number)
    except ValueError:
        return None
