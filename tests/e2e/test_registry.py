"""The client against a real registry, alone and behind a front that asks for TLS and a password."""
# ruff: noqa: S106 - made-up passwords are what is tested

import http.client
import itertools
import json
import random
import shutil
import socket
import ssl
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from support import certificates

from registry import (
    AuthenticationRefused,
    NotARegistry,
    RegistryClient,
    RegistryConfig,
    RegistryUnreachable,
    RequestRefused,
    SchemaNotFound,
    SubjectNotFound,
    compare,
    read_schema,
)

pytestmark = pytest.mark.e2e

GOLDEN = Path(__file__).parents[1] / "golden"
BASIC = "Basic dXNlcjpwQHNz"  # user:p@ss
NOBODY = 2_000_000_000


def golden(scenario, config):
    return json.loads((GOLDEN / scenario / f"{config}.registry.json").read_text())


def history(subject):
    return [e["schema"] for e in golden("ddl", "avro_ext_precise_long") if e["subject"] == subject]


@pytest.fixture
def name():
    return f"registry_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(stack):
    with RegistryClient(RegistryConfig(stack.registry_url, backoff_seconds=0.01)) as connected:
        yield connected


# --- the registry itself ---


def test_a_tables_history_is_registered_and_read_back(client, name):
    texts = history("tidb_d_t-value")
    ids = [client.register(f"{name}-value", text) for text in texts]
    assert len(set(ids)) == len(set(texts))
    assert client.versions(f"{name}-value")[-1] == len(set(texts))
    assert client.latest(f"{name}-value").text == texts[-1]
    assert client.version(f"{name}-value", 1).schema_id == ids[0]
    for schema_id, text in zip(ids, texts, strict=True):
        assert client.schema_text(schema_id) == text
        assert client.ticdc_schema(schema_id) == read_schema(text)


def test_the_same_text_under_another_subject_has_the_same_id(client, name):
    text = history("tidb_d_t-key")[0]
    assert client.register(f"{name}-key", text) == client.register(f"{name}_renamed-key", text)


def test_what_the_registry_does_not_know_has_its_own_error(client, name):
    with pytest.raises(SchemaNotFound):
        client.schema_text(NOBODY)
    with pytest.raises(SubjectNotFound):
        client.latest(name)
    with pytest.raises(SubjectNotFound):
        client.versions(name)
    assert client.compatibility(name) == "NONE"  # the embedded registry's own rule


def test_an_address_without_the_api_path_is_never_an_unknown_id(stack):
    base = stack.registry_url.split("/apis/")[0]
    with RegistryClient(RegistryConfig(base)) as lost, pytest.raises(NotARegistry):
        lost.schema_text(NOBODY)


def test_a_port_where_nobody_listens_is_unreachable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        config = RegistryConfig(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=2, backoff_seconds=0.01)
        with RegistryClient(config) as lost, pytest.raises(RegistryUnreachable):
            lost.schema_text(1)


# --- compatibility ---


def judged(admin, subject, rule, old, new):
    admin.register_schema(subject, Schema(old, "AVRO"))
    admin.set_compatibility(subject, rule)
    answer = admin.test_compatibility(subject, Schema(new, "AVRO"))
    admin.delete_subject(subject)
    return answer


def steps():
    """Every step of a golden DDL history in both directions, and pairs of golden types for one column."""
    for subject in ("tidb_d_t-value", "tidb_d_x2-key", "tidb_d_x2-value", "tidb_d_tz-value"):
        for old, new in itertools.pairwise(history(subject)):
            yield from ((old, new), (new, old))
    forms = {}
    for config in ("avro_noext", "avro_ext_string_string"):
        for entry in golden("all_types", config):
            for field in json.loads(entry["schema"])["fields"]:
                if not field["name"].startswith("_tidb"):
                    forms[json.dumps([field["type"], "default" in field])] = field | {"name": "c"}
    chosen = random.Random(15)  # noqa: S311 - the same pairs every time
    for old, new in (chosen.sample(list(forms.values()), 2) for _ in range(40)):
        yield one_column(old), one_column(new)


