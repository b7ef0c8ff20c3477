"""A look at Kafka's port if Kafka's client only says that no broker answered.

A client without TLS at a port for TLS, or the other way round, gets `Timed out waiting for a node assignment` from
Java's client, as if the broker were down. A connection of our own finds the cause.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

_SECONDS = 3.0
_TLS = ("SSL", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class PortAnswer:
    """What was seen at the port, as a clause of a sentence, and what to do."""

    clause: str
    todo: str


def seen(servers: str, protocol: str) -> PortAnswer | None:
    """Look at the first of `host:port,…`; `protocol`: the client's `security.protocol`.

    None: nothing was seen that explains it.
    """
    server = servers.split(",", maxsplit=1)[0].strip().rpartition("//")[2]
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as connection:
            speaks = _speaks_tls(connection)
    except socket.gaierror:
        return PortAnswer(
            f"this machine does not find an address for {host}",
            "look at the names in source.bootstrap_servers, and at this machine's DNS",
        )
    except (OSError, ValueError, OverflowError):
        return PortAnswer(
            f"{server} does not accept connections", "check source.bootstrap_servers, and that the broker runs"
        )
    if speaks and protocol.upper() not in _TLS:
        secure = "SASL_SSL" if protocol.upper().startswith("SASL") else "SSL (or SASL_SSL, with a user)"
        return PortAnswer(
            f"{server} speaks TLS, and this client does not",
            f"set kafka.security.protocol in source.options to {secure}, or name the broker's port without TLS",
        )
    if not speaks and protocol.upper() in _TLS:
        return PortAnswer(
            f"{server} takes connections, but does not speak TLS, which kafka.security.protocol {protocol} needs",
            "name the broker's TLS port, or set kafka.security.protocol in source.options to what this port speaks",
        )
    return None


def _speaks_tls(connection: socket.socket) -> bool:
    """Whether a handshake is answered; whose certificate it is does not matter here, nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with context.wrap_socket(connection):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "").upper()  # it wants our certificate, or another version: in TLS's words
    except OSError:
        return False
