"""The log: on stderr, lines for people on a terminal, one JSON object per line elsewhere.

Everything goes one way: our events and those of the libraries (PySpark, confluent-kafka, Great Expectations), so
a reader of the JSON needs one parser. `bound(batch=…, table=…)` puts what is being worked on into every event
of its block. Until `configure` is called, events go to whatever the standard library's logging is set up for.
"""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import structlog

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from structlog.typing import Processor

OURS = ("pipeline", "registry")
FOR_MACHINES = ("pipeline.service.telemetry", "pipeline.warehouse.publisher")
"""What these say of batches and tables, people at a terminal see in the lines of `run`, or need not know."""


class LogFormat(StrEnum):
    """The form of the log."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


def configure(form: LogFormat = LogFormat.AUTO, *, debug: bool = False) -> None:
    """Send the log to stderr: our events from info (or debug) on, libraries' warnings. Again is harmless."""
    as_json = form is LogFormat.JSON or (form is LogFormat.AUTO and not sys.stderr.isatty())
    handler = _Stderr()
    if not debug:
        handler.addFilter(_of_use)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(as_json=as_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [other for other in root.handlers if not isinstance(other, _Stderr)] + [handler]
    for name in OURS:
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.INFO)
    for name in FOR_MACHINES:
        logging.getLogger(name).setLevel(logging.NOTSET if as_json or debug else logging.CRITICAL)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Give the logger of a module; its events take facts by name, as in `log.info("committed", rows=412)`."""
    return structlog.stdlib.get_logger(name)


def bound(**facts: Any) -> AbstractContextManager[None]:
    """Put facts (`batch`, `table`) into each event of the block. A new thread has none: bind inside it."""
    return cast("AbstractContextManager[None]", structlog.contextvars.bound_contextvars(**facts))


class _Stderr(logging.Handler):
    """Writes to what is stderr at that moment; a closed one must not end the run."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)


def _of_use(record: logging.LogRecord) -> bool:
    """Leave out what py4j tells of errors: each is raised too, and ends the run with its code and its sentence."""
    return Path(record.pathname).parent.name != "py4j"


def _rendering(*, as_json: bool) -> list[Processor]:
    if as_json:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    plain = structlog.dev.plain_traceback  # the default one shows local variables, secrets among them
    return [structlog.dev.ConsoleRenderer(0, colors=sys.stderr.isatty(), exception_formatter=plain)]


_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_SHARED,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)
