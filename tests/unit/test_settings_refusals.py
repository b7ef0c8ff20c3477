"""What is wrong is said with its place, all of it at once, and never with a secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import SettingsError
from pipeline.settings import load, parse

GOOD = """\
name: shop
source:
  kind: kafka
  protocol: avro
  bootstrap_servers: localhost:9092
  topics: [tidb_shop_orders]
registry:
  url: http://localhost:8081/apis/ccompat/v7
warehouse:
  path: ./warehouse
checkpoint: ./checkpoint
"""


def refusal_of(text: str, environ: dict[str, str] | None = None) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        parse(text, Path("/etc/shop"), environ, source="shop.yaml")
    return caught.value


def but(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_the_good_one_is_good():
    assert parse(GOOD, Path("/etc/shop")).name == "shop"


def test_an_unknown_key_is_named_with_line_column_path_and_the_likely_word():
    error = refusal_of(but("  topics:", "  topcis:"))
    assert error.code == "SETTINGS_INVALID"
    assert "shop.yaml:6:3: source.topcis: unknown key (did you mean `topics`?)" in error.message
    assert "config schema" in error.hint


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("warehose: {}\n", "shop.yaml:12:1: warehose: unknown key (did you mean `warehouse`?)"),
        ("spark: {mastr: x}\n", "shop.yaml:12:9: spark.mastr: unknown key (did you mean `master`?)"),
        ("quality:\n  zzz: 1\n", "shop.yaml:13:3: quality.zzz: unknown key; known here: suites, built_in"),
        ("changefeed: {enable_tidb_extension: true}\n", "(did you mean `enable-tidb-extension`?)"),
        ("changefeed: {partition-num: 3}\n", "does not show in the messages"),
        ("changefeed: {sasl-user: me}\n", "source.options"),
    ],
)
def test_keys_are_unknown_at_every_level(extra, said):
    assert said in refusal_of(GOOD + extra).message


def test_everything_wrong_is_said_at_once_in_the_order_of_the_file():
    text = """\
name: " "
source:
  kind: kafka
  protocol: avor
  bootstrap_servers: localhost
  topics: []
  max_offsets_per_trigger: many
  encoding: json
