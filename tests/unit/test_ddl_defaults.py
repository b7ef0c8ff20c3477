"""Defaults: what rows show that were there before an ADD COLUMN."""

import pytest

from pipeline import ddl
from pipeline.ddl import ActionType as A
from pipeline.model.columns import NULL_DEFAULT, UNKNOWN_DEFAULT, literal
from pipeline.model.names import TableName


def default(definition):
    sql = f"ALTER TABLE `t` ADD COLUMN `c` {definition}"
    (action,) = ddl.parse(A.ADD_COLUMN, sql, TableName("d", "t"))
    assert isinstance(action, ddl.AddColumn), action
    return action.column.default


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("INT DEFAULT 7", "7"),
        ("INT DEFAULT -2147483648", "-2147483648"),
        ("INT DEFAULT +7", "7"),
        ("INT DEFAULT _UTF8MB4'007'", "7"),
        ("INT DEFAULT 1.5", "2"),
        ("INT DEFAULT -1.5", "-2"),
        ("INT DEFAULT 1e+02", "100"),
        ("INT DEFAULT b'101'", "5"),
        ("INT DEFAULT x'ff'", "255"),
        ("TINYINT(1) DEFAULT TRUE", "1"),
        ("TINYINT(1) NOT NULL DEFAULT FALSE", "0"),
        ("INT UNSIGNED DEFAULT 4294967295", "4294967295"),
        ("BIGINT DEFAULT -9223372036854775808", "-9223372036854775808"),
        ("BIGINT UNSIGNED DEFAULT 18446744073709551615", "18446744073709551615"),
        ("FLOAT DEFAULT 0.1", "0.1"),
        ("FLOAT(10,2) DEFAULT 1.5", "1.5"),
        ("DOUBLE DEFAULT 1.5e+10", "1.5e+10"),
        ("DOUBLE DEFAULT -0.001", "-0.001"),
        ("DECIMAL(10,2) DEFAULT 1.5", "1.50"),
        ("DECIMAL(10,2) DEFAULT -1.005", "-1.01"),
        ("DECIMAL(10,2) DEFAULT -0.001", "0.00"),
        ("DECIMAL(10,2) DEFAULT _UTF8MB4'2.5'", "2.50"),
        ("DECIMAL(10) DEFAULT 1e3", "1000"),
        ("DECIMAL(65,30) DEFAULT 1", "1." + "0" * 30),
        ("DECIMAL(5,2) DEFAULT 999.99", "999.99"),
        ("DECIMAL(1,1) DEFAULT .5", "0.5"),
        ("BIT(9) DEFAULT b'100000001'", "257"),
        ("BIT(9) DEFAULT B'1'", "1"),
        ("BIT(8) DEFAULT 0x05", "5"),
        ("BIT(8) DEFAULT 5", "5"),
        (f"BIT(64) DEFAULT b'{'1' * 64}'", "18446744073709551615"),
        ("VARCHAR(10) DEFAULT _UTF8MB4''", ""),
        ("VARCHAR(10) DEFAULT _UTF8MB4'null'", "null"),
        ("VARCHAR(10) DEFAULT 'NULL'", "NULL"),
        ("VARCHAR(10) DEFAULT _UTF8MB4'uuid()'", "uuid()"),
        ("VARCHAR(10) DEFAULT _UTF8MB4'CURRENT_TIMESTAMP'", "CURRENT_TIMESTAMP"),
        (r"""VARCHAR(99) DEFAULT _UTF8MB4'def''ault "q" \\ é'""", 'def\'ault "q" \\ é'),
        (r"VARCHAR(99) DEFAULT _UTF8MB4'a\nb\tc\'d\q'", "a\nb\tc'dq"),
        (r"""VARCHAR(99) DEFAULT _UTF8MB4'\\n\%\_\0\Z""''x'""", '\\n\\%\\_\0\x1a""\'x'),
        (r"""VARCHAR(99) DEFAULT "it's ""q"" ''x\"" """, "it's \"q\" ''x\""),
        ("VARCHAR(10) DEFAULT _UTF8MB4'a  '", "a  "),
        ("CHAR(10) DEFAULT _UTF8MB4'a  '", "a"),
        ("CHAR(4) NOT NULL DEFAULT _UTF8MB4'é'", "é"),
        ("CHAR(4) DEFAULT _LATIN1'abc'", "abc"),
        ("CHAR(4) DEFAULT N'abc'", "abc"),
        ("VARCHAR(10) DEFAULT 1.50", "1.50"),
        ("VARCHAR(10) DEFAULT -7", "-7"),
        ("VARCHAR(10) DEFAULT 1e+02", "100"),
        ("VARCHAR(10) DEFAULT -2.5e-05", "-0.000025"),
        ("VARCHAR(25) DEFAULT 1.5e+22", "15000000000000000000000"),
        ("VARBINARY(9) DEFAULT 1e+02", "313030"),
        ("VARCHAR(10) DEFAULT x'41c3a9'", "Aé"),
        ("VARBINARY(4) DEFAULT _UTF8MB4'ab'", "6162"),
        ("VARBINARY(4) DEFAULT _UTF8MB4'é'", "c3a9"),
        ("VARBINARY(4) DEFAULT x'ff00'", "ff00"),
        ("VARBINARY(4) DEFAULT b'1'", "01"),
        ("BINARY(4) DEFAULT _UTF8MB4'xy'", "78790000"),
        ("BINARY(2) DEFAULT x'f'", "0f00"),
        ("CHAR(3) CHARACTER SET BINARY DEFAULT _UTF8MB4'x'", "780000"),
        ("VARCHAR(3) CHARACTER SET binary DEFAULT _UTF8MB4'x '", "7820"),
        ("DATE DEFAULT _UTF8MB4'2000-2-9'", "2000-02-09"),
        ("DATE DEFAULT _UTF8MB4'0000-00-00'", "0000-00-00"),
        ("DATE DEFAULT _UTF8MB4'20200101'", "2020-01-01"),
        ("DATE DEFAULT 20200101", "2020-01-01"),
        ("DATETIME DEFAULT 20200101", "2020-01-01 00:00:00"),
        ("DATETIME(2) DEFAULT 20200101102030", "2020-01-01 10:20:30.00"),
        ("TIMESTAMP DEFAULT _UTF8MB4'20200101102030'", "2020-01-01 10:20:30"),
        ("DATE DEFAULT _UTF8MB4'2024-05-00'", "2024-05-00"),
        ("DATETIME DEFAULT _UTF8MB4'2020-01-01'", "2020-01-01 00:00:00"),
        ("DATETIME(3) DEFAULT _UTF8MB4'2020-1-2 3:4:5.6'", "2020-01-02 03:04:05.600"),
        ("DATETIME(3) DEFAULT _UTF8MB4'2020-01-02T03:04'", "2020-01-02 03:04:00.000"),
        ("DATETIME(1) DEFAULT _UTF8MB4'2020-01-02 03:04:05.100'", "2020-01-02 03:04:05.1"),
        ("DATETIME(6) DEFAULT _UTF8MB4'0000-00-00 00:00:00'", "0000-00-00 00:00:00.000000"),
        ("TIMESTAMP NOT NULL DEFAULT _UTF8MB4'2021-06-01 12:00:00'", "2021-06-01 12:00:00"),
        ("TIME(2) DEFAULT _UTF8MB4'-10:00:00.5'", "-10:00:00.50"),
        ("TIME DEFAULT _UTF8MB4'1:2'", "01:02:00"),
        ("TIME DEFAULT _UTF8MB4'-838:59:59'", "-838:59:59"),
        ("TIME DEFAULT 0", "00:00:00"),
        ("TIME(3) DEFAULT 0", "00:00:00.000"),
        ("TIME DEFAULT _UTF8MB4'10'", "00:00:10"),
        ("TIME DEFAULT 1010", "00:10:10"),
        ("TIME DEFAULT -8385959", "-838:59:59"),
        ("TIME DEFAULT _UTF8MB4'1 02:03:04'", "26:03:04"),
        ("TIME DEFAULT _UTF8MB4'-34 22:59'", "-838:59:00"),
        ("TIME(2) DEFAULT _UTF8MB4'01:02:03.456'", "01:02:03.46"),
        ("TIME(2) DEFAULT _UTF8MB4'01:59:59.995'", "02:00:00.00"),
        ("TIME DEFAULT _UTF8MB4'10:00:00.5'", "10:00:01"),
        ("TIME DEFAULT _UTF8MB4'-00:00:00.4'", "00:00:00"),
        ("TIME(1) DEFAULT _UTF8MB4'-00:00:00'", "00:00:00.0"),
        ("YEAR DEFAULT 1999", "1999"),
        ("YEAR DEFAULT _UTF8MB4'2024'", "2024"),
        ("YEAR DEFAULT _UTF8MB4'0000'", "0"),
        ("YEAR DEFAULT 69", "2069"),
        ("YEAR DEFAULT 70", "1970"),
        ("ENUM('a','b') DEFAULT _UTF8MB4'b'", "b"),
        ("ENUM('a','B') DEFAULT _UTF8MB4'b'", "B"),
        ("ENUM('a','b') DEFAULT 2", "b"),
        ("ENUM('a','b') DEFAULT _UTF8MB4'2'", "b"),
        ("ENUM('2','a') DEFAULT _UTF8MB4'2'", "2"),
        ("ENUM('x,y','it''s','日本','q\"uote','') DEFAULT _UTF8MB4'it''s'", "it's"),
        ("ENUM('日本','') DEFAULT _UTF8MB4''", ""),
        (r"ENUM('back\slash','b') DEFAULT _UTF8MB4'back\\slash'", "back\\slash"),
        ("SET('a','b','c') DEFAULT _UTF8MB4'c,a,c'", "a,c"),
        ("SET('a','b','c') DEFAULT _UTF8MB4''", ""),
        ("SET('x','y z','é') DEFAULT _UTF8MB4'x,É'", "x,é"),
        ("SET('a','b','c') DEFAULT 5", "a,c"),
        ('JSON DEFAULT (\'{"b":[1,null,true],"a":"é"}\')', '{"a": "é", "b": [1, null, true]}'),
    ],
)
def test_a_literal_default_is_the_text_that_tidb_shows(written, text):
    assert default(written) == literal(text)


