"""Rows of which a message has the key alone, as a server of MySQL's protocol gives them (`upstream`)."""

import json
import socket
import ssl
import threading
import time
from contextlib import closing, suppress

import pytest
from support import certificates
from support.tidb import PASSWORD, USER, Tables, served

from pipeline.model.large_rows import Message
from pipeline.model.source_values import UpstreamColumn
from pipeline.protocols.canal.by_key import CanalKeyRows
from pipeline.protocols.large import upstream as module
from pipeline.protocols.large.form import LargeMessages
from pipeline.protocols.large.upstream import Asked, Upstream

TS = 450_000_000_000_000_001
TABLE = ("shop", "d`oc%s")
COLUMNS = (
    UpstreamColumn("id", "bigint", "bigint(20)", nullable=False),
    UpstreamColumn("k", "varbinary", "varbinary(8)", nullable=False),
    UpstreamColumn("f", "float", "float", nullable=False),
    UpstreamColumn("e", "enum", "enum('a','it''s')", nullable=False, has_charset=True),
    UpstreamColumn("100%", "text", "text", has_charset=True),
)
KEY = {"id": "9007199254740993", "k": "\x00\xff'", "f": "0.1", "e": "2"}
FORM = LargeMessages("head", "row", ("schema", "table", "commit_ts"), CanalKeyRows())


@pytest.fixture
def tables():
    return Tables({TABLE: COLUMNS})


@pytest.fixture
def ask(tables):
    """Ask a server for whole messages; the server's port is free again then."""

    def whole(*asked, context=None, **changes):
        with served(tables, context) as port:
            given = Upstream("127.0.0.1", port, **{"user": USER, "password": PASSWORD, **changes})
            with closing(given.session()) as session:
                return [made(one) for one in session.messages(asked, FORM)]

    return whole


def made(message):
    """A message as JSON, or the code that a mark tells."""
    value = message.value.decode()
    return json.loads(value) if value.startswith("{") else value.partition(":")[2]


def cells(text, key=KEY):
    """A row as the text protocol gives it."""
    value = None if text is None else text.encode()
    return {"id": key["id"].encode(), "k": key["k"].encode("latin-1"), "f": b"0.10000000149011612", "e": b"it's"} | {
        "100%": value
    }


def sent(kind="INSERT", key=KEY, ts=TS, table=TABLE, **changes):
    """A message of Canal-JSON that has a key alone."""
    message = {
        "id": 0, "database": table[0], "table": table[1], "pkNames": list(key), "isDdl": False, "type": kind, "es": 1,
        "ts": 2, "sql": "", "sqlType": dict.fromkeys(key, 4), "mysqlType": dict.fromkeys(key, "int"), "old": None,
        "data": [key], "_tidb": {"commitTs": ts, "onlyHandleKey": True},
    } | changes  # fmt: skip
    return Asked(Message(None, json.dumps(message).encode()), *table, ts)


