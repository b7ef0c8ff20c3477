"""The report of a pipeline: a pure function of `warehouse._pipeline`, as a page, as Markdown, as JSON.

report = assemble(records, "shop", now)
page(report), markdown(report), document(report)
"""

from pipeline.report.assembly import assemble
from pipeline.report.document import document
from pipeline.report.facts import PipelineState, Report
from pipeline.report.ledger import COLUMNS, Records, Totals, Window
from pipeline.report.markdown import markdown
from pipeline.report.page import page
from pipeline.report.set_aside import WAITING_STATES

__all__ = [
    "COLUMNS",
    "WAITING_STATES",
    "PipelineState",
    "Records",
    "Report",
    "Totals",
    "Window",
    "assemble",
    "document",
    "markdown",
    "page",
]