@pytest.mark.parametrize(
    "written",
    [
        "DATETIME DEFAULT CURRENT_TIMESTAMP()",
        "DATETIME DEFAULT CURRENT_TIMESTAMP",
        "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
        "DATETIME DEFAULT NOW()",
        "DATE DEFAULT CURRENT_DATE()",
        "DATE DEFAULT CURRENT_DATE",
        "VARCHAR(36) DEFAULT UUID()",
        "VARCHAR(36) DEFAULT (UUID())",
        "VARCHAR(36) NOT NULL DEFAULT (REPLACE(UPPER(UUID()), _UTF8MB4'-', _UTF8MB4''))",
        "JSON DEFAULT (JSON_ARRAY())",
        "BIGINT DEFAULT NEXT VALUE FOR `d`.`s`",
        "BIGINT DEFAULT (NEXT VALUE FOR `s`)",
        "INT DEFAULT (1 + 1)",
        "INT NOT NULL GENERATED ALWAYS AS(`a`+1) STORED",
    ],
)
def test_an_expression_gives_no_default(written):
    assert default(written) == UNKNOWN_DEFAULT


@pytest.mark.parametrize(
    "written",
    [
        "VARBINARY(4) DEFAULT _UTF8MB4'a\ufffd'",  # bytes that JSON could not carry
        "VARCHAR(4) DEFAULT _GBK'é'",
        "VARCHAR(4) DEFAULT _BINARY'é'",
        "VARCHAR(4) DEFAULT x'ff'",
        "VARCHAR(9) DEFAULT 1e+999",
        "VARBINARY(9) DEFAULT 1e+999",
        "INT DEFAULT 2147483648",
        "INT DEFAULT _UTF8MB4'7a'",
        "INT DEFAULT _UTF8MB4'\u0667'",
        "BIGINT DEFAULT 1e999",
        f"BIGINT DEFAULT {'9' * 5000}",
        "INT UNSIGNED DEFAULT -1",
        "INT DEFAULT x'112233445566778899'",
        "BIT(2) DEFAULT 4",
        "BIT(8) DEFAULT _UTF8MB4'a'",
        "DECIMAL(5,2) DEFAULT 1000",
        "DECIMAL(5,2) DEFAULT _UTF8MB4'1_0'",
        "DECIMAL(5,2) DEFAULT _UTF8MB4'NaN'",
        "FLOAT(10,2) DEFAULT 1.555",
        "FLOAT DEFAULT 1e39",
        "DOUBLE DEFAULT 1e309",
        "DATE DEFAULT 200101",
        "DATE DEFAULT 20200101102030",
        "DATETIME DEFAULT 202001011",
        "DATE DEFAULT _UTF8MB4'2020-01-01 10:00:00'",
        "DATETIME DEFAULT _UTF8MB4'2020-01-01 00:00:00.5'",
        "DATETIME DEFAULT _UTF8MB4'20-01-01'",
        "TIME DEFAULT 70",
        "TIME DEFAULT _UTF8MB4'839:00:00'",
        "TIME DEFAULT _UTF8MB4'35 00:00:00'",
        "TIME DEFAULT _UTF8MB4'838:59:59.5'",
        "TIME DEFAULT _UTF8MB4'1 10'",
        "TIME DEFAULT 10.5",
        "YEAR DEFAULT _UTF8MB4'0'",
        "YEAR DEFAULT 0",  # kept as the text '0', which is 2000 to a cast, and 0 to MySQL
        "YEAR DEFAULT 1900",
        "ENUM('a','b') DEFAULT _UTF8MB4'c'",
        "ENUM('a','A') DEFAULT _UTF8MB4'\uff21'",
        "ENUM('a','b') DEFAULT 3",
        "ENUM('a','b') DEFAULT _UTF8MB4'3'",
        "ENUM('a','b') DEFAULT _UTF8MB4'0'",
        "ENUM('a','\uff12') DEFAULT _UTF8MB4'1'",
        "ENUM('a','b') DEFAULT 0",
        "SET('a','b') DEFAULT _UTF8MB4'a,c'",
        "SET('a','b') DEFAULT 4",
        "JSON DEFAULT ('1.0')",
        "JSON DEFAULT ('{')",
        "JSON DEFAULT ('[1e400]')",
        f"JSON DEFAULT ('{'[' * 100_000}')",
        "VECTOR DEFAULT _UTF8MB4'[1,2]'",
    ],
)
def test_a_default_whose_text_is_not_certain_is_unknown(written):
    assert default(written) == UNKNOWN_DEFAULT