def one_column(field, table="t"):
    key = {"name": "k", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}}
    return json.dumps({"type": "record", "name": table, "namespace": "default.d", "fields": [key, field]})


def test_every_judgement_is_the_registrys_own(stack, name):
    admin = SchemaRegistryClient({"url": stack.registry_url})
    seen = set()
    for number, (old, new) in enumerate(dict.fromkeys(steps())):
        verdict = compare(read_schema(old), read_schema(new))
        for rule, said in (("BACKWARD", verdict.backward), ("FORWARD", verdict.forward)):
            found = judged(admin, f"{name}-{number}-{rule}-value", rule, old, new)
            assert found == said, (rule, verdict.sentences)
            seen.add((rule, found))
    assert len(seen) == 4  # both answers to both questions came up


def test_what_backward_refuses_stops_the_changefeeds_registration(stack, client, name):
    admin = SchemaRegistryClient({"url": stack.registry_url})
    plain = {"name": "c", "type": {"type": "int", "connect.parameters": {"tidb_type": "INT"}}, "default": 7}
    old = one_column(plain)
    new = json.loads(old)
    new["fields"].append({"name": "nn", "type": plain["type"]})
    client.register(f"{name}-value", old)
    admin.set_compatibility(f"{name}-value", "BACKWARD")
    assert client.compatibility(f"{name}-value") == "BACKWARD"
    assert "refuses" in compare(read_schema(old), read_schema(json.dumps(new))).changefeed
    with pytest.raises(RequestRefused) as refused:
        client.register(f"{name}-value", json.dumps(new))
    assert refused.value.code == "SCHEMA_INCOMPATIBLE"


# --- behind a front ---


