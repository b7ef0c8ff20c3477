"""One command of the product as an Airflow task: its log in the task's, its refusals as the task's failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from pipeline.airflow.execution import Execution

REFUSED = 1
"""Exit code of a quality stop or a refusal: another try would meet the same."""

PASSING = frozenset({"KAFKA_UNREACHABLE", "REGISTRY_UNREACHABLE", "SPARK_ENDED", "WAREHOUSE_IN_USE"})
"""Refusals that may be over by the next try."""

GRACE_SECONDS = 300
"""How long a task that is to end waits for its batch."""


class WarehouseOperator(BaseOperator):  # type: ignore[misc] # Airflow is not in this environment
    """Runs `ticdc-warehouse <words> --config <config> --output json`; gives what it prints as a document.

    `environment`: variables for the command, templated, so that secrets come from Airflow's connections and variables:
    `{"TICDC_WAREHOUSE__REGISTRY__PASSWORD": "{{ conn.registry.password | tojson }}"}`.
    """

    template_fields = ("words", "config", "environment")

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
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it. Raises `AirflowFailException` with the code and the hint where the product refuses, without retry."""
        del context
        return self.called(self.words)

    def called(self, words: Sequence[str]) -> dict[str, Any]:
        """Run another command of the same configuration; what it prints."""
        line = self.execution.command(
            ["--log-format", "json", *words, "--config", self.config, "--output", "json"], list(self.environment)
        )
        self.log.info("%s", " ".join(line))
        self._process = subprocess.Popen(  # noqa: S603 - the line is the DAG author's
            line,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        errors: list[str] = []
        reader = threading.Thread(target=self._follow, args=(self._process, errors), daemon=True)
        reader.start()
        printed = self._process.stdout.read() if self._process.stdout else ""
        code = self._process.wait()
        reader.join()
        self._process = None
        if code == 0:
            return _document(printed) or {}
        raise _failed(code, errors, printed)

    def on_kill(self) -> None:
        """Let a run end after its batch: SIGTERM to the process itself, not to its JVM; after a while the hard way.

        The next run goes on from there in any case.
        """
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)

    def _follow(self, process: subprocess.Popen[str], errors: list[str]) -> None:
        for line in process.stderr or ():
            errors.append(line)
            self.log.info("%s", line.rstrip())


def _failed(code: int, errors: Sequence[str], printed: str) -> Exception:
    told = _document("".join(errors)) or _document(printed)
    if told is None or "code" not in told:
        said = "".join(errors[-5:]).strip() or printed.strip()[-2000:]
        told = {"code": f"exit code {code}", "message": said}
    sentence = f"{told['code']}: {told['message']}" + (f"\n{told['hint']}" if told.get("hint") else "")
    final = code == REFUSED and told["code"] not in PASSING
    kind: type[Exception] = AirflowFailException if final else AirflowException
    return kind(sentence)


def _document(text: str) -> dict[str, Any] | None:
    """The last document among other lines, an object over several of them: spark-submit prints everything on stdout."""
    text = f"\n{text}"
    try:
        told, _end = json.JSONDecoder().raw_decode(text, text.rfind("\n{\n") + 1)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
