"""Tables where there is no terminal: drawn by itself, as Rich would."""

import random

import pytest

from pipeline.cli import output

TITLES = ("", "tables", "a title that is wider than most", "日本")
COLUMNS = ("a", "name", "snapshot id", "日本")
CELLS = (
    "a", "日本", "é", "x y", "  before", "behind  ", "", None, 1, 2.5, True, "😀", "a\u0301", "\x07", "long " * 30,
    "[bold]x[/bold]", -3, 10**20, "a\nb", "\t",
)  # fmt: skip
NUMBERS = (1, 22, -333, 4.5)


def drawn(capsys, *table):
    output.TextOutput().table(*table)
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", range(20))
def test_a_table_is_as_rich_draws_it(seed, capsys, monkeypatch):
    dice = random.Random(seed)  # noqa: S311 - data, not secrets
    tables = []
    for _ in range(10):
        columns = [dice.choice(COLUMNS) for _ in range(dice.randint(1, 5))]
        kinds = [dice.choice((CELLS, NUMBERS)) for _ in columns]
        rows = [[dice.choice(kind) for kind in kinds] for _ in range(dice.randint(0, 5))]
        tables.append((dice.choice(TITLES), columns, rows))
    itself = [drawn(capsys, *table) for table in tables]
    monkeypatch.setattr(output, "_lines", lambda *_: None)
    assert itself == [drawn(capsys, *table) for table in tables]


def test_a_table_of_many_rows_is_not_given_to_rich(capsys, monkeypatch):
    monkeypatch.delattr(output.Table, "add_row")
    rows = [(f"shop.t{number}", number) for number in range(2_000)]
    assert len(drawn(capsys, "tables", ["table", "rows"], rows).splitlines()) == 2_002
