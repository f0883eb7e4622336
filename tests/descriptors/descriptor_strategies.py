"""Hypothesis strategies for legal files, made from the same tables that the readers read by."""

from typing import Any

from hypothesis import strategies as st

from ripieno.descriptors.control_keys import CallPattern
from ripieno.descriptors.ensembles import CONNECTION, DEFAULTS, HEADER, OVERRIDE
from ripieno.descriptors.invokers import HEADER_KEYS
from ripieno.descriptors.model_rows import Rows
from ripieno.descriptors.profiles import PROFILE
from ripieno.descriptors.providers import PROVIDER
from ripieno.descriptors.reader.alternatives import Alternatives, Variables
from ripieno.descriptors.reader.keys import Key, Table
from ripieno.descriptors.reader.kinds import Either, Flag, Free, Named, Number, Pattern, Several, Size, Text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.text("wxyz", min_size=1, max_size=3)
LEAVES = TEXTS | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(-1e9, 1e9, allow_nan=False)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
FREE = st.dictionaries(NAMES, VALUES, max_size=3)


def number(kind: Number) -> st.SearchStrategy[Any]:
    """Numbers within the bounds of a kind."""
    low = kind.minimum if kind.minimum is not None else kind.above
    high = kind.maximum if kind.maximum is not None else 10**6
    if kind.whole:
        return st.integers(int(low or 0), int(high))
    return st.floats(low, high, allow_nan=False, exclude_min=kind.above is not None)


def value(kind: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911, PLR0912  one line a kind
    """Legal values of a kind, as TOML has them."""
    match kind:
        case Text():
            if kind.choices:
                return st.sampled_from(kind.choices)
            if kind.pattern:
                return st.from_regex(rf"\A(?:{kind.pattern})\Z", alphabet=st.characters(max_codepoint=126))
            return TEXTS if kind.blank else TEXTS.filter(str.strip)
        case CallPattern():
            return st.sampled_from(["io", "git.*", "io.move(path=docs/**)", "io.x( a = 1, b=\\*)", "a.b\\(1\\)"])
        case Pattern():
            return st.sampled_from(["[A-Za-z0-9]{9}", ".*", "a|b"])
        case Flag():
            return st.booleans()
        case Number():
            return number(kind)
        case Size():
            return st.integers(1, kind.maximum) | st.sampled_from(["1 B", "64 KiB", "0.5 MiB", "1GiB"])
        case Variables():
            if kind.text.pattern:
                return value(kind.text).filter(lambda text: "{" not in text and "}" not in text)
            return st.from_regex(r"\A([a-z]|\{\{)?\{env:[A-Z]{1,3}\}\Z")
        case Alternatives():
            one = value(kind.several.item)
            return one | st.just("written") | st.lists(one, min_size=1, max_size=3, unique=True)
        case Rows():
            return st.lists(value(kind.item), max_size=3, unique_by=lambda row: row["match"])
        case Several():
            several = st.lists(value(kind.item), max_size=3, unique=kind.once)
            return several | value(kind.item) if kind.bare else several
        case Either():
            return st.one_of(value(one) for one in kind.kinds)
        case Free():
            return FREE
        case Named():
            return st.dictionaries(value(kind.name), value(kind.kind), max_size=3)
        case Table():
            return table(kind.keys)
        case _:
            raise AssertionError(kind)


def table(keys: tuple[Key, ...], without: frozenset[str] = frozenset()) -> st.SearchStrategy[dict[str, Any]]:
    """Legal tables: what is required, and any of the others."""
    chosen = [key for key in keys if key.name not in without]
    return st.fixed_dictionaries(
        {key.name: value(key.kind) for key in chosen if key.required},
        optional={key.name: value(key.kind) for key in chosen if not key.required},
    ).map(fitting)


def fitting(mapping: dict[str, Any]) -> dict[str, Any]:
    """The table with what must fit together made so: retrying is said once, and only what is read is cached.

    Resources have no places: nobody knows for which arguments.
    """
    for key in mapping.keys() & {"reads", "writes"}:
        texts = [mapping[key]] if isinstance(mapping[key], str) else mapping[key]
        kept = [one for one in texts if not {"{", "}"} & set(one)]
        mapping = {**mapping, key: kept[0] if kept and isinstance(mapping[key], str) else kept}
    if "cache" in mapping:
        mapping = {**mapping, "effect": "read"}
    retry = mapping.get("retry", {})
    if "max_retries" in mapping:
        retry = {name: one for name, one in retry.items() if name != "max_retries"}
    if "initial_backoff" in retry and "max_backoff" in retry:
        first, longest = sorted((retry["initial_backoff"], retry["max_backoff"]))
        retry = {**retry, "initial_backoff": first, "max_backoff": longest}
    return {**mapping, "retry": retry} if "retry" in mapping else mapping


PROPERTY = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
    optional={"description": TEXTS, "default": LEAVES, "title": TEXTS},
)
PROPERTIES = st.dictionaries(NAMES, PROPERTY, max_size=3)
ARGUMENTS = PROPERTIES.flatmap(
    lambda properties: st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.just(properties)},
        optional={
            "required": st.lists(st.sampled_from(sorted(properties)), unique=True) if properties else st.just([]),
            "additionalProperties": st.booleans(),
        },
    )
)