class Front(ThreadingHTTPServer):
    """Hands requests on to the registry; may ask for a password, and fail first."""

    daemon_threads = True

    def __init__(self, upstream, password=None, failures=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.password, self.failures = urlsplit(upstream), password, failures

    def url(self, scheme="http", userinfo=""):
        return f"{scheme}://{userinfo}127.0.0.1:{self.server_port}{self.upstream.path}"

    def handle_error(self, *_):
        """A refused handshake is what is tested."""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.password is not None and self.headers.get("Authorization") != self.server.password:
            self.reply(401, b'{"error_code":40101,"message":"Unauthorized"}')
        elif self.server.failures:
            self.server.failures -= 1
            self.reply(503, b"starting")
        else:
            self.reply(*self.hand_on(body))

    def hand_on(self, body):
        upstream = http.client.HTTPConnection(self.server.upstream.netloc, timeout=10)
        headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        return answer.status, content

    def reply(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - http.server's names

    def log_message(self, *_):
        pass


@pytest.fixture
def front(stack):
    started = []

    def start(context=None, **behaviour):
        server = Front(stack.registry_url, **behaviour)
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    """An authority, a server's certificate and a client's, as PEM files."""
    return certificates.written(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def tls(pki):
    return certificates.of_server(pki)


def test_the_address_that_ticdc_is_given_works_as_it_is(front, tls, pki):
    server = front(context=tls, password=BASIC)
    config = RegistryConfig(server.url("https", "user:p%40ss@"), ca_file=str(pki / "ca.pem"))
    with RegistryClient(config) as behind:
        assert isinstance(behind.subjects(), list)
        with pytest.raises(SchemaNotFound):
            behind.schema_text(NOBODY)


def test_user_name_and_password_work_as_settings(front, name):
    server = front(password=BASIC)
    with RegistryClient(RegistryConfig(server.url(), username="user", password="p@ss")) as behind:
        schema_id = behind.register(f"{name}-key", history("tidb_d_t-key")[0])
        assert behind.ticdc_schema(schema_id).table_name == "t"


@pytest.mark.parametrize("userinfo", ["", "user:wrong@"])
def test_a_wrong_password_is_refused_at_once_and_not_shown(front, userinfo):
    config = RegistryConfig(front(password=BASIC).url(userinfo=userinfo))
    with RegistryClient(config) as behind, pytest.raises(AuthenticationRefused) as refused:
        behind.subjects()
    assert "wrong" not in str(refused.value)


def test_a_certificate_of_an_unknown_authority_is_refused_without_waiting(front, tls):
    config = RegistryConfig(front(context=tls).url("https"), backoff_seconds=30)
    began = time.monotonic()
    with RegistryClient(config) as behind, pytest.raises(RegistryUnreachable) as refused:
        behind.subjects()
    assert refused.value.code == "REGISTRY_CERTIFICATE"
    assert "ca_file" in refused.value.hint
    assert time.monotonic() - began < 10


def test_a_registry_that_asks_for_a_client_certificate_gets_one(front, tls, pki):
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(pki / "ca.pem")
    url = front(context=tls).url("https")
    ca, cert, key = (str(pki / file) for file in ("ca.pem", "client.pem", "client.key"))
    with RegistryClient(RegistryConfig(url, ca_file=ca, cert_file=cert, key_file=key)) as behind:
        assert isinstance(behind.subjects(), list)
    stranger = RegistryConfig(url, ca_file=ca, retries=0)
    with RegistryClient(stranger) as behind, pytest.raises(RegistryUnreachable):
        behind.subjects()


def test_a_registry_that_fails_twice_is_waited_for(front, caplog):
    server = front(failures=2)
    with RegistryClient(RegistryConfig(server.url(), backoff_seconds=0.01)) as behind:
        assert isinstance(behind.subjects(), list)
    assert [line.name for line in caplog.records if "attempt" in line.getMessage()] == ["registry"] * 2


def test_a_registry_that_fails_for_longer_fails_the_question_and_forgets_nothing(front, tmp_path, name):
    server = front()
    text = history("tidb_d_t-key")[0]
    with RegistryClient(RegistryConfig(server.url()), tmp_path / "ids.json") as behind:
        schema_id = behind.register(f"{name}-key", text)
        behind.schema_text(schema_id)
    kept = (tmp_path / "ids.json").read_bytes()
    server.failures = 3
    config = RegistryConfig(server.url(), retries=2, backoff_seconds=0.01)
    with RegistryClient(config, tmp_path / "ids.json") as behind:
        with pytest.raises(RegistryUnreachable):
            behind.schema_text(schema_id)
        assert (tmp_path / "ids.json").read_bytes() == kept
        assert behind.schema_text(schema_id) == text


# --- a registry that is wiped ---


def test_a_wiped_registry_reuses_ids_and_no_old_text_is_believed(stack, tmp_path, caplog):  # noqa: ARG001
    from pipeline.devstack import RegistryService  # noqa: PLC0415 - this test alone starts one of its own

    orders, users = (one_column({"name": "c", "type": plain}, table) for table, plain in TABLES.items())
    own = RegistryService(tmp_path / "registry", free_port())
    try:
        own.start()
        config = RegistryConfig(own.url)
        with RegistryClient(config, tmp_path / "ids.json") as before:
            schema_id = before.register("orders-value", orders)
            assert before.ticdc_schema(schema_id).table_name == "orders"
            assert before.subjects() == ["orders-value"]
        own.stop()
        own.start()
        with RegistryClient(config, tmp_path / "ids.json") as unchanged:
            assert unchanged.verify_cache()
        own.stop()
        shutil.rmtree(tmp_path / "registry")
        own.start()
        with RegistryClient(config, tmp_path / "ids.json") as after:
            assert after.register("users-value", users) == schema_id
            assert after.ticdc_schema(schema_id).table_name == "users"
    finally:
        own.stop()
    assert "schema cache discarded" in caplog.text


TABLES = {
    "orders": {"type": "int", "connect.parameters": {"tidb_type": "INT"}},
    "users": {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
