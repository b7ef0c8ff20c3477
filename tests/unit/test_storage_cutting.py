"""Files of CSV cut into records: what a writer that keeps TiCDC's rules has written comes back, whatever a text has."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.protocols import canal
from pipeline.protocols.csv.form import CsvForm
from pipeline.protocols.csv.lines import csv_records
from pipeline.protocols.files.cut import json_lines
from pipeline.sources.storage import cutting
from pipeline.sources.storage.cutting import is_closed
from pipeline.sources.storage.lines import first_csv_commit_ts

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


def cut(content, form=FORMS[0]):
    """The records of a content, and what is behind them."""
    records = csv_records(form, content) if form else json_lines(content)
    values = [content[start:end] for start, end in zip(records.starts, records.ends, strict=True)]
    return values, content[records.behind :]


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
    values, behind = cut(content, form)
    assert [value.decode() for value in values] == records
    assert behind == b""


def test_what_is_behind_the_last_line_end_is_no_record():
    first, second = (line(CsvForm(), "I", TS, [text]) for text in ("a", "b"))
    assert cut(f"{first}\r\n{second[:-3]}".encode()) == ([first.encode()], second[:-3].encode())
    assert cut(b"") == ([], b"")
    assert cut(b"\x00" * 10) == ([], b"\x00" * 10)


def test_a_line_end_within_a_text_that_is_cut_off_is_no_end_of_the_record():
    whole, torn = line(CsvForm(), "I", TS, ["a\r\nb"]).encode(), b'"I","t","s",450000000000000000,"a\r\n'
    assert cut(whole + b"\r\n" + torn) == ([whole], torn)
    assert cut(torn) == ([], torn)
    assert not is_closed(CsvForm(), whole + b"\r\n" + torn)
    assert is_closed(CsvForm(), whole + b"\r\n")
    assert not is_closed(CsvForm(), whole)


LINES = st.lists(st.tuples(st.sampled_from("IDP"), HOSTILE), min_size=1, max_size=12)


@pytest.mark.parametrize("form", FORMS, ids=repr)
@settings(max_examples=60)
@given(rows=LINES, block=st.integers(1, 200), torn=st.integers(0, 30))
def test_a_file_is_cut_the_same_whatever_the_blocks(form, rows, block, torn):
    lines = []
    for number, (op, text) in enumerate(rows):
        letters = "DI" if op == "P" else op
        lines += [line(form, letter, TS + number, [text], update=op == "P") for letter in letters]
    content = "".join(f"{one}{form.terminator}" for one in lines).encode()
    content = content[: len(content) - torn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", block)
        parts = list(
            cutting.pieces(lambda start, size: content[start : start + size], len(content), partial(csv_records, form))
        )
    whole, behind = cut(content, form)
    assert [value for piece in parts if not piece.fault for value in piece.records()] == whole
    assert b"".join(value for piece in parts if piece.fault for value in piece.records()) == behind


def test_what_is_no_line_of_ticdc_is_a_record_of_its_own():
    one, two = (line(CsvForm(), "I", TS, [text, None]).encode() for text in ("a\r\nno\r\n", "b"))
    assert cut(b"\r\n".join([b"junk", one, b"more", b"", two, b"x", b""]))[0] == [b"junk", one, b"more", b"", two, b"x"]


def test_a_third_line_is_no_part_of_an_update():
    old, new = (line(CsvForm(), letter, TS, ["a"], update=True).encode() for letter in "DI")
    assert cut(b"\r\n".join([old, new, new, old, new, b""]))[0] == [old + b"\r\n" + new, new, old + b"\r\n" + new]


def test_a_record_of_no_end_is_cut_into_pieces():
    content = b"x" * 1000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "BLOCK", 100)
        patch.setattr(cutting, "MOST", 250)
        parts = list(cutting.pieces(lambda start, size: content[start : start + size], 1000, json_lines))
    found = [(piece.fault, len(value)) for piece in parts for value in piece.records()]
    assert found == [*[("RECORD_TOO_LARGE", 300)] * 3, ("FILE_TRUNCATED", 100)]


def test_lines_of_json_end_with_either_line_end():
    assert cut(b'{"a":1}\r\n{}\n{', None) == ([b'{"a":1}', b"{}"], b"{")


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_lines_that_begin_otherwise_than_the_others_are_looked_at_one_by_one(form):
    like, other = (
        form.delimiter.join(f"{form.quote}{n}{form.quote}" for n in names) for names in (("t", "s"), ("table", "u"))
    )
    ends = [(str(TS), "true"), (str(TS * 10), "true"), (str(TS), "false")]
    end, cell = form.terminator, field(form, "a")
    heads = [form.delimiter.join((names, *told, cell)) for names in (like, other, "n" * 3000) for told in ends]
    records = [end.join(form.delimiter.join((field(form, op), head)) for op in "DI") for head in heads]
    content = "".join(record + end for record in records) + form.delimiter.join((field(form, "D"), "")) + end
    wanted = [part for record in records[:6] for part in ([record] if "true" in record else record.split(end))]
    assert [value.decode() for value in cut(content.encode(), form)[0]][: len(wanted)] == wanted


def test_two_lines_are_an_update_only_at_one_commit_ts():
    form = CsvForm()
    old, new = line(form, "D", TS, ["a"], update=True), line(form, "I", TS + 1, ["a"], update=True)
    assert len(cut(f"{old}\r\n{new}\r\n".encode())[0]) == 2


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_the_first_commit_ts_is_behind_the_header(form):
    row = line(form, "I", TS, ["a"])
    header = form.delimiter.join(["ticdc-meta$operation", "ticdc-meta$table", "ticdc-meta$schema", "id"])
    assert first_csv_commit_ts(form, f"{row}{form.terminator}".encode()) == TS
    assert first_csv_commit_ts(form, f"{header}{form.terminator}{row}{form.terminator}".encode()) == TS
    assert first_csv_commit_ts(form, b"") == first_csv_commit_ts(form, b"nothing of the kind") == 0


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_a_row_without_a_commit_ts_is_told_from_one_that_is_not_whole_yet(form):
    d = form.delimiter
    row = d.join([field(form, "I"), field(form, "t"), field(form, "s"), "7"])
    assert first_csv_commit_ts(form, f"{row}{form.terminator}".encode()) is None
    assert first_csv_commit_ts(form, row.encode()) == 0


@pytest.mark.parametrize("number", [1152921504606846977, 288230376151711745, 1780000000000000000, 10**14])
def test_a_large_number_in_the_first_column_is_no_commit_ts(number):
    """Ids of AUTO_RANDOM, and of Twitter's snowflakes."""
    form = CsvForm()
    row = form.delimiter.join([field(form, "I"), field(form, "t"), field(form, "s"), f"{number}", "7"])
    assert first_csv_commit_ts(form, f"{row}{form.terminator}".encode()) is None


def test_a_first_commit_ts_of_canal_json():
    row = '{"id":0,"isDdl":false,"type":"INSERT","data":[{"a":"x"}]'
    assert canal.first_commit_ts(f'{row},"_tidb":{{"commitTs":{TS}}}}}\r\n'.encode()) == TS
    assert canal.first_commit_ts(f"{row}}}\r\n".encode()) is None
    assert canal.first_commit_ts(b"") == canal.first_commit_ts(row.encode()) == 0


def test_the_commit_ts_of_a_first_row_that_is_cut_off_is_known_to_the_millisecond():
    time = TS >> 18
    for torn in (f'{{"id":0,"es":{time},"ts":1', f'{{"id":0,"es":{time},"data":[{{"a":"1"}}],"_tidb":{{"comm'):
        assert TS <= canal.first_commit_ts_at_most(torn.encode()) < time + 1 << 18
    assert canal.first_commit_ts_at_most(b'{"id":0,"_tidb":{"commitTs":7}}') == 7
    assert canal.first_commit_ts_at_most(b'{"id":0,"e') == canal.first_commit_ts_at_most(bytes(100)) == 0
