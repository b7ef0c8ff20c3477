"""TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket

from pipeline.errors import EnvironmentFault

HOST = "127.0.0.1"
# Below the ephemeral range: there, a client that keeps dialling a stopped broker can end up connected to
# itself, and an outgoing connection can take the port before the broker is back.
_RANGE = range(20_000, 32_000)
_TRIES = 200


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: TIME_WAIT is no obstacle
        try:
            server.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port nobody listens on."""
    for port in random.sample(_RANGE, _TRIES):
        if is_free(port):
            return port
    raise EnvironmentFault(
        "PORT_TAKEN",
        f"None of {_TRIES} ports tried between {_RANGE.start} and {_RANGE.stop} is free.",
        "Name free ones: --kafka-port and --registry-port.",
    )


def require_free(port: int, what: str, option: str) -> None:
    """Raise `EnvironmentFault` PORT_TAKEN if someone listens there."""
    if not is_free(port):
        raise EnvironmentFault(
            "PORT_TAKEN",
            f"Port {port} of {HOST}, wanted for the {what}, is taken.",
            f"Stop what listens there, name another one with {option}, or leave the option out.",
        )