class TestRows:
    def test_a_row_is_as_it_was_at_its_commit_ts(self, tables, ask):
        for ts, text in ((TS - 5, "before"), (TS, "now"), (TS + 1, "later")):
            tables.put(TABLE, ts, 1, cells(text))
        (message,) = ask(sent())
        assert message["data"] == [{**KEY, "100%": "now"}]
        assert message["_tidb"] == {"commitTs": TS}
        assert message["mysqlType"] == {
            "id": "bigint", "k": "varbinary", "f": "float", "e": "enum", "100%": "text"
        }  # fmt: skip

    def test_an_update_has_the_row_before_and_a_delete_has_that_alone(self, tables, ask):
        tables.put(TABLE, TS - 5, 1, cells("before"))
        tables.put(TABLE, TS, 1, cells("now"))
        tables.put(TABLE, TS + 9, 1, None)
        update, delete = ask(sent("UPDATE", old=[{}]), sent("DELETE", ts=TS + 9))
        assert (update["data"], update["old"]) == ([{**KEY, "100%": "now"}], [{**KEY, "100%": "before"}])
        assert (delete["data"], delete["old"]) == ([{**KEY, "100%": "now"}], None)

    def test_all_keys_of_a_table_and_a_commit_ts_are_one_select(self, tables, ask):
        keys = [{**KEY, "id": str(number)} for number in range(50)]
        for number, key in enumerate(keys):
            tables.put(TABLE, TS, number, cells(f"row {number}", key))
        messages = ask(*(sent(key=key) for key in keys), sent(key=keys[0], ts=TS + 1))
        assert [one["data"][0]["100%"] for one in messages] == [*(f"row {number}" for number in range(50)), "row 0"]
        asked = [one for one in tables.statements if one.startswith("SELECT") and "information_schema" not in one]
        assert len(asked) == 2

    def test_nothing_is_sent_but_select_and_set(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now"))
        ask(sent(), sent("DELETE"), sent(table=("shop", "gone")))
        assert {one.split()[0].upper() for one in tables.statements} == {"SELECT", "SET"}
        assert PASSWORD not in str(Upstream("h", 1, USER, PASSWORD))


def _answer_rubbish(listening):
    with suppress(OSError):  # until the test ends
        while True:
            connection, _ = listening.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
            connection.close()


class TestRefusals:
    def test_a_row_or_a_table_that_is_not_there_is_said(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now"))
        there, gone, no_table, too_early = ask(
            sent(), sent(key={**KEY, "id": "2"}), sent(table=("shop", "gone")), sent("UPDATE")
        )
        assert there["data"]
        assert (gone, no_table, too_early) == ("UPSTREAM_ROW_MISSING",) * 3

    def test_what_garbage_collection_has_taken_is_said_of_that_commit_ts_alone(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now"))
        tables.collected_up_to = TS + 1
        early, late = ask(sent(), sent(ts=TS + 2))
        assert early == "UPSTREAM_GC"
        assert late["data"]

    @pytest.mark.parametrize(
        "key",
        [
            {**KEY, "id": "1) OR (1=1"},
            {**KEY, "id": 7},
            {**KEY, "id": None},
            {**KEY, "k": "€"},
            {**KEY, "e": "3"},
            {**KEY, "x": "1"},
            {},
        ],
    )
    def test_a_damaged_key_takes_no_other_row_with_it(self, tables, ask, key):
        tables.put(TABLE, TS, 1, cells("now"))
        damaged, whole = ask(sent(key=key), sent())
        assert damaged == "UPSTREAM_ROW_UNREADABLE"
        assert whole["data"]

    def test_a_key_that_several_rows_have_is_of_none(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("one"))
        tables.put(TABLE, TS, 2, cells("two", {**KEY, "id": "2"}))
        assert ask(sent(key={"e": "2"})) == ["UPSTREAM_ROW_MISSING"]

    def test_a_value_that_its_column_cannot_have_is_said(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now") | {"f": b"no number"})
        tables.columns[TABLE] = (*COLUMNS[:2], COLUMNS[4], UpstreamColumn("f", "int", "int(11)"))
        assert ask(sent(key={"id": KEY["id"], "k": KEY["k"]})) == ["UPSTREAM_ROW_UNREADABLE"]

    def test_a_table_that_the_user_may_not_read_is_said_and_others_are_read(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now"))
        hidden = ("shop", "salaries")
        tables.columns[hidden], tables.hidden = COLUMNS, {hidden}
        denied, there = ask(sent(table=hidden), sent())
        assert denied == "UPSTREAM_FORBIDDEN"
        assert there["data"]

    def test_a_user_that_is_denied_is_denied_for_all(self, tables, ask):
        assert ask(sent(), sent(ts=TS + 1), password="wrong") == ["UPSTREAM_FORBIDDEN"] * 2  # noqa: S106 - of a test
        assert tables.statements == []

    def test_a_server_of_another_protocol_gives_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=_answer_rubbish, args=(listening,), daemon=True).start()
            with closing(Upstream("127.0.0.1", listening.getsockname()[1], USER, PASSWORD).session()) as session:
                assert made(next(session.messages([sent()], FORM))).startswith("UPSTREAM_")

    def test_a_file_of_certificates_that_is_not_there_is_said_at_once(self, tmp_path):
        begin = time.monotonic()
        with closing(Upstream("127.0.0.1", 1, USER, PASSWORD, ca_file=str(tmp_path / "no")).session()) as session:
            assert made(next(session.messages([sent()], FORM))) == "UPSTREAM_UNTRUSTED"
        assert time.monotonic() - begin < 5

    @pytest.mark.parametrize("changes", [{"user": "nobody"}, {"password": "wrong"}])
    def test_a_user_that_is_not_known_is_refused(self, ask, changes):
        assert ask(sent(), **changes) == ["UPSTREAM_FORBIDDEN"]

    def test_a_server_that_is_no_tidb_is_said(self, tables, ask):
        tables.is_tidb = False
        assert ask(sent()) == ["UPSTREAM_NOT_TIDB"]

    def test_a_connection_that_breaks_is_made_again(self, tables, ask):
        tables.put(TABLE, TS, 1, cells("now"))
        tables.breaks = 2
        (message,) = ask(sent())
        assert message["data"]

    def test_a_server_that_is_slow_or_gone_is_given_up_after_a_while(self, tables, ask, monkeypatch):
        monkeypatch.setattr(module, "_ANSWERING", 1)
        monkeypatch.setattr(module, "_RETRIES", module._RETRIES.copy(stop=module.stop_after_delay(1)))
        tables.pause = 30
        begin = time.monotonic()
        assert ask(sent(), sent(ts=TS + 1)) == ["UPSTREAM_UNREACHABLE"] * 2
        with closing(Upstream("127.0.0.1", 1, USER, PASSWORD).session()) as session:
            assert [made(one) for one in session.messages([sent()], FORM)] == ["UPSTREAM_UNREACHABLE"]
        assert time.monotonic() - begin < 20


@pytest.fixture
def slow_to_encrypt(monkeypatch):
    """The test's server loses what comes together with the request for TLS."""
    wrap = ssl.SSLContext.wrap_socket

    def wrapped(*given, **named):
        time.sleep(0.2)
        return wrap(*given, **named)

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrapped)


@pytest.mark.usefixtures("slow_to_encrypt")
class TestTls:
    @pytest.fixture(scope="class")
    def pki(self, tmp_path_factory):
        return certificates.written(tmp_path_factory.mktemp("pki"))

    def test_the_servers_name_is_checked_with_a_ca(self, tables, ask, pki):
        tables.put(TABLE, TS, 1, cells("now"))
        server = certificates.of_server(pki)
        (message,) = ask(sent(), context=server, ca_file=str(pki / "ca.pem"))
        assert message["data"]
        assert tables.encrypted == [True]
        (refused,) = ask(sent(), context=server, ca_file=str(pki / "client.pem"))
        assert refused == "UPSTREAM_UNTRUSTED"

    def test_a_server_without_tls_is_refused_with_a_ca_and_taken_without(self, tables, ask, pki):
        tables.put(TABLE, TS, 1, cells("now"))
        assert ask(sent(), ca_file=str(pki / "ca.pem")) == ["UPSTREAM_UNTRUSTED"]
        assert ask(sent())[0]["data"]
        assert ask(sent(), context=certificates.of_server(pki))[0]["data"]
        assert tables.encrypted == [False, True]
