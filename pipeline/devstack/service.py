"""What the broker and the registry have in common: a child process with a folder and a port."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pipeline.runtime.process import Service

if TYPE_CHECKING:
    from pathlib import Path

_READY_SECONDS = 60.0


@dataclass
class StackService(ABC):
    """A service in a folder; what it keeps survives `stop`, `kill` and another `start` there, on any port."""

    NAME: ClassVar[str]
    """Of its log and its pid file, and of its errors: `<NAME>_FAILED`."""

    folder: Path
    port: int
    detached: bool = False
    _service: Service = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._service = Service(self.NAME, self.folder)

    @property
    def pid(self) -> int | None:
        """The living process; None if it does not run."""
        return self._service.pid

    @property
    def log(self) -> Path:
        """What it printed."""
        return self._service.log

    def start(self) -> None:
        """Start and wait until it answers. Raises `EnvironmentFault` `<NAME>_FAILED` with the log's end."""
        self.launch()
        self.wait()

    @abstractmethod
    def launch(self) -> None:
        """Start without waiting."""

    def wait(self) -> None:
        """Wait until `is_ready`. Raises `EnvironmentFault` `<NAME>_FAILED`."""
        self._service.wait_until(self.is_ready, _READY_SECONDS)

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    def stop(self) -> None:
        """End it in order; by force if that takes too long."""
        self._service.stop()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self._service.kill()
