"""JSON values for laws, and their equality."""

from typing import Any

from hypothesis import strategies as st

#: Texts that can be encoded: without lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=30
)
objects = st.dictionaries(texts, values, max_size=6)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, with equal types at every depth: ``1``, ``1.0`` and ``True`` differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)  # 0.0 and -0.0 differ.
