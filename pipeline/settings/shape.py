"""The keys that the types know at a path: for overrides, for did-you-mean, for the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from pipeline.settings.fields import FreeMap

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from pipeline.settings.faults import Path


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Give a section's fields under the names they have in the file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def section_of(info: FieldInfo) -> type[BaseModel] | None:
    """Give the section that a field holds; None for a single value or a free map."""
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def free_map_of(info: FieldInfo) -> FreeMap | None:
    """Give the mark of a field whose keys are the user's own; None for any other."""
    return next((mark for mark in info.metadata if isinstance(mark, FreeMap)), None)


def section_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """Give the section that stands at a path of the file, None where there is none."""
    here: type[BaseModel] | None = model
    for key in path:
        info = fields(here).get(key) if here else None
        here = section_of(info) if info else None
    return here


def field_at(model: type[BaseModel], path: Path) -> FieldInfo | None:
    """Give the field that stands at a path of the file, None for a free or unknown key."""
    section = section_at(model, path[:-1])
    return fields(section).get(path[-1]) if section and path else None


def in_free_map(model: type[BaseModel], path: Path) -> bool:
    """Tell whether a path lies in a map with free keys; it may hold secrets and text of any kind."""
    infos = (field_at(model, path[:end]) for end in range(1, len(path)))
    return any(info is not None and free_map_of(info) is not None for info in infos)
