"""Where a task's command runs: in another environment of this machine, in a container, on a Spark cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAMED = "--name=ticdc-warehouse-try-"


def container(line: Sequence[str]) -> str:
    """The name of the container that a command line of `Docker` starts; nothing for another command line."""
    return next((word.removeprefix("--name=") for word in line if word.startswith(_NAMED)), "")


class Execution(Protocol):
    """Makes a command line of the words after `ticdc-warehouse`."""

    def command(self, words: Sequence[str], environment: Sequence[str]) -> list[str]:
        """The command line; `environment`: names of the variables that the command is to see."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """On the worker's machine, by an environment of its own: Airflow's packages and Spark's do not go together."""

    executable: str = "ticdc-warehouse"

    def command(self, words: Sequence[str], environment: Sequence[str]) -> list[str]:
        """See `Execution.command`: the worker's process hands its variables on."""
        del environment
        return [self.executable, *words]


@dataclass(frozen=True, slots=True)
class Docker:
    """In a container of the image, whose name we give it. `volumes`: as `docker run` takes them, the warehouse too."""

    image: str
    volumes: tuple[str, ...]
    network: str = ""
    options: tuple[str, ...] = ()
    """Further words for `docker run`, such as `--memory=4g`; no secrets, for the log shows the command line."""

    def command(self, words: Sequence[str], environment: Sequence[str]) -> list[str]:
        """See `Execution.command`: values of variables stay out of the process list."""
        named = [word for name in environment for word in ("--env", name)]
        mounted = [word for volume in self.volumes for word in ("--volume", volume)]
        network = ["--network", self.network] if self.network else []
        options = [*network, *mounted, *named, *self.options, f"{_NAMED}{uuid4().hex}"]
        return ["docker", "run", "--rm", "--init", *options, self.image, *words]


@dataclass(frozen=True, slots=True)
class SparkSubmit:
    """By `spark-submit` in client mode: the driver runs on the worker's machine, its executors on the cluster.

    Nothing secret belongs in `conf`: the command line is in the task's log and in the machine's list of processes. The
    operator's `environment` is in neither; or the file of properties has it, which nobody else may read.
    """

    application: str
    """`pipeline/__main__.py` of the installed package."""
    properties: str
    """The file that `ticdc-warehouse config spark-submit` has printed into; it names the master too."""
    conf: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    """A packaged environment for executors that are to have Python, such as `environment.tar.gz#environment`."""
    spark_submit: str = "spark-submit"

    def command(self, words: Sequence[str], environment: Sequence[str]) -> list[str]:
        """See `Execution.command`: the driver is a process of the worker's and sees its variables."""
        del environment
        conf = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        archives = ["--archives", ",".join(self.archives)] if self.archives else []
        return [self.spark_submit, "--properties-file", self.properties, *conf, *archives, self.application, *words]
