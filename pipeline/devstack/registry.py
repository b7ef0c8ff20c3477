"""A real schema registry with Confluent's API (Apicurio, H2 file storage) as a child process."""

from __future__ import annotations

import http.client
from http import HTTPStatus

from pipeline.devstack import ports
from pipeline.devstack.service import StackService
from pipeline.runtime.jars.artefacts import registry_home
from pipeline.runtime.java import find_java

_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_API = "/apis/ccompat/v7"

_PROPERTIES = {
    "quarkus.http.host": ports.HOST,
    "quarkus.management.port": 0,
    "quarkus.http.access-log.enabled": "false",
    "apicurio.datasource.jdbc.initial-size": 2,  # 20 connections by default
    "apicurio.datasource.jdbc.min-size": 2,
    "apicurio.datasource.jdbc.max-size": 20,
}


class RegistryService(StackService):
    """A registry; subjects and ids survive `stop`, `kill` and a new `start` in its folder, on any port."""

    NAME = "registry"

    @property
    def url(self) -> str:
        """Base of the Confluent API, as `registry.url` in the configuration wants it."""
        return f"http://{ports.HOST}:{self.port}{_API}"

    def launch(self) -> None:
        """Start without waiting."""
        ports.require_free(self.port, "registry", "--registry-port")
        runner = next(registry_home().glob("*-runner.jar"))
        options = [f"-D{key}={value}" for key, value in self._properties().items()]
        command = [str(find_java().executable), *_JVM, *options, "-jar", str(runner)]
        self._service.spawn(command, detached=self.detached)

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

    def _properties(self) -> dict[str, object]:
        return _PROPERTIES | {
            "quarkus.http.port": self.port,
            # WRITE_DELAY: by default a kill takes the last second of schemas along, and gives their ids again
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder.absolute()}/schemas;WRITE_DELAY=0",
        }
