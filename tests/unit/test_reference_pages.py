"""The pages that list codes and metrics list all there are, and nothing else."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODES, METRICS = (ROOT / "docs" / "reference" / name for name in ("error-codes.md", "metrics.md"))
CODE = r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
OF_OTHERS = re.compile(
    r"(?:TICDC_WAREHOUSE|PY?SPARK|SPARK|SSL|JAVA_TOOL|HADOOP|YARN|AWS|SC)_\w+"  # variables of the environment
    r"|\w+_(?:JSON|IF)|ACCESS_DENIED|DESCRIBE_CONFIGS|POSITION_DELETES|SASL_SSL|SQLITE_\w+"
    r"|TIDB_WATERMARK|CURRENT_TIMESTAMP|WAITING_STATES"
)
"""Words of others that look like a code of ours."""


def strings(*rooms):
    """The texts of the code that are no docstring."""
    for file in sorted(file for room in rooms for file in (ROOT / room).rglob("*.py")):
        tree = ast.parse(file.read_text())
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                yield str(file.relative_to(ROOT)), node.value


def codes_of_the_code():
    texts = [text for file, text in strings("pipeline", "registry") if not file.startswith("pipeline/ddl/")]
    found = {match[1] for text in texts if (match := re.fullmatch(rf"({CODE})(?:: .*)?", text, re.DOTALL))}
    return {code for code in found if not OF_OTHERS.fullmatch(code)}


def test_every_code_is_on_its_page():
    page = set(re.findall(rf"`({CODE})`", CODES.read_text()))
    assert codes_of_the_code() - page == set()


def test_the_page_names_no_code_that_is_gone():
    page = {code for code in re.findall(rf"`({CODE})`", CODES.read_text()) if not OF_OTHERS.fullmatch(code)}
    known = {word for _, text in strings("pipeline", "registry") for word in re.findall(CODE, text)}
    assert page - known == set()


def declared_metrics():
    """Names of metrics as a scrape has them; the former name of each beside it, where it has one."""
    suffixes = {"Counter": "_total", "Info": "_info"}
    for node in ast.walk(ast.parse((ROOT / "pipeline" / "observe" / "metrics.py").read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        if node.func.id in {*suffixes, "Gauge", "Histogram", "_Labelled", "_WhenKnown"}:
            former = next((ast.literal_eval(one.value) for one in node.keywords if one.arg == "former"), None)
            if isinstance(node.args[0], ast.Constant):
                name = node.args[0].value + suffixes.get(node.func.id, "")
                yield name, former[0] if isinstance(former, tuple) else former


def listed(header):
    """The first cells of the rows of the tables whose header begins so."""
    rows = re.findall(rf"^\| {header} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", METRICS.read_text(), re.MULTILINE)
    return [re.findall(r"`([^`]+)`", line)[:2] for table in rows for line in table.splitlines()]


def test_every_metric_is_on_its_page_and_no_other():
    declared = dict(declared_metrics())
    assert {name for name, *_ in listed("metric")} == declared.keys()
    assert dict(listed("name")) == {name: former for name, former in declared.items() if former}
