"""Regular expressions of schemas: which engine takes them, and what they may cost.

The linear engine takes most, in time that grows with the size of the compiled expression: a counted repetition
inside another took 240 µs a character (measured). Look-around and back-references need the engine that
backtracks, with a limit; what passes the limit does not match.
"""

import functools
import re
from collections.abc import Iterable

import jsonschema_rs

from ripieno.exceptions import SchemaInvalidity

MAX_PATTERNS = 200
MAX_SIZE = 16 * 1024 * 1024
MAX_BACKTRACKS = 2500
_NESTED_COUNTS = re.compile(r"\{.*\)\{|\)\{.*\{", re.DOTALL)

Options = jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions

#: Bytes that an expression may have when compiled, whether it may backtrack, and units of work a character
#: (as in ``costs``). Measured on expressions that are as bad as each size allows.
_TIERS = (
    (4 * 1024, False, 3),
    (64 * 1024, False, 30),
    (1024 * 1024, False, 30),
    (64 * 1024, True, 400),
    (1024 * 1024, True, 3900),
)
#: The same for a large expression that counts inside of counting; one that also backtracks is refused.
_NESTED_RATE = 2400


@functools.lru_cache(maxsize=1024)
def _tier(pattern: str) -> tuple[int, bool, int] | None:
    nested = _NESTED_COUNTS.search(pattern) is not None
    for size, backtracks, rate in _TIERS:
        large = nested and size > 64 * 1024
        if large and backtracks:
            continue
        try:
            jsonschema_rs.Draft202012Validator(
                {"pattern": pattern}, pattern_options=_options(size, backtracks=backtracks)
            )
        except ValueError:
            continue
        return size, backtracks, _NESTED_RATE if large else rate
    return None


def _options(size: int, *, backtracks: bool) -> Options:
    if backtracks:
        return jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=size)
    return jsonschema_rs.RegexOptions(size_limit=size)


def rate(pattern: str) -> int:
    """Units of work for each character that the pattern is matched with."""
    tier = _tier(pattern)
    return tier[2] if tier else 0


def options_for(patterns: Iterable[tuple[str, str]]) -> Options:
    """The engine that takes all of these (pattern, JSON pointer).

    Errors: ``SchemaInvalidity`` for one that is broken or too large, and for too many.
    """
    largest, total, backtracks = _TIERS[0][0], 0, False
    distinct = dict(patterns)
    if len(distinct) > MAX_PATTERNS:
        raise SchemaInvalidity(f"The schema has more than {MAX_PATTERNS} regular expressions.")
    for pattern, pointer in distinct.items():
        tier = _tier(pattern)
        if tier is None:
            raise SchemaInvalidity(
                f"The regular expression {pattern[:80]!r} is broken, or too large when compiled.", pointer=pointer
            )
        largest, total, backtracks = max(largest, tier[0]), total + tier[0], backtracks or tier[1]
        if total > MAX_SIZE:
            raise SchemaInvalidity("The regular expressions of the schema are too large together.", pointer=pointer)
    return _options(largest, backtracks=backtracks)
