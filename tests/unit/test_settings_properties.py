"""Any text gives Settings or a SettingsError, and nothing else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SettingsError
from pipeline.settings import Settings, described, parse
from pipeline.settings.durations import seconds

GOOD = {
    "name": "shop",
    "source": {"kind": "kafka", "protocol": "avro", "bootstrap_servers": "a:1", "topics": ["t"]},
    "registry": {"url": "http://r"},
    "warehouse": {"path": "w"},
    "checkpoint": "c",
}
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from([tuple(key.path.replace("<property>", "x").split(".")) for key in described()])
YAMLISH = st.lists(
    st.sampled_from(
        [
            "name",
            "source",
            ": ",
            ":",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "&a ",
            "*a",
            "!!",
            "!x ",
            "|\n",
            ">",
            "#",
            "%YAML 1.2\n",
            "---\n",
            "...",
            "? ",
            "\\U00110000",
            "\\x00",
            "\t",
            "null",
            "~",
            "<<",
            "é",
            "\ufeff",
            "\x85",
        ]
    ),
    max_size=40,
).map("".join)


def outcome(text: str, environ: dict[str, str] | None = None) -> Settings | SettingsError:
    try:
        return parse(text, Path("/etc/shop"), environ)
    except SettingsError as error:
        str(error).encode()  # it can be printed
        return error


@given(st.text() | YAMLISH)
def test_any_text_is_settings_or_a_settings_error(text):
    assert isinstance(outcome(text), Settings | SettingsError)


@settings(max_examples=300)
@given(PATHS, VALUES)
def test_any_value_at_any_key_is_settings_or_a_settings_error(path, value):
    tree = {key: dict(inner) if isinstance(inner, dict) else inner for key, inner in GOOD.items()}
    here = tree
    for key in path[:-1]:
        here = here.setdefault(key, {})
    here[path[-1]] = value
    result = outcome(yaml.safe_dump(tree, allow_unicode=True))
    assert isinstance(result, Settings | SettingsError)
    if isinstance(result, Settings):
        assert isinstance(outcome(yaml.safe_dump(result.shown())), Settings)


@given(st.dictionaries(st.text().map(lambda name: f"TICDC_WAREHOUSE__{name}"), st.text() | YAMLISH, max_size=3))
def test_any_environment_gives_settings_or_a_settings_error(environ):
    result = outcome(yaml.safe_dump(GOOD), environ)
    assert isinstance(result, Settings if not environ else Settings | SettingsError)


@given(PATHS, st.text() | YAMLISH)
def test_any_value_of_a_known_variable_gives_settings_or_a_settings_error(path, value):
    name = "__".join(path).upper().replace("-", "_")
    assert isinstance(outcome(yaml.safe_dump(GOOD), {f"TICDC_WAREHOUSE__{name}": value}), Settings | SettingsError)


@given(st.text())
def test_a_secret_is_in_no_error(secret):
    secret = f"hunter{secret}"
    for key in ("password", "url"):
        tree = {**GOOD, "registry": {key: [secret]}, "unknown": 1}
        error = outcome(yaml.safe_dump(tree))
        assert isinstance(error, SettingsError)
        assert "hunter" not in str(error)


@given(st.text())
def test_a_duration_is_a_number_of_seconds_or_a_value_error(text):
    with contextlib.suppress(ValueError):
        assert seconds(text) >= 0
