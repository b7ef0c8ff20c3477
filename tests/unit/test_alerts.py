"""The alerts of docs/alerts.yaml: of metrics that there are, told in the docs, and firing when they should."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipeline.observe.metrics import PREFIX, BatchDone, Metrics, TableDone

ROOT = Path(__file__).parents[2]
RULES, CASES = ROOT / "docs" / "alerts.yaml", Path(__file__).parent / "alerts" / "cases.yaml"
TOLD = re.compile(r"^\| `([A-Z]\w+)`", re.MULTILINE)


def alerts():
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.mark.parametrize("name", alerts())
def test_an_alert_is_of_metrics_that_a_run_has(name):
    metrics = Metrics("shop", "1.2.3")
    metrics.begin(["shop.orders"])
    metrics.lag({"cdc": 1})
    metrics.oldest({"cdc": 1.0})
    metrics.answered(1.0)
    metrics.operation("rebuild", 1.0)
    metrics.batch(
        BatchDone(1, 1, 1.0, 1.0, [TableDone("shop.orders", lag=1.0)], held_tables=["shop.orders"], cut_time=1.0)
    )
    known = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    used = set(re.findall(rf"{PREFIX}_\w+", alerts()[name]["expr"]))
    assert used <= known
    assert used or "up{" in alerts()[name]["expr"]


def test_an_alert_about_a_process_is_about_this_job_alone():
    about = re.findall(r"(?<!`)\bup\b(\{[^}]*\})?", RULES.read_text())
    assert about == ['{job="ticdc-warehouse"}'] * 4  # one in a comment, for targets that go with the process


def test_each_alert_is_told_with_what_to_do_then():
    assert TOLD.findall((ROOT / "docs/how-to/monitor.md").read_text()) == list(alerts())


def test_each_alert_has_a_case_in_which_it_fires():
    tests = yaml.safe_load(CASES.read_text())["tests"]
    fires = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert fires == set(alerts())


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool (Debian: apt-get install prometheus)")
def test_each_alert_fires_when_it_should_and_at_no_other_time(tmp_path):
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)
    command = ["promtool", "test", "rules", CASES.name]
    asked = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stdout + asked.stderr
