"""docs/reference/configuration.md says what the types say. Run as a script, this writes the table anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.settings import described, parse

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
BEGIN, END = "<!-- keys: ", "<!-- end of keys -->"


def table() -> str:
    rows = [f"| `{key.path}` | {key.takes} | {code(key.default)} | {key.meaning} |" for key in described()]
    return "\n".join(["| key | takes | default | meaning |", "|---|---|---|---|", *rows])


def code(default: str) -> str:
    return default if default in {"", "none"} else f"`{default}`"


def parts() -> tuple[str, str, str]:
    text = DOCUMENT.read_text()
    begin = text.index("\n", text.index(BEGIN)) + 1
    end = text.index(END)
    return text[:begin], text[begin:end].strip(), text[end:]


def test_the_table_in_the_document_is_that_of_the_types():
    assert parts()[1] == table(), "python tests/unit/test_settings_reference.py writes it"


def test_the_example_in_the_document_is_a_configuration():
    example = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)[0]
    assert parse(example, Path("/etc/shop")).name == "shop"


@pytest.mark.parametrize("key", [key for key in described() if not key.default], ids=lambda key: key.path)
def test_each_required_key_stands_in_the_example(key):
    assert f"{key.path.rpartition('.')[2]}: " in DOCUMENT.read_text().split("```")[1]


def test_every_variable_of_the_document_is_a_setting():
    names = re.findall(r"export (TICDC_WAREHOUSE__\w+)=", DOCUMENT.read_text())
    example = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)[0]
    values = {"TOPICS": "[a, b]", "ENABLE_TIDB_EXTENSION": "true", "SPARK_SQL_SHUFFLE_PARTITIONS": "4"}
    environ = {name: values.get(name.rpartition("__")[2], "x") for name in names}
    environ["TICDC_WAREHOUSE__REGISTRY__USERNAME"] = "x"
    assert len(names) == 4
    assert parse(example, Path("/etc/shop"), environ).source.topics == ("a", "b")


def test_every_code_of_the_settings_is_explained():
    sources = (DOCUMENT.parents[2] / "pipeline" / "settings").glob("*.py")
    codes = {found for file in sources for found in re.findall(r'"(SETTINGS_\w+)"', file.read_text())}
    assert codes == set(re.findall(r"^\| `([A-Z_]+)` \|", DOCUMENT.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    before, _, after = parts()
    DOCUMENT.write_text(f"{before}{table()}\n{after}")
