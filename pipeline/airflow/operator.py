"""One command of the product as an Airflow task: its log in the task's, its refusals as the task's failure."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from pipeline.airflow.ending import end
from pipeline.airflow.execution import container
from pipeline.airflow.outcome import document, failure, remarks

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 3.0 and 3.1
    from airflow.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import Context

    from pipeline.airflow.execution import Execution

GRACE_SECONDS = 300
"""How long a task that is to end waits for its batch."""


class WarehouseOperator(BaseOperator):  # type: ignore[misc] # Airflow is not in this environment
    """Runs `ticdc-warehouse <words> --config <config> --output json`; gives what it prints as a document.

    `environment`: variables for the command, templated, so that secrets come from Airflow's connections and variables:
    `{"TICDC_WAREHOUSE__REGISTRY__PASSWORD": "{{ conn.registry.password | tojson }}"}`. It is no template field: Airflow
    keeps those in its database as rendered, and masks a password there as it is, but not as `tojson` writes it.
    """

    template_fields = ("words", "config")

    def __init__(
        self,
        *,
        words: Sequence[str],
        config: str,
        execution: Execution,
        environment: Mapping[str, str] | None = None,
        **task: Any,
    ) -> None:
        super().__init__(**task)
        self.words = list(words)
        self.config = config
        self.execution = execution
        self.environment = dict(environment or {})
        self._rendered: Mapping[str, str] = {}
        self._process: subprocess.Popen[str] | None = None
        self._container = ""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it. Raises `AirflowFailException` with the code and the hint where the product refuses, without retry."""
        self._rendered = self.render_template(self.environment, context)
        return self.called(self.words)

    def called(self, words: Sequence[str]) -> dict[str, Any]:
        """Run another command of the same configuration; what it prints."""
        line = self.execution.command(
            ["--log-format", "json", *words, "--config", self.config, "--output", "json"], list(self.environment)
        )
        self.log.info("%s", " ".join(line))
        self._container = container(line)
        self._process = subprocess.Popen(  # noqa: S603 - the line is the DAG author's
            line,
            env={**os.environ, **self._rendered},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        errors: list[str] = []
        printed: list[str] = []
        reader = threading.Thread(target=self._tell, args=(_kept(self._process.stderr, errors),), daemon=True)
        reader.start()
        self._tell(remarks(_kept(self._process.stdout, printed)))  # by spark-submit the log is there, too
        code = self._process.wait()
        reader.join()
        self._process = None
        if code == 0:
            return document("".join(printed)) or {}
        sentence, final = failure(code, errors, "".join(printed))
        raise AirflowFailException(sentence) if final else AirflowException(sentence)

    def on_kill(self) -> None:
        """Let a run end after its batch, and after a while the hard way; the next goes on from there in any case."""
        if self._process is not None:
            end(self._process, GRACE_SECONDS, self._container)

    def _tell(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.log.info("%s", line.rstrip())


def _kept(lines: Iterable[str] | None, kept: list[str]) -> Iterator[str]:
    """Each line as it comes, and then in the list too."""
    for line in lines or ():
        kept.append(line)
        yield line
