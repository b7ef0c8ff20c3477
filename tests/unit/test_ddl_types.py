"""Column types as DDL writes them."""

import pytest

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.model.names import TableName


def column(definition, **options):
    sql = f"ALTER TABLE `t` ADD COLUMN `c` {definition}"
    (action,) = ddl.parse(A.ADD_COLUMN, sql, TableName("d", "t"), **options)
    assert isinstance(action, ddl.AddColumn), action
    return action.column


@pytest.mark.parametrize(
    ("written", "kind", "tidb_type"),
    [
        ("TINYINT", "int", "INT"),
        ("TINYINT(1)", "int", "INT"),
        ("BOOL", "int", "INT"),
        ("BOOLEAN", "int", "INT"),
        ("SMALLINT UNSIGNED", "int", "INT"),
        ("MEDIUMINT UNSIGNED ZEROFILL", "int", "INT"),
        ("INT", "int", "INT"),
        ("INTEGER", "int", "INT"),
        ("INT(11) SIGNED", "int", "INT"),
        ("INT UNSIGNED", "bigint", "INT UNSIGNED"),
        ("INT(6) ZEROFILL", "bigint", "INT UNSIGNED"),
        ("INT(6) UNSIGNED ZEROFILL", "bigint", "INT UNSIGNED"),
        ("BIGINT(20)", "bigint", "BIGINT"),
        ("BIGINT UNSIGNED", "decimal(20,0)", "BIGINT UNSIGNED"),
        ("SERIAL", "decimal(20,0)", "BIGINT UNSIGNED"),
        ("FLOAT", "float", "FLOAT"),
        ("FLOAT UNSIGNED", "float", "FLOAT"),
        ("FLOAT(10,2) UNSIGNED ZEROFILL", "float", "FLOAT"),
        ("FLOAT(24)", "float", "FLOAT"),
        ("FLOAT(25)", "double", "DOUBLE"),
        ("FLOAT(30,2)", "float", "FLOAT"),
        ("DOUBLE", "double", "DOUBLE"),
        ("DOUBLE(20,5) UNSIGNED", "double", "DOUBLE"),
        ("DOUBLE PRECISION", "double", "DOUBLE"),
        ("REAL", "double", "DOUBLE"),
        ("DECIMAL", "decimal(10,0)", "DECIMAL(10,0)"),
        ("DECIMAL(5)", "decimal(5,0)", "DECIMAL(5,0)"),
        ("DECIMAL(38, 10) UNSIGNED", "decimal(38,10)", "DECIMAL(38,10)"),
        ("DECIMAL(65,30)", "string", "DECIMAL(65,30)"),
        ("NUMERIC(1,1)", "decimal(1,1)", "DECIMAL(1,1)"),
        ("FIXED(4)", "decimal(4,0)", "DECIMAL(4,0)"),
        ("BIT", "bigint", "BIT(1)"),
        ("BIT(9)", "bigint", "BIT(9)"),
        ("BIT(63)", "bigint", "BIT(63)"),
        ("BIT(64)", "decimal(20,0)", "BIT(64)"),
        ("CHAR", "string", "TEXT"),
        ("CHAR(10) BINARY", "string", "TEXT"),
        ("CHAR(10) CHARACTER SET binary", "binary", "BLOB"),
        ("CHAR(10) CHARACTER SET BINARY", "binary", "BLOB"),
        ("CHAR(10) COLLATE binary", "binary", "BLOB"),
        ("CHARACTER VARYING(10)", "string", "TEXT"),
        ("NATIONAL VARCHAR(10)", "string", "TEXT"),
        ("NCHAR(10)", "string", "TEXT"),
        ("VARCHAR(50) CHARACTER SET GBK COLLATE gbk_bin", "string", "TEXT"),
        ("VARCHAR(50) COLLATE utf8mb4_bin", "string", "TEXT"),
        ("TINYTEXT", "string", "TEXT"),
        ("TEXT(100)", "string", "TEXT"),
        ("TEXT CHARACTER SET binary", "binary", "BLOB"),
        ("MEDIUMTEXT", "string", "TEXT"),
        ("LONGTEXT", "string", "TEXT"),
        ("LONG VARCHAR", "string", "TEXT"),
        ("LONG VARBINARY", "binary", "BLOB"),
        ("JSON", "string", "JSON"),
        ("BINARY", "binary", "BLOB"),
        ("BINARY(16)", "binary", "BLOB"),
        ("VARBINARY(300)", "binary", "BLOB"),
        ("TINYBLOB", "binary", "BLOB"),
        ("BLOB(10)", "binary", "BLOB"),
        ("LONGBLOB", "binary", "BLOB"),
        ("DATE", "date", "DATE"),
        ("DATETIME", "timestamp_ntz", "DATETIME(0)"),
        ("DATETIME(6)", "timestamp_ntz", "DATETIME(6)"),
        ("TIMESTAMP NULL", "timestamp", "TIMESTAMP(0)"),
        ("TIMESTAMP(3)", "timestamp", "TIMESTAMP(3)"),
        ("TIME", "string", "TIME(0)"),
        ("TIME(1)", "string", "TIME(1)"),
        ("YEAR", "int", "YEAR"),
        ("YEAR(4)", "int", "YEAR"),
        ("ENUM('a','b')", "string", "ENUM"),
        ("ENUM('Small') CHARACTER SET LATIN1", "string", "ENUM"),
        ("SET('x','y')", "string", "SET"),
        ("VECTOR", "array<float>", "VECTOR"),
        ("VECTOR(3)", "array<float>", "VECTOR"),
        ("VECTOR<FLOAT>(3)", "array<float>", "VECTOR"),
    ],
)
def test_a_type_becomes_the_warehouse_type_of_the_design(written, kind, tidb_type):
    found = column(written)
    assert (found.type, found.tidb_type, found.nullable) == (kind, tidb_type, True)


@pytest.mark.parametrize(
    ("definition", "source_type"),
    [
        ("CHAR(4)", "CHAR"),
        ("NCHAR(4)", "CHAR"),
        ("VARCHAR(4)", "TEXT"),
        ("BINARY", "BINARY(1)"),
        ("BINARY(16)", "BINARY(16)"),
        ("CHAR(10) CHARACTER SET binary", "BINARY(10)"),
        ("VARBINARY(16)", "BLOB"),
        ("DOUBLE(20,5) UNSIGNED", "DOUBLE(20,5)"),
        ("FLOAT(10,2)", "FLOAT(10,2)"),
        ("FLOAT(10)", "FLOAT"),
        ("ENUM('a','it''s')", "ENUM('a','it''s')"),
        ("DATETIME", "DATETIME(0)"),
        ("YEAR", "YEAR"),
    ],
)
def test_a_type_in_full_says_how_its_values_are_padded_trimmed_and_rounded(definition, source_type):
    assert column(definition).source_type == source_type


def test_decimals_are_text_where_the_protocol_sends_them_so():
    found = column("DECIMAL(10,2) NOT NULL DEFAULT 1.5", decimals_as_text=True)
    assert (found.type, found.tidb_type, found.default.text) == ("string", "DECIMAL(10,2)", "1.50")


@pytest.mark.parametrize(
    ("written", "nullable"),
    [
        ("INT", True),
        ("INT NULL", True),
        ("INT NOT NULL", False),
        ("INT NOT NULL DEFAULT 1 COMMENT 'NULL'", False),
        ("INT DEFAULT NULL", True),
        ("TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP() ON UPDATE CURRENT_TIMESTAMP()", False),
    ],
)
def test_a_column_is_nullable_unless_the_text_says_not_null(written, nullable):
    assert column(written).nullable is nullable
