"""Files of CSV cut into records: what a writer that keeps TiCDC's rules has written comes back, whatever a text has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.protocols.csv.form import CsvForm
from pipeline.sources.storage.cutting import csv_records
from pipeline.sources.storage.source import first_commit_ts

FORMS = [
    CsvForm(),
    CsvForm(terminator="\n"),
    CsvForm(delimiter="|+|", quote="'", null="NULL"),
    CsvForm(delimiter="\t", quote="", terminator="\n"),
    CsvForm(delimiter=",", quote=""),
]
HOSTILE = st.text(st.sampled_from(",\"'\\\r\n|+IUDN1\tä"), max_size=12)
TS = 450000000000000000


def field(form, text):
    """A text as `csv_message.go` writes it."""
    if form.quote:
        return f"{form.quote}{text.replace(form.quote, form.quote * 2)}{form.quote}"
    written, at = "", 0
    while at < len(text):
        if text.startswith(form.delimiter, at):
            written += "".join(f"\\{character}" for character in form.delimiter)
            at += len(form.delimiter)
            continue
        written += {"\r": r"\r", "\n": r"\n", "\\": r"\\"}.get(text[at], text[at])
        at += 1
    return written


def line(form, op, ts, values, *, update=None):
    meta = [field(form, op), field(form, "t"), field(form, "s"), str(ts)]
    meta += [] if update is None else [str(update).lower()]
    return form.delimiter.join([*meta, *(form.null if value is None else field(form, value) for value in values)])


ROWS = st.lists(st.tuples(st.sampled_from("IDP"), st.lists(HOSTILE | st.none(), min_size=1, max_size=3)), max_size=8)


@pytest.mark.parametrize("form", FORMS, ids=repr)
@settings(max_examples=150)
@given(rows=ROWS)
def test_records_come_back_as_they_were_written(form, rows):
    end = form.terminator
    records = []
    for number, (op, values) in enumerate(rows):
        ts = TS + number
        if op == "P":  # an update with the row as it was
            pair = (line(form, letter, ts, values, update=True) for letter in "DI")
            records.append(end.join(pair))
        else:
            records.append(line(form, op, ts, values, update=False))
    content = "".join(record + end for record in records).encode()
    cut = csv_records(form)(content)
    assert [record.decode() for record in cut.records] == records
    assert cut.tail == b""


def test_what_is_behind_the_last_line_end_is_no_record():
    first, second = (line(CsvForm(), "I", TS, [text]) for text in ("a", "b"))
    cut = csv_records(CsvForm())(f"{first}\r\n{second[:-3]}".encode())
    assert (cut.records, cut.tail) == ([first.encode()], second[:-3].encode())
    assert csv_records(CsvForm())(b"") == ([], b"")
    assert csv_records(CsvForm())(b"\x00" * 10) == ([], b"\x00" * 10)


def test_two_lines_are_an_update_only_at_one_commit_ts():
    form = CsvForm()
    old, new = line(form, "D", TS, ["a"], update=True), line(form, "I", TS + 1, ["a"], update=True)
    assert len(csv_records(form)(f"{old}\r\n{new}\r\n".encode()).records) == 2


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_first_commit_ts_is_behind_the_header(form):
    row = line(form, "I", TS, ["a"])
    header = form.delimiter.join(["ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema", "id"])
    assert first_commit_ts(f"{row}{form.terminator}".encode(), form) == TS
    assert first_commit_ts(f"{header}{form.terminator}{row}{form.terminator}".encode(), form) == TS
    assert first_commit_ts(b"", form) == first_commit_ts(b"nothing of the kind", form) == 0
