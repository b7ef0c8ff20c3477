"""What a look at Kafka's port says where Kafka's client only says that nobody answered."""

import socket
import ssl
import threading

import pytest

from pipeline.sources.kafka import ports


@pytest.fixture
def listener():
    """A port that takes connections; `answer` gets each."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(answer):
            def take():
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    answer(connection)

            threading.Thread(target=take, daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield serve


def closes(connection):
    """As Kafka does with what is no request of its protocol."""
    connection.recv(1000)
    connection.close()


def with_tls(connection, *, asks_for_certificate=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if asks_for_certificate:
        context.set_ciphers("aNULL:@SECLEVEL=0")  # nothing that a client would agree to: the answer is an alert
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    else:
        context.set_ciphers("ALL:aNULL:@SECLEVEL=0")
    try:
        context.wrap_socket(connection, server_side=True)
    except (ssl.SSLError, OSError):
        connection.close()


def test_a_host_without_an_address():
    found = ports.seen("nowhere.invalid:9092", "PLAINTEXT")
    assert found.clause == "this machine does not find an address for nowhere.invalid"


def test_a_port_at_which_nothing_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "does not accept connections" in ports.seen(f"127.0.0.1:{port},other:1", "PLAINTEXT").clause


def test_a_port_for_tls_and_a_client_without(listener):
    where = listener(lambda connection: with_tls(connection, asks_for_certificate=True))
    found = ports.seen(f"SSL://{where}", "PLAINTEXT")
    assert "speaks TLS, and this client does not" in found.clause
    assert "kafka.security.protocol" in found.todo
    assert "SASL_SSL" in ports.seen(where, "SASL_PLAINTEXT").todo
    assert ports.seen(where, "SSL") is None


def test_a_port_without_tls_and_a_client_with(listener):
    where = listener(closes)
    assert "does not speak TLS" in ports.seen(where, "sasl_ssl").clause
    assert ports.seen(where, "PLAINTEXT") is None