@st.composite
def invokers(draw: st.DrawFn) -> dict[str, Any]:
    """Legal inline invokers."""
    mapping = draw(table(HEADER_KEYS))
    if draw(st.booleans()):
        mapping["arguments"] = draw(ARGUMENTS)
    if draw(st.booleans()):
        mapping["results"] = draw(ARGUMENTS)
    if draw(st.booleans()):
        mapping["configuration"] = draw(FREE)
    if draw(st.booleans()):
        calling: dict[str, Any] = {"origin": draw(st.sampled_from(["python", "command", "http", "client"]))}
        properties = mapping.get("arguments", {}).get("properties", {})
        if properties and draw(st.booleans()):
            preset = draw(st.sampled_from(sorted(properties)))
            fitting = {"integer": st.integers(0, 9), "number": st.integers(0, 9), "boolean": st.booleans()}
            calling["presets"] = {preset: draw(fitting.get(properties[preset]["type"], TEXTS))}
        numbers = [name for name in sorted(properties) if properties[name]["type"] in ("integer", "number")]
        if numbers and draw(st.booleans()):
            calling["timeout_argument"] = numbers[0]
        strings = [name for name in sorted(properties) if properties[name]["type"] == "string"]
        if strings and draw(st.booleans()):
            calling["again_argument"] = strings[0]
        mapping["invocable"] = {**draw(FREE), **calling}
    return mapping


@st.composite
def ensembles(draw: st.DrawFn) -> dict[str, Any]:
    """Legal files of ensembles, without references."""
    mapping: dict[str, Any] = {"ensemble": {**draw(value(HEADER)), "module": "package.module"}}
    mapping["invokers"] = draw(st.lists(invokers(), max_size=3, unique_by=lambda one: one["name"]))
    if draw(st.booleans()):
        mapping["defaults"] = draw(value(DEFAULTS))
    if draw(st.booleans()):
        mapping["configuration"] = draw(FREE)
    if draw(st.booleans()):
        mapping["connection"] = {**draw(FREE), **draw(value(CONNECTION))}
    if draw(st.booleans()):
        names = {one["name"] for one in mapping["invokers"]}
        tools = TEXTS.filter(lambda name: bool(name.strip()) and name not in names)
        mapping["overrides"] = draw(st.dictionaries(tools, value(OVERRIDE), max_size=2))
    return mapping


@st.composite
def providers(draw: st.DrawFn) -> dict[str, Any]:
    """Legal files of providers."""
    mapping = draw(value(PROVIDER))
    if mapping["provider"]["protocol"] == "prompted":
        mapping["provider"]["carrier"] = "example"
    return mapping


profiles = value(PROFILE)
