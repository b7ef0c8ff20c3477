"""Regular expressions of suites: can one take for ever on some value? Java's engine tries every way that it has."""

from pipeline.quality.regexes.ambiguity import unbounded
from pipeline.quality.regexes.trial import BUDGET, LONG, MANY, overflows, refused, seconds

__all__ = ["BUDGET", "LONG", "MANY", "overflows", "refused", "seconds", "unbounded"]
