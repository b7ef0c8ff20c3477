"""Changes of the primary key. `by_commit_ts.table_ordering` asks this module when it meets the versions of rows.

- The pair: a change goes by the key that its table had at its commit ts (`LayoutByCommitTs.handles`). Messages say
  which columns that are, so the text of the statement is not read. By offset a statement about the key is not
  understood, and holds the table.
- Names: they mean what they meant.
- Rows after it: by commit ts they wait with the statement, where that is not applied yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.model.messages import SeenVersion
    from pipeline.warehouse.layout import Layout


def noted(layout: Layout, commit_ts: int) -> Layout:
    """The layout with its handle noted, where it has changed; nothing, as long as no message has told it."""
    handle, over_time = layout.handle, layout.by_commit_ts
    if handle is None or (over_time.handles and over_time.handles[-1][1] == handle):
        return layout
    since = commit_ts if over_time.handles else 0
    return layout.over_time(replace(over_time, handles=(*over_time.handles, (since, handle))))


def is_of_now(layout: Layout, seen: SeenVersion) -> bool:
    """Whether all rows of a version are of the time since the newest statement, and since the handle is what it is."""
    since = max((since for since, _ in layout.by_commit_ts.handles), default=0)
    return seen.since > max(layout.ddl_at, since)


def holds_after(layout: Layout, commit_ts: int) -> int:
    """After which commit ts the handle of a version holds, given that the version's rows come after `commit_ts`.

    If these are the first rows since the newest statement, it holds from the statement on: rows of another partition
    that lie between the two may come in a later batch.
    """
    return layout.ddl_at if layout.by_commit_ts.met_at < layout.ddl_at < commit_ts else commit_ts
