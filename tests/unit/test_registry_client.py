"""The client, against a small registry of our own that can fail, lie and be wiped."""
# ruff: noqa: S106 - made-up passwords are what is tested

import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
import tenacity

import registry.client
from registry import (
    AuthenticationRefused,
    NotARegistry,
    NotATicdcSchema,
    RegistryClient,
    RegistryConfig,
    RegistryError,
    RegistryUnreachable,
    RequestRefused,
    SchemaNotFound,
    SubjectNotFound,
)


def schema(table, *names):
    fields = [{"name": n, "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}} for n in names]
    return json.dumps({"type": "record", "name": table, "namespace": "default.shop", "fields": fields})


ORDERS_1, ORDERS_2, USERS = schema("orders", "id"), schema("orders", "id", "n"), schema("users", "id")


class FakeRegistry(ThreadingHTTPServer):
    """Ids count from 1 and are one per text, as Confluent's registry gives them; `answers` come first."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.wipe()
        self.answers, self.asked, self.received = [], [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/api"

    def wipe(self):
        self.texts, self.subjects, self.rules = [], {}, {"": "BACKWARD"}

    def add(self, subject, text):
        if text not in self.texts:
            self.texts.append(text)
        versions = self.subjects.setdefault(subject, [])
        if text not in versions:
            versions.append(text)
        return self.texts.index(text) + 1

    def answer(self, path, body):
        match path.removeprefix("/api/").split("/"):
            case ["schemas", "ids", number]:
                return self.text(number)
            case ["schemas", "ids", number, "versions"]:
                return 200, self.users(self.texts[int(number) - 1])
            case ["subjects"]:
                return 200, list(self.subjects)
            case ["config", *subject]:
                return self.rule("".join(subject))
            case ["subjects", subject, "versions"] if body:
                return 200, {"id": self.add(subject, body["schema"])}
            case ["subjects", subject, *rest]:
                return self.version(subject, rest)

    def users(self, text):
        return [{"subject": name, "version": 1} for name, texts in self.subjects.items() if text in texts]

    def rule(self, subject):
        if subject not in self.rules:
            return 404, {"error_code": 40408, "message": "not configured"}
        return 200, {"compatibilityLevel": self.rules[subject]}

    def text(self, number):
        if not 0 < int(number) <= len(self.texts):
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"schema": self.texts[int(number) - 1]}

    def version(self, subject, rest):
        versions = self.subjects.get(subject)
        if versions is None:
            return 404, {"error_code": 40401, "message": "Subject not found"}
        if rest == ["versions"]:
            return 200, list(range(1, len(versions) + 1))
        number = len(versions) if rest[1] == "latest" else int(rest[1])
        if number > len(versions):
            return 404, {"error_code": 40402, "message": "Version not found"}
        text = versions[number - 1]
        return 200, {"subject": subject, "version": number, "id": self.texts.index(text) + 1, "schema": text}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(path)
        self.server.received.append(self.headers)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
        status, answer = self.server.answers.pop(0) if self.server.answers else self.server.answer(path, body)
        if status is None:
            self.close_connection = True
            return
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - http.server's names

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    server = FakeRegistry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def connect(fake, cache_file=None, **changes):
    config = RegistryConfig(fake.url, **({"backoff_seconds": 0.01, "timeout_seconds": 5.0} | changes))
    return RegistryClient(config, cache_file)


# --- questions ---


def test_a_schema_is_asked_for_once(fake):
    number = fake.add("orders-value", ORDERS_1)
    with connect(fake) as client:
        assert [client.schema_text(number) for _ in range(3)] == [ORDERS_1] * 3
    assert fake.asked.count(f"/api/schemas/ids/{number}") == 1


def test_a_schema_is_read_as_columns_once(fake):
    number = fake.add("orders-value", ORDERS_2)
    with connect(fake) as client:
        assert client.ticdc_schema(number) is client.ticdc_schema(number)
        assert [c.name for c in client.ticdc_schema(number).columns] == ["id", "n"]


def test_a_schema_of_something_else_is_no_ticdc_schema_but_has_its_text(fake):
    number = fake.add("other-value", '{"type":"string"}')
    with connect(fake) as client:
        with pytest.raises(NotATicdcSchema):
            client.ticdc_schema(number)
        assert client.schema_text(number) == '{"type":"string"}'


def test_latest_is_never_a_memory(fake):
    fake.add("orders-value", ORDERS_1)
    with connect(fake) as client:
        first = client.latest("orders-value")
        fake.add("orders-value", ORDERS_2)
        second = client.latest("orders-value")
    assert (first.version, first.schema_id, first.text) == (1, 1, ORDERS_1)
    assert (second.subject, second.version, second.schema_id, second.text) == ("orders-value", 2, 2, ORDERS_2)


def test_versions_and_subjects_are_listed(fake):
    fake.add("users-value", USERS)
    fake.add("orders-value", ORDERS_1)
    fake.add("orders-value", ORDERS_2)
    with connect(fake) as client:
        assert client.subjects() == ["orders-value", "users-value"]
        assert client.versions("orders-value") == [1, 2]
        assert client.version("orders-value", 1).text == ORDERS_1


def test_a_subject_may_have_any_name(fake):
    fake.add("a/b ü?-value", USERS)
    with connect(fake) as client:
        fake.answers.append((200, [1]))
        client.versions("a/b ü?-value")
    assert fake.asked == ["/api/subjects/a/b ü?-value/versions"]  # unquoted again by the server


def test_registering_gives_the_id_and_after_a_wipe_a_new_one(fake):
    with connect(fake) as client:
        assert client.register("users-value", USERS) == 1
        assert client.register("orders-value", ORDERS_1) == 2
        assert client.register("orders-value", ORDERS_1) == 2
        fake.wipe()
        assert client.register("orders-value", ORDERS_1) == 1
    assert fake.subjects == {"orders-value": [ORDERS_1]}


def test_the_rule_of_a_subject_is_its_own_or_the_registrys_or_unknown(fake):
    fake.rules["orders-value"] = "NONE"
    with connect(fake) as client:
        assert client.compatibility("orders-value") == "NONE"
        assert client.compatibility("users-value") == "BACKWARD"
        assert [client.rule("orders-value"), client.rule("users-value"), client.rule()] == ["NONE", None, "BACKWARD"]
        del fake.rules[""]
        assert client.compatibility("users-value") is None


# --- what is not there ---


def test_an_id_that_is_not_there_is_remembered_for_a_moment_only(fake, monkeypatch):
    with connect(fake) as client:
        for _ in range(3):
            with pytest.raises(SchemaNotFound):
                client.schema_text(1)
        assert len(fake.asked) == 1
        fake.add("orders-value", ORDERS_1)  # the replica catches up
        later = time.monotonic() + registry.client.MISSING_SECONDS
        monkeypatch.setattr(registry.client, "time", SimpleNamespace(monotonic=lambda: later))
        assert client.schema_text(1) == ORDERS_1


@pytest.mark.parametrize("number", [0, -1, 2**31, 2**32 - 1])
def test_a_number_that_no_registry_gives_is_not_even_asked_for(fake, number):
    with connect(fake) as client, pytest.raises(SchemaNotFound):
        client.schema_text(number)
    assert fake.asked == []


def test_what_is_not_there_has_its_own_error_and_is_not_retried(fake):
    fake.add("orders-value", ORDERS_1)
    with connect(fake) as client:
        for question in (
            lambda: client.latest("nobody-value"),
            lambda: client.versions("nobody-value"),
            lambda: client.version("orders-value", 9),
        ):
            with pytest.raises(SubjectNotFound):
                question()
    assert len(fake.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        (404, b"<html>nginx</html>"),
        (404, {"title": "Could not find resource", "status": 404}),
        (404, []),
        (200, b"<html>Please log in</html>"),
        (200, b""),
        (200, b"[]"),
        (200, b"{}"),
        (200, {"schema": 7}),
        (302, b""),
        (204, b""),
    ],
    ids=repr,
)
def test_a_page_that_is_no_registrys_is_never_taken_for_an_unknown_id(fake, answer):
    fake.answers.append(answer)
    with connect(fake) as client, pytest.raises(NotARegistry) as refused:
        client.schema_text(1)
    assert refused.value.code == "NOT_A_REGISTRY"
    assert len(fake.asked) == 1


# --- what fails ---


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_registry_that_fails_twice_and_then_answers_is_waited_for_and_logged(fake, caplog, status):
    fake.add("orders-value", ORDERS_1)
    fake.answers += [(status, {"error_code": 50001, "message": "busy"})] * 2
    with connect(fake) as client, caplog.at_level(logging.WARNING, logger="registry"):
        assert client.schema_text(1) == ORDERS_1
    assert [line.getMessage().split(":")[0] for line in caplog.records] == [
        "attempt 1 of 6",
        "attempt 2 of 6",
    ]


def test_a_connection_that_breaks_is_tried_again(fake):
    fake.add("orders-value", ORDERS_1)
    fake.answers += [(None, None)] * 2
    with connect(fake) as client:
        assert client.schema_text(1) == ORDERS_1


def test_after_the_last_retry_the_registry_is_unreachable(fake):
    fake.answers += [(503, b"down for maintenance")] * 10
    with connect(fake, retries=2) as client, pytest.raises(RegistryUnreachable) as failed:
        client.schema_text(1)
    assert failed.value.code == "REGISTRY_UNREACHABLE"
    assert "503" in failed.value.message
    assert len(fake.asked) == 3


def test_nobody_listening_is_unreachable(fake):
    fake.server_close()
    with connect(fake, retries=1) as client, pytest.raises(RegistryUnreachable) as failed:
        client.schema_text(1)
    assert fake.url in failed.value.message


def test_an_answer_that_never_comes_is_unreachable(fake):
    fake.shutdown()  # still listening, nobody accepts
    with (
        connect(fake, retries=0, timeout_seconds=0.1) as client,
        pytest.raises(RegistryUnreachable) as failed,
    ):
        client.schema_text(1)
    assert "Timeout" in failed.value.message


def test_an_unreachable_registry_is_not_remembered_as_a_missing_id(fake):
    fake.add("orders-value", ORDERS_1)
    fake.answers.append((503, b""))
    with connect(fake, retries=0) as client:
        with pytest.raises(RegistryUnreachable):
            client.schema_text(1)
        assert client.schema_text(1) == ORDERS_1


def test_waits_grow(fake, monkeypatch):
    waits = []  # of this client: other threads of the process sleep as well
    monkeypatch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=waits.append))
    fake.answers += [(503, b"")] * 6
    with connect(fake, backoff_seconds=1.0) as client, pytest.raises(RegistryUnreachable):
        client.schema_text(1)
    assert [1 <= waits[0] < 2, 2 <= waits[1] < 3, 4 <= waits[2] < 5, 8 <= waits[3] < 9] == [True] * 4
    assert len(waits) == 5
    assert waits[4] < 21


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_refused_login_is_not_retried(fake, status):
    fake.answers.append((status, {"error_code": status, "message": "Unauthorized"}))
    with connect(fake) as client, pytest.raises(AuthenticationRefused) as refused:
        client.schema_text(1)
    assert refused.value.code == "REGISTRY_AUTHENTICATION"
    assert len(fake.asked) == 1


def test_an_incompatible_schema_is_refused_with_the_registrys_words(fake):
    fake.answers.append((409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE"}))
    with connect(fake) as client, pytest.raises(RequestRefused) as refused:
        client.register("orders-value", ORDERS_2)
    assert refused.value.code == "SCHEMA_INCOMPATIBLE"
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in refused.value.message


def test_an_answer_of_a_megabyte_makes_no_message_of_a_megabyte(fake):
    fake.answers.append((422, {"error_code": 42201, "message": "x" * 1_000_000}))
    with connect(fake) as client, pytest.raises(RequestRefused) as refused:
        client.register("orders-value", ORDERS_2)
    assert refused.value.code == "REGISTRY_REFUSED"
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("answer", [(401, b""), (404, b""), (422, b""), (503, b""), (200, b"x"), (None, None)])
def test_no_error_shows_a_secret(fake, caplog, answer):
    fake.answers += [answer] * 2
    config = RegistryConfig(
        fake.url.replace("//", "//user:s3cr%3At@"),
        headers={"X-Key": "s3cr:t"},
        retries=1,
        backoff_seconds=0.01,
    )
    with RegistryClient(config) as client, pytest.raises(RegistryError) as failed:
        client.schema_text(1)
    shown = f"{failed.value!r}{failed.value}{caplog.text}{config}"
    assert "s3cr" not in shown


# --- what is sent ---


def test_credentials_and_headers_are_sent_with_every_request(fake):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, username="us", password="pä:ss", headers={"X-Tenant": "7"}) as client:
        client.schema_text(1)
        client.register("orders-value", ORDERS_2)
    assert {headers["X-Tenant"] for headers in fake.received} == {"7"}
    assert {headers["Authorization"] for headers in fake.received} == {"Basic dXM6cMOkOnNz"}


def test_the_second_url_answers_where_the_first_does_not(fake):
    fake.add("orders-value", ORDERS_1)
    config = RegistryConfig(f"http://127.0.0.1:1/api,{fake.url}", retries=0)
    with RegistryClient(config) as client:
        assert client.schema_text(1) == ORDERS_1


# --- ids that survive a restart ---


def restarted(fake, path):
    fake.asked.clear()
    return connect(fake, path)


def test_a_restart_compares_one_id_and_asks_for_nothing_else(fake, tmp_path):
    for text in (ORDERS_1, ORDERS_2, schema("orders", "id", "n", "m")):
        fake.add("orders-value", text)
    with connect(fake, tmp_path / "ids.json") as client:
        texts = [client.schema_text(number) for number in (1, 2, 3)]
    with restarted(fake, tmp_path / "ids.json") as client:
        assert client.verify_cache()
        assert [client.schema_text(number) for number in (1, 2, 3)] == texts
    assert fake.asked == ["/api/schemas/ids/1", "/api/schemas/ids/3"]  # oldest and newest of the subject


def test_a_registry_that_prints_its_schemas_anew_is_still_the_same(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, tmp_path / "ids.json") as client:
        client.schema_text(1)
    told = json.loads(ORDERS_1)
    full_name = f"{told.pop('namespace')}.{told['name']}"
    fake.texts = [json.dumps({**dict(sorted(told.items())), "name": full_name})]
    with restarted(fake, tmp_path / "ids.json") as client:
        assert client.verify_cache()


def test_a_wiped_registry_reuses_ids_and_the_old_texts_are_discarded(fake, tmp_path, caplog):
    fake.add("orders-value", ORDERS_1)
    fake.add("users-value", USERS)
    with connect(fake, tmp_path / "ids.json") as client:
        assert client.schema_text(1) == ORDERS_1
    fake.wipe()
    fake.add("users-value", USERS)
    fake.add("orders-value", ORDERS_1)
    with restarted(fake, tmp_path / "ids.json") as client:
        assert not client.verify_cache()
        assert not (tmp_path / "ids.json").exists()
        assert client.schema_text(1) == USERS
        assert client.ticdc_schema(2).table_name == "orders"
    assert "schema cache discarded" in caplog.text
    assert "schema 1" in caplog.text


def test_the_comparison_happens_even_if_nobody_asks_for_it(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, tmp_path / "ids.json") as client:
        client.ticdc_schema(1)
    fake.wipe()
    fake.add("users-value", USERS)
    with restarted(fake, tmp_path / "ids.json") as client:
        assert client.ticdc_schema(1).table_name == "users"


def test_one_subject_that_differs_discards_all(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    fake.add("users-value", USERS)
    with connect(fake, tmp_path / "ids.json") as client:
        assert client.schema_text(1), client.schema_text(2)
        client.schema_text(2)
    fake.texts[1] = schema("another", "id")
    with restarted(fake, tmp_path / "ids.json") as client:
        assert not client.verify_cache()
        assert client.schema_text(1) == ORDERS_1
    assert fake.asked.count("/api/schemas/ids/1") == 2  # compared, then fetched anew


def test_an_oldest_id_that_differs_is_seen_though_the_newest_agrees(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    fake.add("orders-value", ORDERS_2)
    with connect(fake, tmp_path / "ids.json") as client:
        assert client.schema_text(1) != client.schema_text(2)
    fake.texts[0] = USERS
    with restarted(fake, tmp_path / "ids.json") as client:
        assert client.schema_text(1) == USERS


def test_a_registry_that_lost_everything_discards_the_ids(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, tmp_path / "ids.json") as client:
        client.schema_text(1)
    fake.wipe()
    with restarted(fake, tmp_path / "ids.json") as client, pytest.raises(SchemaNotFound):
        client.schema_text(1)


def test_a_registry_that_cannot_be_asked_keeps_the_ids_and_trusts_none(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, tmp_path / "ids.json") as client:
        client.schema_text(1)
    fake.answers += [(503, b"")] * 2
    with RegistryClient(RegistryConfig(fake.url, retries=0), tmp_path / "ids.json") as client:
        with pytest.raises(RegistryUnreachable):
            client.schema_text(1)
        with pytest.raises(RegistryUnreachable):
            client.verify_cache()
        assert (tmp_path / "ids.json").exists()
        assert client.verify_cache()
        assert client.schema_text(1) == ORDERS_1


def test_a_wipe_while_running_is_seen_when_asked(fake):
    fake.add("orders-value", ORDERS_1)
    with connect(fake) as client:
        assert client.ticdc_schema(1).table_name == "orders"
        fake.wipe()
        fake.add("users-value", USERS)
        assert not client.verify_cache()
        assert client.ticdc_schema(1).table_name == "users"


def test_ids_of_another_registry_are_discarded_with_a_line(fake, tmp_path, caplog):
    fake.add("orders-value", ORDERS_1)
    with connect(fake, tmp_path / "ids.json") as client:
        client.schema_text(1)
    moved = RegistryConfig(fake.url.replace("127.0.0.1", "localhost"))
    fake.asked.clear()
    with RegistryClient(moved, tmp_path / "ids.json") as client:
        client.schema_text(1)
    assert "discarded" in caplog.text
    assert fake.asked[0] == "/api/schemas/ids/1"


@pytest.mark.parametrize("refusal", [(403, b""), (404, b"no such page"), (404, {"error_code": 40403})])
def test_a_registry_that_does_not_tell_subjects_is_compared_id_by_id(fake, tmp_path, refusal):
    fake.add("orders-value", ORDERS_1)
    fake.add("orders-value", ORDERS_2)
    fake.add("orders-value", USERS)
    with connect(fake, tmp_path / "ids.json") as client:
        for number, text in enumerate(fake.texts, start=1):
            fake.answers += [(200, {"schema": text}), refusal]
            client.schema_text(number)
    with restarted(fake, tmp_path / "ids.json") as client:
        assert client.verify_cache()
    assert fake.asked == [f"/api/schemas/ids/{number}" for number in (1, 2, 3)]


def test_the_file_holds_no_secret(fake, tmp_path):
    fake.add("orders-value", ORDERS_1)
    config = RegistryConfig(fake.url.replace("//", "//user:s3cret@"), headers={"X-Key": "s3cret"})
    with RegistryClient(config, tmp_path / "ids.json") as client:
        client.schema_text(1)
    assert "s3cret" not in (tmp_path / "ids.json").read_text()


def test_threads_share_a_client(fake):
    for number in range(20):
        fake.add(f"t{number}-value", schema(f"t{number}", "id"))
    found = {}
    with connect(fake) as client:
        threads = [
            threading.Thread(target=lambda n=n: found.update({n: client.ticdc_schema(n % 20 + 1).table_name}))
            for n in range(100)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {n: f"t{n % 20}" for n in range(100)}