warehouse: {path: w, current: perhaps, table_threads: 0, catalog: {type: rest}}
checkpoint: w
trigger: soon
spark: {conf: {master: local}}
"""
    error = refusal_of(text, {"TICDC_WAREHOUSE__HOLD__MAX": "1"})
    places = [line.split(": ")[1] for line in error.message.splitlines()[1:]]
    assert places == [
        "name",
        "source.protocol",
        "source.bootstrap_servers",
        "source.topics",
        "source.max_offsets_per_trigger",
        "warehouse.current",
        "warehouse.table_threads",
        "warehouse.catalog",
        "checkpoint",
        "trigger",
        "spark.conf.master",
        "there is no such setting (did you mean `max_records`?)",
    ]
    assert error.message.startswith("12 settings are wrong")


def test_what_is_required_and_absent_is_named():
    message = refusal_of("source: {kind: kafka, protocol: avro}\n").message
    for required in ("name", "source.bootstrap_servers", "registry.url", "warehouse", "checkpoint"):
        assert f": {required}: required" in message
    assert "`topic_pattern`" in message


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("name: shop", 'name: "a\\nb"', "name", "printable"),
        ("name: shop", "name: [a]", "name", "expected text"),
        ("localhost:9092", "localhost:99999", "source.bootstrap_servers", "host:port"),
        ("[tidb_shop_orders]", "[a, a]", "source.topics[1]", "twice"),
        ("[tidb_shop_orders]", '["a,b"]', "source.topics[0]", "expected a Kafka topic"),
        ("[tidb_shop_orders]", "tidb_shop_orders", "source.topics", "expected a list"),
        ("  topics:", "  topic_pattern: tidb_.*\n  topics:", "source.topic_pattern", "not both"),
        (
            "  topics:",
            "  starting_offsets: soon\n  topics:",
            "source.starting_offsets",
            "expected earliest, latest",
        ),
        (
            "  topics:",
            "  starting_offsets: {b: {0: 1}}\n  topics:",
            "source.starting_offsets.b",
            "source.topics",
        ),
        (
            "  topics:",
            "  options: {security.protocol: SSL}\n  topics:",
            "source.options.security.protocol",
            "kafka.",
        ),
        (
            "  topics:",
            "  options: {failOnDataLoss: no}\n  topics:",
            "source.options.failOnDataLoss",
            "a run always refuses to start if records are lost",
        ),
        ("  url:", "  key_file: a\n  url:", "registry.key_file", "cert_file"),
        ("  url:", "  username: a\n  url:", "registry.username", "registry.password"),
        ("http://localhost", "ftp://localhost", "registry.url", "expected a URL"),
        ("http://localhost", "http://a:1,ftp://localhost", "registry.url", "expected a URL"),
        ("  path: ./w", "  namespace: '{table}'\n  path: ./w", "warehouse.namespace", "{schema}"),
        ("  path: ./w", "  namespace: '{schema.x}'\n  path: ./w", "warehouse.namespace", "{schema}"),
        ("  path: ./w", "  namespace: _pipeline\n  path: ./w", "warehouse.namespace", "own tables"),
        (
            "  path: ./w",
            "  columns: {orders.total: int}\n  path: ./w",
            "warehouse.columns.orders.total",
            "schema.table",
        ),
        (
            "  path: ./w",
            "  columns: {a.b.c: int, A.b.C: int}\n  path: ./w",
            "warehouse.columns.A.b.C",
            "same column",
        ),
        (
            "  path: ./w",
            "  catalog: {cache-enabled: true}\n  path: ./w",
            "warehouse.catalog.cache-enabled",
            "false",
        ),
        ("./warehouse", "s3://bucket/w", "warehouse.path", "warehouse.catalog.warehouse"),
        ("./checkpoint", "warehouse/data/checkpoint", "checkpoint", "data folder"),
        ("./checkpoint", "./warehouse/../warehouse", "checkpoint", "folder of the warehouse"),
        ("./warehouse", "./checkpoint/warehouse", "warehouse.path", "lies in the checkpoint"),
        (
            "checkpoint: ./",
            "spark: {conf: {spark.master: x}}\ncheckpoint: ./",
            "spark.conf.spark.master",
            "master",
        ),
        (
            "checkpoint: ./",
            "changefeed: {timezone: Europe/Berln}\ncheckpoint: ./",
            "changefeed.timezone",
            "Europe/Berlin",
        ),
        (
            "checkpoint: ./",
            "changefeed: {protocol: simple}\ncheckpoint: ./",
            "changefeed.protocol",
            "source.protocol",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_stops_the_start(old, new, path, said):
    lines = [line for line in refusal_of(but(old, new)).message.splitlines() if f": {path}: " in line]
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.parametrize(
    "written",
    [
        "varchar(3)",
        "decimal(39,2)",
        "decimal(3,4)",
        "decimal(3)",
        "enum()",
        "enum('a',)",
        "enum('a','a')",
        "",
    ],
)
def test_a_type_that_no_column_can_have_is_refused(written):
    quoted = '"' + written + '"'
    error = refusal_of(but("  path: ./w", f"  columns: {{a.b.c: {quoted}}}\n  path: ./w"))
    assert "warehouse.columns.a.b.c: expected" in error.message


def test_a_checkpoint_beside_the_data_folder_is_fine():
    assert parse(but("./checkpoint", "./warehouse/checkpoint"), Path("/etc/shop")).name == "shop"


def test_a_checkpoint_that_a_link_leads_into_the_data_folder_is_refused(tmp_path):
    (tmp_path / "warehouse" / "data").mkdir(parents=True)
    (tmp_path / "checkpoint").symlink_to(tmp_path / "warehouse" / "data")
    with pytest.raises(SettingsError, match="data folder"):
        parse(GOOD, tmp_path)


def test_watermarks_need_the_extension():
    changefeed = "changefeed: {avro-enable-watermark: true, enable-tidb-extension: false}\n"
    assert "changefeed.avro-enable-watermark: TiCDC sends" in refusal_of(GOOD + changefeed).message


def test_only_open_can_be_without_old_values():
    error = refusal_of(GOOD + "changefeed: {enable-old-value: false}\n")
    assert "changefeed.enable-old-value: only a changefeed with `protocol: open-protocol`" in error.message


STORAGE = "name: s\nsource: {kind: storage, protocol: csv, path: feed}\nwarehouse: {path: w}\ncheckpoint: c\n"


def test_a_source_of_files_needs_its_path_and_nothing_of_kafka():
    error = refusal_of(STORAGE.replace(", path: feed", ""))
    assert "source.path: required" in error.message
    assert "bootstrap_servers" not in error.message
    assert "topics" not in error.message
    assert parse(STORAGE, Path("/etc/shop")).source.path == "/etc/shop/feed"


def test_a_quote_of_csv_is_one_byte():
    error = refusal_of(STORAGE + "changefeed: {csv: {quote: '«'}}\n")
    assert "changefeed.csv.quote: expected a character of ASCII" in error.message


@pytest.mark.parametrize(
    ("more", "key", "of"),
    [
        ("bootstrap_servers: 'localhost:9092'", "bootstrap_servers", "kafka"),
        ("topics: [a]", "topics", "kafka"),
        ("max_offsets_per_trigger: 5", "max_offsets_per_trigger", "kafka"),
    ],
)
def test_a_key_of_the_other_kind_of_source_is_refused(more, key, of):
    error = refusal_of(STORAGE.replace("path: feed", f"path: feed, {more}"))
    assert f"source.{key}: has no meaning with `kind: storage`: it is a key of `kind: {of}`" in error.message


def test_files_are_no_key_of_kafka():
    error = refusal_of(but("protocol: avro", "protocol: avro\n  path: feed"))
    assert "source.path: has no meaning with `kind: kafka`: it is a key of `kind: storage`" in error.message


def test_each_protocol_is_read_with_its_kind_of_source():
    assert "`csv` is read with `kind: storage`" in refusal_of(but("protocol: avro", "protocol: csv")).message
    assert "`avro` is read with `kind: kafka`" in refusal_of(STORAGE.replace("csv", "avro")).message


@pytest.mark.parametrize("size", ["0", "many", "5 TB", "1.5 MiB"])
def test_a_size_is_a_whole_number_with_a_unit(size):
    error = refusal_of(STORAGE.replace("path: feed", f"path: feed, max_bytes_per_trigger: {size}"))
    assert "source.max_bytes_per_trigger: expected a size such as `512 MiB`" in error.message


@pytest.mark.parametrize(
    ("size", "number"), [("512 MiB", 512 << 20), ("64MB", 64_000_000), ("1000", 1000), ("2 gib", 2 << 30)]
)
def test_sizes(size, number):
    text = STORAGE.replace("path: feed", f"path: feed, max_bytes_per_trigger: {size}")
    assert parse(text, Path("/etc/shop")).source.most_bytes == number


def test_what_has_no_meaning_to_a_protocol_is_no_fault_and_is_told():
    text = GOOD.replace("protocol: avro", "protocol: simple") + "changefeed: {avro-decimal-handling-mode: string}\n"
    assert parse(text, Path("/etc/shop")).idle == ("registry", "changefeed.avro-decimal-handling-mode")
    assert parse(GOOD.replace("protocol: avro", "protocol: avro\n  encoding: json"), Path("/etc/shop")).idle == (
        "source.encoding",
    )
    assert parse(GOOD, Path("/etc/shop")).idle == ()


def test_a_key_that_stands_twice_is_said_with_both_places():
    message = refusal_of(GOOD + "name: other\n").message
    assert "shop.yaml:12:1: name: is here twice, first at shop.yaml:1:1" in message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "just text",
        "- a\n- b\n",
        "a: [",
        "a: b: c",
        "a: &x [*x]",
        "? [a]\n: b\n",
        "a: !!python/name:os.system x",
        "a\n---\nb\n",
        "[" * 5000,
        '"\\UFFFFFFFF": 1',
        "\x00",
        "a: *nothing",
    ],
)
def test_what_is_no_mapping_of_yaml_is_a_settings_error(text):
    assert isinstance(refusal_of(text), SettingsError)


def test_aliases_that_multiply_are_stopped():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert "too large" in refusal_of(bomb).message


@pytest.mark.parametrize(
    "text",
    [
        but("  url:", "  password: *hunter\n  url:"),
        but("  url:", "  password: !hunter x\n  url:"),
        but("  url:", "  password: !h!hunter x\n  url:"),
        but("  url:", "  password: 'hunter\n  url:"),
        but("  url:", "  password: [hunter]\n  url:"),
        but("  url:", "  password:hunter: x\n  url:"),
        GOOD + "hold: {password=hunter}\n",
        but("http://localhost", "http://user:hunter@local host"),
        but("http://localhost:8081", "http://user:hunter@localhost:port"),
        but("  topics:", "  options: {kafka.sasl.jaas.config: [hunter]}\n  topics:"),
        but("  path: ./w", "  catalog: {type: hunter2, uri: [hunter]}\n  path: ./w").replace("hunter2", "nope"),
    ],
)
def test_no_error_quotes_a_secret(text):
    error = refusal_of(text)
    assert "hunter" not in str(error)
    assert "hunter" not in repr(error.__cause__) + repr(error.__context__)


def test_a_control_character_reaches_no_terminal():
    assert "\x1b" not in refusal_of(GOOD + '"\\e[31mred": 1\n').message


def test_without_a_file_every_place_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as caught:
        load(None, {})
    assert caught.value.code == "SETTINGS_NOT_FOUND"
    for place in ("--config", "TICDC_WAREHOUSE_CONFIG", str(tmp_path / "ticdc-warehouse.yaml")):
        assert place in caught.value.message


def test_the_file_is_found_in_the_folder_or_by_its_variable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticdc-warehouse.yaml").write_text(GOOD)
    (tmp_path / "other.yaml").write_text(but("shop", "other"))
    assert load(None, {}).name == "shop"
    assert load(None, {"TICDC_WAREHOUSE_CONFIG": str(tmp_path / "other.yaml")}).name == "other"
    assert load(tmp_path / "ticdc-warehouse.yaml", {"TICDC_WAREHOUSE_CONFIG": "none.yaml"}).name == "shop"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"name: \xe9", b"#" * (1 << 21)])
def test_a_file_that_is_no_text_is_a_settings_error(tmp_path, content):
    file = tmp_path / "shop.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError):
        load(file, {})


def test_a_folder_or_an_absent_file_is_a_settings_error(tmp_path):
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(SettingsError):
            load(path, {})


CLAIMS = "  claim_check: {path: 's3://b/claims', written_as: /data/claims, options: {s3.region: x}}\n"


def test_an_upstream_is_for_protocols_that_have_keys_alone():
    simple = GOOD.replace("avro", "simple").replace("registry:\n  url: http://localhost:8081/apis/ccompat/v7\n", "")
    password = "s3cret-0f-upstream"  # noqa: S105 - made up
    given = simple.replace("warehouse:", f"  upstream: {{host: h, user: u, password: {password}}}\nwarehouse:", 1)
    upstream = parse(given, Path("/etc/shop")).source.upstream
    assert (upstream.host, upstream.port, upstream.user, upstream.ca_file) == ("h", 4000, "u", None)
    assert password not in repr(upstream)
    said = refusal_of(but("registry:", "  upstream: {host: h, user: u}\nregistry:")).message
    assert "source.upstream: `protocol: avro` has no messages with the key alone" in said
    for missing, others in (("host", "{user: u}"), ("user", "{host: h, port: 1}")):
        said = refusal_of(simple.replace("warehouse:", f"  upstream: {others}\nwarehouse:", 1)).message
        assert f"source.upstream.{missing}: required if another key of upstream is set" in said


def test_claim_check_is_for_protocols_that_have_it():
    simple = GOOD.replace("avro", "simple").replace("registry:\n  url: http://localhost:8081/apis/ccompat/v7\n", "")
    given = simple.replace("warehouse:", f"{CLAIMS}warehouse:", 1)
    claims = parse(given, Path("/etc/shop")).source.claim_check
    assert (claims.path, claims.written_as, claims.options["s3.region"]) == ("s3://b/claims", "/data/claims", "x")
    said = refusal_of(but("registry:", "  claim_check: {path: file:///claims}\nregistry:")).message
    assert "source.claim_check: TiCDC writes no such objects with `protocol: avro`" in said
    said = refusal_of(simple.replace("warehouse:", "  claim_check: {written_as: /data}\nwarehouse:", 1)).message
    assert "source.claim_check.path: required if another key of claim_check is set" in said
    said = refusal_of(given.replace("s3.region", "region")).message
    assert "source.claim_check.options.region: expected one of s3.endpoint" in said
    assert refusal_of(given.replace("s3://b/claims", "s3://b/claims?access-key=x")).code == "SETTINGS_INVALID"


def test_several_registries_may_be_named_with_ports():
    several = "http://a:8081, https://b:8081/apis/ccompat/v7"
    settings = parse(GOOD.replace("http://localhost:8081/apis/ccompat/v7", several), Path("/etc/shop"))
    assert settings.registry.url == several
