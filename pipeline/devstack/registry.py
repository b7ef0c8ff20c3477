"""A real schema registry with Confluent's API (Apicurio, H2 file storage) as a child process."""

from __future__ import annotations

import http.client
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from pipeline.devstack import ports
from pipeline.runtime.jars.artefacts import registry_home
from pipeline.runtime.java import find_java
from pipeline.runtime.process import Service

if TYPE_CHECKING:
    from pathlib import Path

_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_API = "/apis/ccompat/v7"
_READY_SECONDS = 60.0

_PROPERTIES = {
    "quarkus.http.host": ports.HOST,
    "quarkus.management.port": 0,
    "quarkus.http.access-log.enabled": "false",
    "apicurio.datasource.jdbc.initial-size": 2,  # 20 connections by default
    "apicurio.datasource.jdbc.min-size": 2,
    "apicurio.datasource.jdbc.max-size": 20,
}


@dataclass
class RegistryService:
    """A registry in a folder; subjects and ids survive `stop`, `kill` and a new `start`, on any port."""

    folder: Path
    port: int
    detached: bool = False
    _service: Service = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._service = Service("registry", self.folder)

    @property
    def url(self) -> str:
        """Base of the Confluent API, as `registry.url` in the configuration wants it."""
        return f"http://{ports.HOST}:{self.port}{_API}"

    @property
    def pid(self) -> int | None:
        """The living registry; None if it does not run."""
        return self._service.pid

    @property
    def log(self) -> Path:
        """What the registry printed."""
        return self._service.log

    def start(self) -> None:
        """Start and wait until it answers. Raises `EnvironmentFault` REGISTRY_FAILED with the log's end."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start without waiting."""
        ports.require_free(self.port, "registry", "--registry-port")
        runner = next(registry_home().glob("*-runner.jar"))
        options = [f"-D{key}={value}" for key, value in self._properties().items()]
        command = [str(find_java().executable), *_JVM, *options, "-jar", str(runner)]
        self._service.spawn(command, detached=self.detached)

    def wait(self) -> None:
        """Wait until it lists its subjects. Raises `EnvironmentFault` REGISTRY_FAILED."""
        self._service.wait_until(self.is_ready, _READY_SECONDS)

    def is_ready(self) -> bool:
        """Whether `GET /subjects` is answered."""
        connection = http.client.HTTPConnection(ports.HOST, self.port, timeout=5)
        try:
            connection.request("GET", f"{_API}/subjects")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End it in order; by force if that takes too long."""
        self._service.stop()

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self._service.kill()

    def _properties(self) -> dict[str, object]:
        return _PROPERTIES | {
            "quarkus.http.port": self.port,
            # WRITE_DELAY: by default a kill takes the last second of schemas along, and gives their ids again
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder.absolute()}/schemas;WRITE_DELAY=0",
        }
