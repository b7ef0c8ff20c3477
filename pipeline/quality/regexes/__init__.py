"""Regular expressions of suites: can one take for ever on some value? Java's engine tries every way that it has."""

from pipeline.quality.regexes.ambiguity import unbounded
from pipeline.quality.regexes.probe import BUDGET, LONG, MANY, refused, seconds, strained

__all__ = ["BUDGET", "LONG", "MANY", "refused", "seconds", "strained", "unbounded"]
