"""Regular expressions of schemas: their engine and their cost.

The linear engine accepts most, in time that grows with the size of the compiled expression: 0.002 µs a character
for ordinary ones, 240 µs for a counted repetition inside another (measured). Look-around and back-references
need the engine that backtracks. Its limit bounds the number of steps, not the size of a step; beyond the limit,
nothing matches.
"""

import functools
from collections.abc import Mapping

import jsonschema_rs

from ripieno.exceptions import SchemaInvalidity
from ripieno.lazy.expressions import expression

MAX_PATTERNS = 200
MAX_SIZE = 16 * 1024 * 1024
MAX_BACKTRACKS = 2500
_COUNT = expression(r"\{(?:\d*,)?(\d+),?\}")
#: One counted class or escape between anchors: large when compiled, but simple.
_COUNTED_ONCE = expression(r"\^(?:\.|\\[pP]\{\w+\}|\\[a-zA-Z]|\[(?:[^\]\\]|\\.)+\])\{\d*,?\d+,?\}\$")

Options = jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions

#: KiB of a compiled expression, and units of work for each character (as in ``cost``), measured on the worst
#: expressions of each size. The second table is for the engine that backtracks. A thousand dots have 1,348 KiB.
_RATES = {
    False: ((4, 15), (16, 40), (64, 150), (256, 600), (1024, 3900), (1536, 5900)),
    True: ((4, 800), (16, 1600), (64, 2600), (1024, 3900), (1536, 5900)),
}
_TIERS = tuple((size * 1024, backtracks, rate) for backtracks, rates in _RATES.items() for size, rate in rates)
_LIGHT_RATES = {False: 3, True: 400}


@functools.lru_cache(maxsize=1024)
def _tier(pattern: str) -> tuple[int, bool, int] | None:
    for size, backtracks, rate in _TIERS:
        try:
            jsonschema_rs.Draft202012Validator(
                {"pattern": pattern}, pattern_options=_options(size, backtracks=backtracks)
            )
        except ValueError:
            continue
        return size, backtracks, _LIGHT_RATES[backtracks] if _is_light(pattern) else rate
    return None


def _is_light(pattern: str) -> bool:
    """Whether there are too few repetitions to multiply the states of the automaton."""
    counts = [int(count) for count in _COUNT.findall(pattern)]
    nested = "){" in pattern and len(counts) > 1
    few = len(pattern) <= 80 and sum(counts) <= 16 and not nested
    return few or _COUNTED_ONCE.fullmatch(pattern) is not None


def _options(size: int, *, backtracks: bool) -> Options:
    if backtracks:
        return jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS, size_limit=size)
    return jsonschema_rs.RegexOptions(size_limit=size)


def rate(pattern: str) -> int:
    """Units of work for each character of the matched text."""
    tier = _tier(pattern)
    return tier[2] if tier else 0


def options_for(patterns: Mapping[str, str]) -> Options:
    """The engine for patterns with their JSON pointers. Errors: ``SchemaInvalidity`` if one is broken or too large."""
    largest, total, backtracks = _TIERS[0][0], 0, False
    if len(patterns) > MAX_PATTERNS:
        raise SchemaInvalidity(f"The schema has more than {MAX_PATTERNS} regular expressions.")
    for pattern, pointer in patterns.items():
        tier = _tier(pattern)
        if tier is None:
            raise SchemaInvalidity(
                f"The regular expression {pattern[:80]!r} is broken, or too large when compiled.", pointer=pointer
            )
        largest, total, backtracks = max(largest, tier[0]), total + tier[0], backtracks or tier[1]
        if total > MAX_SIZE:
            raise SchemaInvalidity("The regular expressions of the schema are too large together.", pointer=pointer)
    return _options(largest, backtracks=backtracks)
