"""What `checks run` says of whole tables, and how it ends, whatever Spark may have found."""

import json

import pytest
from unit.configuration import SMALL

from pipeline.cli import checks, main

CONFIG = SMALL + "quality: {suites: ./checks}\n"


def result(rule, severity="warn", *, unexpected=0, observed=""):
    told = {"rule": rule, "severity": severity, "evaluated": 1_000, "unexpected": unexpected, "observed": observed}
    return {**told, "success": not (unexpected or observed), "rows": 1_000, "engine": "gx"}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command where the suites have found this, by table."""
    (tmp_path / "ticdc-warehouse.yaml").write_text(CONFIG)
    (tmp_path / "checks").mkdir()
    monkeypatch.chdir(tmp_path)

    def told(found, *words):
        monkeypatch.setattr(checks, "_audited", lambda *_: found)
        code = main(["checks", "run", *words])
        return code, *capsys.readouterr()

    return told


BROKEN = {
    "shop.orders": [result("a_total", "hold", unexpected=3), result("note_is_short", unexpected=7)],
    "shop.customers": [result("one_each", "quarantine", observed="mean is 7"), result("email")],
}


def test_a_check_that_stops_is_a_refusal_with_a_code_its_name_and_the_next_step(run):
    code, out, err = run(BROKEN)
    assert code == 1
    assert "4 checks on 2 tables; 3 failed" in out
    sentence = "shop.orders: a_total (hold): 3 of 1,000 rows break it; shop.customers: one_each (quarantine): mean is 7"
    assert err.startswith(f"error CHECK_FAILED: on whole tables: {sentence}\n")
    assert "ticdc-warehouse report" in err
    assert "note_is_short" not in err  # it warns


def test_programs_get_all_results_and_the_refusal_beside_them(run):
    code, out, err = run(BROKEN, "--output", "json")
    told, refused = json.loads(out), json.loads(err)
    assert code == 1
    assert (told["passed"], told["failed"]) == (1, 3)
    assert [(one["table"], one["rule"], one["success"]) for one in told["checks"]] == [
        ("shop.orders", "a_total", False),
        ("shop.orders", "note_is_short", False),
        ("shop.customers", "one_each", False),
        ("shop.customers", "email", True),
    ]
    assert (refused["code"], bool(refused["hint"])) == ("CHECK_FAILED", True)
    assert "a_total" in refused["message"]


@pytest.mark.parametrize("found", [{}, {"shop.orders": [result("a_total"), result("short", unexpected=7)]}])
def test_warnings_end_nothing(run, found):
    code, out, err = run(found, "--output", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["failed"] == len([one for one in found.get("shop.orders", ()) if not one["success"]])


def test_of_many_failed_checks_the_first_are_named_and_the_rest_counted(run):
    found = {"shop.orders": [result(f"rule_{n}", "hold", unexpected=1) for n in range(300)]}
    _, _, err = run(found, "--output", "json")
    assert json.loads(err)["message"].endswith(" and 295 more")
