"""Broker and registry together, in one folder: for the demo, for tests, for `ticdc-warehouse devstack`."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pipeline.devstack import ports
from pipeline.devstack.broker import Broker
from pipeline.devstack.registry import RegistryService
from pipeline.errors import EnvironmentFault
from pipeline.runtime.jars.artefacts import fetch
from pipeline.runtime.java import find_java

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_STATE = "devstack.json"
_TRIES = 3


@dataclass(frozen=True)
class Devstack:
    """A broker and a registry that share a folder. As a context manager it stops both at the end.

    Not detached: both die with this process, even when it is killed. Detached: they outlive it, and
    `Devstack.at` finds them again.
    """

    folder: Path
    broker: Broker
    registry: RegistryService

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        kafka_port: int | None = None,
        registry_port: int | None = None,
        detached: bool = False,
    ) -> Self:
        """Start both side by side, on free ports unless given, and wait until both answer.

        What the folder holds already stays. Raises `EnvironmentFault`: PORT_TAKEN, DEVSTACK_RUNNING,
        BROKER_FAILED, REGISTRY_FAILED, and those of `fetch`.
        """
        find_java()
        fetch()
        chosen = (kafka_port, registry_port)
        for _ in range(_TRIES - 1 if None in chosen else 0):
            try:
                return cls._start(folder, *chosen, detached=detached)
            except EnvironmentFault as fault:  # another process took the free port in the meantime
                if fault.code not in {"BROKER_FAILED", "REGISTRY_FAILED"}:
                    raise
        return cls._start(folder, *chosen, detached=detached)

    @classmethod
    def _start(cls, folder: Path, kafka_port: int | None, registry_port: int | None, *, detached: bool) -> Self:
        stack = cls._of(folder, kafka_port or ports.free_port(), registry_port or ports.free_port(), detached=detached)
        if stack.keeps_running():
            raise EnvironmentFault(
                "DEVSTACK_RUNNING",
                f"A devstack runs in {folder} already.",
                "Stop it with `ticdc-warehouse devstack down`, or take another folder.",
            )
        stack.save()  # first: whoever is killed from here on leaves something that `down` finds
        with ExitStack() as undo:
            undo.callback(stack.stop)
            stack.registry.launch()
            stack.broker.launch()
            stack.broker.wait()
            stack.registry.wait()
            undo.pop_all()
        return stack

    @classmethod
    def at(cls, folder: Path) -> Self | None:
        """Return the devstack last started in this folder, running or not; None if there never was one."""
        try:
            state = json.loads((folder / _STATE).read_text())
        except FileNotFoundError:
            return None
        return cls._of(folder, state["kafka_port"], state["registry_port"], detached=True)

    @property
    def bootstrap_servers(self) -> str:
        """`source.bootstrap_servers` of a pipeline on this stack."""
        return self.broker.bootstrap_servers

    @property
    def registry_url(self) -> str:
        """`registry.url` of a pipeline on this stack."""
        return self.registry.url

    @property
    def is_running(self) -> bool:
        """Whether any of the two lives."""
        return self.broker.pid is not None or self.registry.pid is not None

    def keeps_running(self, seconds: float = 1.0) -> bool:
        """Whether any of the two still lives after a while: a killed one takes a moment to be gone."""
        deadline = time.monotonic() + seconds
        while self.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.is_running

    def stop(self) -> None:
        """End both, in order if they let us, by force otherwise."""
        self.broker.stop()
        self.registry.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @classmethod
    def _of(cls, folder: Path, kafka_port: int, registry_port: int, *, detached: bool) -> Self:
        folder = folder.absolute()
        broker = Broker(folder / "broker", kafka_port, detached)
        return cls(folder, broker, RegistryService(folder / "registry", registry_port, detached))

    def save(self) -> None:
        """Leave the ports in the folder for `Devstack.at`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"kafka_port": self.broker.port, "registry_port": self.registry.port}
        (self.folder / _STATE).write_text(json.dumps(state))
