"""The command line: `config`, output for people and programs, exit codes, the log."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from pipeline import cli
from pipeline.cli.output import Format, opened
from pipeline.errors import BatchFailed, PipelineError, Refused
from pipeline.observe import logs
from registry.errors import RegistryUnreachable

SHOP = """\
name: shop
source: {kind: kafka, protocol: avro, bootstrap_servers: "localhost:9092", topics: [t]}
registry: {url: "http://user:hunter@registry"}
warehouse: {path: w}
checkpoint: c
"""


@pytest.fixture
def shop(tmp_path, monkeypatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TICDC_WAREHOUSE")]:
        monkeypatch.delenv(name)
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)
    return file


@pytest.fixture
def command(monkeypatch):
    """Put a command `demo` in place that does what the test says; its module is never imported."""

    def install(body):
        app = typer.Typer()
        app.command()(body)
        monkeypatch.setattr(cli, "_loaded", lambda _: typer.main.get_command(app))
        group = cli.LazyGroup.__init__

        def with_demo(self, **attributes):
            group(self, **attributes)
            self.add_command(typer.core.TyperCommand("demo", callback=None), "demo")

        monkeypatch.setattr(cli.LazyGroup, "__init__", with_demo)

    return install


def test_config_show_prints_yaml_with_defaults_and_without_secrets(shop, capsys):
    assert cli.main(["config", "show", "-c", str(shop)]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["registry"]["url"] == "http://***@registry"
    assert shown["warehouse"]["path"] == str(shop.parent / "w")
    assert shown["trigger"] == "10 seconds"


def test_config_show_as_json_is_one_document_of_the_same_settings(shop, capsys):
    assert cli.main(["config", "show", "--config", str(shop), "--output", "json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert cli.main(["config", "show", "--config", str(shop)]) == 0
    assert as_json == yaml.safe_load(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("written", "shown"),
    [("protocol: simple", "json"), ("protocol: simple, encoding: avro", "avro"), ("protocol: open-protocol", None)],
)
def test_config_show_has_the_encoding_that_is_in_effect(shop, capsys, written, shown):
    shop.write_text(SHOP.replace("protocol: avro", written).replace("registry: ", "# "))
    assert cli.main(["config", "show", "-c", str(shop), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"]["encoding"] == shown


def test_the_environment_is_applied(shop, capsys, monkeypatch):
    monkeypatch.setenv("TICDC_WAREHOUSE__HOLD__MAX_RECORDS", "7")
    assert cli.main(["config", "show", "-c", str(shop), "--output=json"]) == 0
    assert json.loads(capsys.readouterr().out)["hold"] == {"max_records": 7}


def test_config_schema_lists_every_key_for_people_and_is_json_schema_for_programs(capsys):
    assert cli.main(["config", "schema"]) == 0
    assert "warehouse.maintenance.keep_for" in capsys.readouterr().out
    assert cli.main(["config", "schema", "--output", "json"]) == 0
    assert "table_threads" in json.loads(capsys.readouterr().out)["$defs"]["Warehouse"]["properties"]


def test_a_wrong_configuration_is_a_handled_refusal(shop, capsys):
    shop.write_text(SHOP + "trigger: soon\n")
    assert cli.main(["config", "show", "-c", str(shop)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "error SETTINGS_INVALID: 1 setting is wrong" in said.err
    assert "config schema" in said.err


def test_an_error_as_json_is_one_document_on_stderr(shop, capsys):
    shop.write_text(SHOP + "trigger: soon\n")
    assert cli.main(["config", "show", "-c", str(shop), "--output", "json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    error = json.loads(said.err)
    assert set(error) == {"code", "message", "hint"}
    assert error["code"] == "SETTINGS_INVALID"


@pytest.mark.parametrize("words", [["confg"], ["config", "sho"], ["config", "show", "--outpt"], ["--output", "x"]])
def test_wrong_usage_ends_with_two(words, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr().out == ""


def test_no_command_at_all_shows_the_help_and_is_wrong_usage(capsys):
    assert cli.main([]) in {0, 2}  # 0 before click 8.2
    assert "config" in "".join(capsys.readouterr())


def test_wrong_usage_as_json_is_a_document_too(capsys):
    assert cli.main(["config", "show", "--nonsense", "--output", "json"]) == 2
    assert json.loads(capsys.readouterr().err)["code"] == "USAGE"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            Refused("TOPIC_GONE", "the topic is gone", "run doctor"),
            1,
            "error TOPIC_GONE: the topic is gone\n  run doctor",
        ),
        (BatchFailed("MOVED", "main moved"), 2, "error MOVED: main moved"),
        (
            RegistryUnreachable("REGISTRY_UNREACHABLE", "no answer", "is it up?"),
            1,
            "error REGISTRY_UNREACHABLE: no answer",
        ),
        (KeyError("x"), 2, "error UNEXPECTED: KeyError: 'x'\n"),
        (ZeroDivisionError("first\nsecond"), 2, "error UNEXPECTED: ZeroDivisionError: first\n"),
        (typer.Abort(), 130, ""),
        (typer.Exit(1), 1, ""),
    ],
)
def test_how_a_command_ends_is_its_exit_code(command, capsys, monkeypatch, error, code, said):
    monkeypatch.delenv("TICDC_WAREHOUSE_DEBUG", raising=False)

    def body() -> None:
        raise error

    command(body)
    assert cli.main(["demo"]) == code
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert "Traceback" not in err
    assert ("--debug" in err) == ("UNEXPECTED" in err)


@pytest.mark.parametrize("words", [["--debug", "demo"], ["demo", "--debug"]])
def test_debug_shows_the_traceback(command, capsys, words):
    def body() -> None:
        raise KeyError("x")

    command(body)
    assert cli.main(words) == 2
    assert "Traceback" in capsys.readouterr().err


def test_debug_by_variable_puts_the_traceback_into_the_json(command, capsys, monkeypatch):
    monkeypatch.setenv("TICDC_WAREHOUSE_DEBUG", "1")

    def body(output: Format = Format.TEXT) -> None:
        raise PipelineError("X", f"as {output}")

    command(body)
    assert cli.main(["demo", "--output", "json"]) == 1
    error = json.loads(capsys.readouterr().err)
    assert error["message"] == "as json"
    assert "Traceback" in error["traceback"]


def test_json_output_gathers_tables_and_facts_into_one_document(capsys):
    with opened(Format.JSON) as out:
        out.line("working")
        out.table("Dead letters", ["table", "value"], [("shop.a", b"\x00\xff"), ("shop.b", None)])
        out.result({"done": True, "ratio": float("nan")})
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "dead_letters": [{"table": "shop.a", "value": "AP8="}, {"table": "shop.b", "value": None}],
        "done": True,
        "ratio": "nan",
    }


def test_names_of_words_are_keys_with_underscores_and_data_stays_as_it_is(capsys):
    with opened(Format.JSON) as out:
        out.result({"changes table": "shop.a__changes", "$defs": {"a b": 1}})
        out.table("source versions", ["cut ts", "level"], [(7, "not exact")])
    assert json.loads(capsys.readouterr().out) == {
        "changes_table": "shop.a__changes",
        "$defs": {"a b": 1},
        "source_versions": [{"cut_ts": 7, "level": "not exact"}],
    }


def test_names_of_words_are_shown_to_people_as_they_are(capsys):
    with opened(Format.TEXT) as out:
        out.result({"changes table": "shop.a__changes"})
        out.table("cuts", ["cut ts"], [(7,)])
    assert capsys.readouterr().out == "changes table  shop.a__changes\ncuts\ncut ts\n     7\n"


def half_done(ending: Exception) -> None:
    with opened(Format.JSON) as out:
        out.result({"half": 1})
        raise ending


def test_json_output_says_nothing_on_stdout_when_the_command_fails(capsys):
    with pytest.raises(KeyError):
        half_done(KeyError("x"))
    assert capsys.readouterr().out == ""


def test_json_output_is_complete_when_the_command_exits_with_a_code(capsys):
    with pytest.raises(typer.Exit):
        half_done(typer.Exit(1))
    assert json.loads(capsys.readouterr().out) == {"half": 1}


def test_no_data_steers_the_terminal_and_no_line_is_cut_in_a_pipe(capsys):
    with opened(Format.TEXT) as out:
        out.table("tables", ["name"], [("evil\x1b[2J[red]" + "x" * 200,)])
        out.line("\u202eright to left")
        out.result({"name": "a\x07b"})
    said = capsys.readouterr().out
    assert "evil\\x1b[2J[red]" + "x" * 200 in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert "a\\x07b" in said


def test_only_commands_that_are_there_are_listed(capsys):
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    folder = Path(cli.__file__).parent
    there = {name for name in cli.COMMANDS if (folder / f"{name}.py").exists() or (folder / name).is_dir()}
    assert {name for name in cli.COMMANDS if f"│ {name} " in said} == there
    assert "config" in there


def test_a_command_that_can_not_be_imported_breaks_no_other(monkeypatch, shop):
    monkeypatch.setitem(sys.modules, "pipeline.cli.devstack", None)
    assert cli.main(["devstack", "status"]) == 2
    assert cli.main(["config", "show", "-c", str(shop)]) == 0


STARTS = """
import sys, time
start = time.perf_counter()
from pipeline.cli import main
main(["--help"])
main(["config", "show", "-c", sys.argv[1]])
took = time.perf_counter() - start
heavy = {"pyspark", "great_expectations", "pandas", "pyarrow", "confluent_kafka"} & set(sys.modules)
sys.exit(f"{heavy} {took}" if heavy or took > 5 else 0)
"""


def test_help_and_config_start_without_spark_and_at_once(shop):
    words = [sys.executable, "-c", STARTS, str(shop)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_python_m_pipeline_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "pipeline", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("ticdc-warehouse ")


@pytest.fixture
def quiet_after():
    handlers = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers = handlers


@pytest.mark.usefixtures("quiet_after")
def test_the_log_is_json_lines_off_a_terminal_with_batch_and_table_in_each(capsys):
    logs.configure()
    with logs.bound(batch=3, table="shop.orders"):
        logs.get_logger("pipeline.x").info("committed", rows=412)
        logging.getLogger("py4j").warning("from %s", "java")
    logs.get_logger("pipeline.x").debug("not asked for")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["rows"], first["batch"], first["table"]) == (
        "committed",
        412,
        3,
        "shop.orders",
    )
    assert (second["event"], second["batch"], second["level"]) == ("from java", 3, "warning")


@pytest.mark.usefixtures("quiet_after")
def test_the_log_for_people_is_lines_and_debug_adds_more(capsys):
    logs.configure(logs.LogFormat.TEXT, debug=True)
    logs.configure(logs.LogFormat.TEXT, debug=True)
    logs.get_logger("registry.x").debug("asked for", rows=1)
    said = capsys.readouterr().err
    assert said.count("asked for") == 1
    assert "rows=1" in said


def failing(password: str) -> None:
    raise KeyError(len(password))


@pytest.mark.usefixtures("quiet_after")
@pytest.mark.parametrize("form", [logs.LogFormat.TEXT, logs.LogFormat.JSON])
def test_a_traceback_in_the_log_shows_no_local_variables(capsys, form):
    logs.configure(form)
    secret = Path("hunter").name
    try:
        failing(secret)
    except KeyError:
        logs.get_logger("pipeline.x").exception("failed")
    said = capsys.readouterr().err
    assert "KeyError: 6" in said
    assert "hunter" not in said.replace('Path("hunter")', "")
