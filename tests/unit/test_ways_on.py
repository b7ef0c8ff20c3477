"""Every way out that a message offers is walked by a test: whoever adds a hint names the test, or it fails here."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(
    r"ticdc-warehouse (?:(?:tables|quarantine|run|report|inspect|doctor|config|devstack|checks|demo|simulate)\b"
    r"(?: (?:list|release|rebuild|restore|as-of|history|redrive|schema|show|spark-submit|up|down|status|validate)\b)?"
    r"(?: --[a-z-]+)*(?: [A-Z_]{4,})?|[^a-z ]* --[a-z]+)"
)
"""A command in a text, with its options and what they are given."""

E2E = "tests/e2e/"
RESTORED = E2E + "test_cli.py::test_a_lost_catalog_is_refused_until_its_tables_are_restored"
RELEASED = E2E + "test_cli.py::test_a_statement_that_nobody_understands_holds_its_table_until_it_is_released"
NAME_RELEASED = E2E + "test_taken_names.py::test_a_new_table_waits_whose_name_is_taken"
LISTED = E2E + "test_cli.py::test_the_list_has_every_table_with_the_rows_that_the_source_has"
SET_ASIDE = E2E + "test_quality.py::test_what_was_set_aside_is_listed_shown_and_sent_on_its_way_again"
REPORTED = "tests/unit/test_report_cli.py::test_a_page_lies_in_this_folder"
AS_OF = "tests/unit/test_as_of.py::test_an_expired_snapshot_is_refused_with_the_oldest_cut_that_is_whole"
DEVSTACK = E2E + "test_devstack.py::test_up_status_down_and_up_again"
SCHEMA = "tests/unit/test_cli_config.py::test_config_schema_lists_every_key_for_people_and_is_json_schema_for_programs"
SUBMITTED = E2E + "test_cluster.py::test_a_driver_without_what_it_needs_is_told_so"
HELPED = "tests/unit/test_cli_config.py::test_no_command_at_all_shows_the_help_and_is_wrong_usage"
TOPICS = E2E + "test_recovery.py::test_"
EXAMINED = E2E + "test_doctor.py::test_a_set_up_in_order_has_nothing_wrong_and_is_left_as_it_is"

WALKED = {
    "pipeline/__main__.py: config spark-submit": SUBMITTED,
    "pipeline/airflow/dag.py: tables list": LISTED,
    "pipeline/causes.py: tables restore": RESTORED,
    "pipeline/cli/__init__.py: COMMAND --help": HELPED,
    "pipeline/cli/checkup/changefeed.py: doctor": EXAMINED,
    "pipeline/cli/checkup/machine.py: doctor": EXAMINED,
    "pipeline/cli/checkup/messages.py: doctor": EXAMINED,
    "pipeline/cli/checkup/whole.py: doctor": EXAMINED,
    "pipeline/cli/checkup/messages.py: inspect": E2E
    + "test_doctor.py::test_what_would_be_a_dead_letter_is_shown_in_bytes",
    "pipeline/cli/checkup/warehouse.py: quarantine list": SET_ASIDE,
    "pipeline/cli/checkup/warehouse.py: quarantine list --dead-letters": SET_ASIDE,
    "pipeline/cli/checkup/warehouse.py: tables release": NAME_RELEASED,
    "pipeline/cli/checkup/warehouse.py: tables restore": RESTORED,
    "pipeline/lake/consistent_points.py: tables as-of": AS_OF,
    "pipeline/lake/consistent_points.py: tables history NAME": E2E
    + "test_cli.py::test_the_history_has_the_statement_the_versions_and_what_readers_saw",
    "pipeline/cli/demo.py: devstack down --folder": DEVSTACK,
    "pipeline/cli/devstack.py: devstack up": DEVSTACK,
    "pipeline/cli/quarantine.py: quarantine redrive": SET_ASIDE,
    "pipeline/cli/quarantine.py: quarantine redrive --dead-letters": SET_ASIDE,
    "pipeline/lake/catalog.py: run --available-now": E2E
    + "test_cli.py::test_without_a_warehouse_the_list_says_how_to_get_one",
    "pipeline/lake/catalog.py: tables restore": RESTORED,
    "pipeline/cli/run.py: quarantine list": SET_ASIDE,
    "pipeline/cli/run.py: quarantine list --dead-letters": SET_ASIDE,
    "pipeline/cli/run.py: report": REPORTED,
    "pipeline/lake/table_metadata.py: tables list": LISTED,
    "pipeline/cli/simulate.py: devstack up": DEVSTACK,
    "pipeline/demo/source.py: demo": E2E + "test_demo.py::test_it_ends_with_every_row_equal_to_the_source",
    "pipeline/runtime/process.py: devstack down": DEVSTACK,
    "pipeline/devstack/stack.py: devstack down": DEVSTACK,
    "pipeline/model/holding.py: tables release": RELEASED,
    "pipeline/model/holding.py: tables release NAME": "tests/golden/test_faults_no_key.py"
    "::test_when_its_rows_come_with_a_key_it_is_released_and_the_others_are_dead_letters",
    "pipeline/quality/gate.py: report": REPORTED,
    "pipeline/settings/document.py: config schema": SCHEMA,
    "pipeline/settings/faults.py: config schema": SCHEMA,
    "pipeline/settings/loading.py: … --config": SCHEMA,
    "pipeline/simulate/topics.py: devstack status": DEVSTACK,
    "pipeline/ingest/ddl/done.py: tables release": RELEASED,
    "pipeline/service/dispatch.py: tables list": LISTED,
    "pipeline/warehouse/held.py: tables release": NAME_RELEASED,
    "pipeline/service/pipeline.py: tables restore": RESTORED,
    "pipeline/sources/kafka/offsets.py: run": "tests/golden/test_faults_topic_ids.py"
    "::test_progress_that_was_noted_for_all_topics_as_one_is_refused_and_what_begins_afresh_is_right",
    "pipeline/sources/kafka/offsets.py: run --accept OFFSETS_LOST": TOPICS
    + "records_that_retention_removed_unread_are_refused_and_passed_over_on_demand",
    "pipeline/sources/kafka/offsets.py: run --accept OFFSETS_SHRUNK": TOPICS
    + "a_topic_that_ends_before_the_tables_is_refused_and_gone_on_with_on_demand",
    "pipeline/sources/kafka/offsets.py: run --accept TOPIC_RECREATED": TOPICS
    + "a_topic_that_was_made_again_is_refused_and_read_from_its_beginning_on_demand",
    "pipeline/sources/storage/losses.py: run --accept": E2E
    + "test_storage_losses.py::test_each_refusal_says_what_is_lost_and_run_accept_goes_on",
    "pipeline/operations/release.py: tables list": LISTED,
    "pipeline/operations/release.py: tables release": NAME_RELEASED,
    "pipeline/ingest/ddl/rename.py: tables release": E2E
    + "test_taken_names.py::test_a_table_that_waits_and_is_dropped_leaves_its_old_name_to_a_new_one",
    "pipeline/runtime/session.py: config spark-submit": SUBMITTED,
    "pipeline/ingest/accounting.py: tables list": LISTED,
    "pipeline/ingest/accounting.py: tables release NAME": RELEASED,
    "pipeline/warehouse/place.py: run --accept": E2E
    + "test_elsewhere.py::test_a_catalog_whose_tables_lie_elsewhere_goes_on_where_it_was_moved_to_if_that_is_accepted",
    "pipeline/warehouse/records.py: run --accept": "tests/unit/test_owner.py"
    "::test_what_is_accepted_is_the_new_pipelines_and_no_longer_the_old_ones",
    "pipeline/warehouse/tags.py: tables as-of": AS_OF,
}
"""Where a command is offered → the test that does what it says. Several messages may lead the same way."""


def texts(tree):
    """The texts of a module, without docstrings; what a formatted one fills in is left out."""
    documented = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {part for node in formatted for part in node.values}
    for node in formatted:
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documented | inside:
            yield node.value


def offered():
    """Every command that a message offers, with its module."""
    for room in ("pipeline", "registry"):
        for module in sorted((ROOT / room).rglob("*.py")):
            for text in texts(ast.parse(module.read_text())):
                for found in COMMAND.finditer(text):
                    yield f"{module.relative_to(ROOT)}: {found[0].removeprefix('ticdc-warehouse ').strip()}"


def test_each_command_that_a_message_offers_is_walked_by_a_test():
    assert set(offered()) == set(WALKED)


@pytest.mark.parametrize("test", sorted(set(WALKED.values())), ids=lambda test: test.partition("::")[2])
def test_the_test_that_walks_it_is_there(test):
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_what_holds_a_table_is_answered_with_a_way_that_is_walked():
    """`tables release` ends every wait but that of a table without a key, whose ways out are walked there."""
    walked = (ROOT / "tests/golden/test_faults_no_key.py").read_text()
    for step in ("when_its_rows_come_with_a_key_it_is_released", "without_its_topic_the_pipeline_goes_on"):
        assert f"def test_{step}" in walked
