"""What stores, catalogs, Kafka and Spark said when something of theirs was not in order, and what is made of it.

The texts in `causes.yaml` are theirs, provoked by set-ups that lack something.
"""

from pathlib import Path

import pytest
import yaml

from pipeline import causes, cli
from pipeline.cli.checkup.findings import guarded
from pipeline.errors import Refused

CASES = {
    case["what"]: (case["chain"], case["code"], case["hint"])
    for case in yaml.safe_load((Path(__file__).parent / "causes.yaml").read_text())
}


class Java:
    """A chain of Java's exceptions, as py4j shows it."""

    def __init__(self, *chain):
        self.text, *rest = chain
        self.cause = Java(*rest) if rest else None

    def getCause(self):  # noqa: N802
        return self.cause

    def toString(self):  # noqa: N802
        return self.text


class FromJava(Exception):
    """As Py4JJavaError, and as what PySpark makes of it."""

    def __init__(self, *chain, origin=False):
        super().__init__("An error occurred while calling o742.append.")
        setattr(self, "_origin" if origin else "java_exception", Java(*chain))


@pytest.mark.parametrize("origin", [False, True], ids=["py4j", "pyspark"])
@pytest.mark.parametrize(("chain", "code", "todo"), CASES.values(), ids=CASES)
def test_each_is_told_with_its_code_and_the_setting_to_look_at(chain, code, todo, origin):
    found = causes.explained(FromJava(*chain, origin=origin))
    assert found is not None
    assert (found.code, found.exit_code) == (code, 1)
    assert todo in found.hint
    assert "\n" not in found.message
    assert len(found.message) < 3 * causes.LONGEST


def test_the_library_s_own_words_stand_in_the_sentence_and_what_is_behind_them():
    found = causes.explained(FromJava(*CASES["a PEM file that is not there"][0]))
    assert found.message.endswith(
        "cannot be read: InvalidConfigurationException: Failed to load PEM SSL keystore /nowhere/ca.pem"
    )
    found = causes.explained(FromJava(*CASES["a store without an address"][0]))
    assert "Unable to execute HTTP request: nowhere.invalid" in found.message
    found = causes.explained(FromJava(*CASES["a file that is no PEM"][0]))
    assert found.message.endswith("No matching CERTIFICATE entries in PEM file)")


def test_what_pyspark_has_kept_only_as_text_is_read_too():
    class Captured(Exception):
        _desc = "[STREAM_FAILED] Query terminated"
        _stackTrace = (  # noqa: N815 - PySpark's
            "org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark.x\n"
            "Caused by: java.io.IOException: No space left on device\n\tat java.io\n"
        )

    assert causes.explained(Captured()).code == "DISK_FULL"


def test_a_cause_behind_an_error_of_python_is_found():
    error = RuntimeError("while closing")
    error.__cause__ = FromJava(*CASES["no region"][0])
    assert causes.explained(error).code == "STORE_REGION"


def test_no_secret_of_a_url_is_repeated():
    text = "org.postgresql.util.PSQLException: Connection to jdbc:postgresql://me:hunter2@h/d?password=hunter3 refused"
    assert "hunter" not in str(causes.explained(FromJava(text)))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a fault of ours: Access to None"),
        FromJava("java.lang.NullPointerException: null"),
        FromJava("org.apache.iceberg.exceptions.CommitFailedException: Requirement failed: branch main has changed"),
        FromJava("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] A column cannot be resolved"),
        KeyError("shop.forbidden"),
    ],
)
def test_what_is_not_foreseen_stays_so(error):
    assert causes.explained(error) is None


def test_an_error_whose_java_is_gone_is_not_foreseen():
    class Gone:
        def toString(self):  # noqa: N802
            raise ConnectionRefusedError

    error = FromJava("x")
    error.java_exception = Gone()
    assert causes.explained(error) is None


class TestWhereItIsTold:
    def test_a_command_ends_with_it_and_not_as_unexpected(self, monkeypatch, capsys):
        def failing(*_, **__):
            raise FromJava(*CASES["no region"][0])

        monkeypatch.setattr(cli, "app", failing)
        monkeypatch.setattr("typer.main.get_command", lambda _: type("Command", (), {"main": failing})())
        assert cli.main(["tables", "list"]) == 1
        said = capsys.readouterr().err
        assert "STORE_REGION" in said
        assert "client.region" in said
        assert "UNEXPECTED" not in said

    def test_a_line_of_doctor_has_it(self):
        def looking():
            raise FromJava(*CASES["a location that is not allowed"][0])
            yield

        (finding,) = guarded("warehouse", looking())
        assert "CATALOG_FORBIDS" in finding.sentence
        assert "storage configuration" in finding.todo

    def test_a_refusal_of_ours_stays_what_it_is(self):
        def looking():
            raise Refused("NO_WAREHOUSE", "there is none", "make one")
            yield

        (finding,) = guarded("warehouse", looking())
        assert "NO_WAREHOUSE" in finding.sentence