@pytest.mark.parametrize("written", ["INT", "INT NULL", "INT DEFAULT NULL", "JSON", "ENUM('a')", "TEXT DEFAULT (NULL)"])
def test_without_a_default_existing_rows_show_null(written):
    expected = UNKNOWN_DEFAULT if "(NULL)" in written else NULL_DEFAULT
    assert default(written) == expected


@pytest.mark.parametrize(
    ("written", "zero"),
    [
        ("INT", "0"),
        ("INT UNSIGNED", "0"),
        ("BIGINT UNSIGNED", "0"),
        ("BIT(9)", "0"),
        ("FLOAT", "0"),
        ("DOUBLE", "0"),
        ("DECIMAL(10,2)", "0.00"),
        ("DECIMAL", "0"),
        ("YEAR", "0"),
        ("VARCHAR(5)", ""),
        ("CHAR(5)", ""),
        ("TEXT", ""),
        ("JSON", "null"),
        ("VARBINARY(4)", ""),
        ("BLOB", ""),
        ("BINARY(4)", "00000000"),
        ("ENUM('q','r')", "q"),
        ("SET('q','r')", ""),
        ("DATE", "0000-00-00"),
        ("DATETIME", "0000-00-00 00:00:00"),
        ("DATETIME(3)", "0000-00-00 00:00:00.000"),
        ("TIMESTAMP(6)", "0000-00-00 00:00:00.000000"),
        ("TIME", "00:00:00"),
        ("TIME(2)", "00:00:00.00"),
    ],
)
def test_not_null_without_a_default_shows_the_zero_of_the_type(written, zero):
    assert default(f"{written} NOT NULL") == literal(zero)


def test_a_vector_has_no_certain_zero():
    assert default("VECTOR(3) NOT NULL") == UNKNOWN_DEFAULT
