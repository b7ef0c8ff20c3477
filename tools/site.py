"""What MkDocs does besides (`mkdocs.yml`): links that leave `docs/` lead to the file's place in the repository.

A page links `../README.md` or `../../pipeline/…` so that it works where the repository is read. The site has no such
file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Take links to files outside of `docs/` for what they name, as code."""
    folder = Path(page.file.abs_src_path).parent
    docs = Path(config["docs_dir"])

    def inside(match: re.Match[str]) -> str:
        text, target, _anchor = match.groups()
        path = Path(os.path.normpath(folder / target))
        return match[0] if path.is_relative_to(docs) and path.suffix != ".yaml" else text[1:-1]

    return _LINK.sub(inside, markdown)
