"""Whether a batch may enter a table: what `hold` and `fail` rules and the circuit breaker say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import PipelineError
from pipeline.quality.suites import FORBIDDING, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.names import TableName
    from pipeline.quality.rules import RuleResult

CHECK_FAILED = "CHECK_FAILED"
TOO_MANY = "QUARANTINE_LIMIT"
OF_WHOLE_TABLES = (
    "the rows are in the table already. `ticdc-warehouse report` shows the checks. Fix the data at its source, or fix "
    "the suite (severity warn only records)"
)
"""The next step where a table breaks a check as it stands."""


class QualityStop(PipelineError):
    """Checks that stop are broken. In a batch (severity `fail`) the stream ends and the batch is not committed.

    Of whole tables (`checks run`) it says that more than warnings failed. Exit code 1.
    """


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Why a batch of a table may not enter. `severity`: `hold` or `fail`."""

    severity: Severity
    reason: str

    def error(self, table: TableName) -> QualityStop:
        """What ends the stream."""
        return QualityStop(
            CHECK_FAILED,
            f"{table}: {self._what}; nothing of this batch is in the table",
            "the next run reads the same records again. Fix the check, or give it another severity (hold makes this "
            "table wait, quarantine sets such rows aside)",
        )

    def error_of_whole(self, table: TableName) -> QualityStop:
        """What a run ends with that has committed all its batches."""
        return QualityStop(CHECK_FAILED, f"{table} as a whole: {self._what}", OF_WHOLE_TABLES)

    @property
    def _what(self) -> str:
        return self.reason.removeprefix(f"{CHECK_FAILED}: ")


@dataclass(frozen=True, slots=True)
class Gate:
    """`share`: a table is held where more of a batch than this would be set aside, from `rows` such rows on."""

    share: float = 0.5
    rows: int = 100

    def verdict(self, results: Sequence[RuleResult], set_aside: int) -> Forbidden | None:
        """What forbids a batch; None where nothing does."""
        broken = [result for result in results if result.possible and not result.success]
        for severity in FORBIDDING:
            sentences = [_sentence(result) for result in broken if result.severity is severity]
            if sentences:
                return Forbidden(severity, f"{CHECK_FAILED}: {'; '.join(sentences)}")
        return self._too_many(results, set_aside)

    def _too_many(self, results: Sequence[RuleResult], set_aside: int) -> Forbidden | None:
        judged = max((result.rows for result in results), default=0)
        if set_aside < self.rows or set_aside <= self.share * judged:
            return None
        rules = ", ".join(r.rule for r in results if r.severity.policy.sets_row_aside and r.unexpected)
        sentence = f"{set_aside:,} of {judged:,} rows would be set aside ({rules})"
        return Forbidden(Severity.HOLD, f"{TOO_MANY}: {sentence}")


def _sentence(result: RuleResult) -> str:
    if result.observed:
        return f"{result.rule}: {result.observed}"
    why = f" ({result.because})" if result.because else ""
    return f"{result.rule}: {result.unexpected:,} of {result.evaluated:,} rows break it{why}"
