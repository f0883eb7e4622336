"""Forms of brackets: ``[TOOL_CALLS]`` (Mistral), ``functools[…]`` (Phi), and the pythonic ``[f(a=1)]`` (Llama 4)."""

import ast
import re
from collections.abc import Sequence
from typing import Any

from ripieno.models.protocols.text_calls.forms.form import Form, Variant
from ripieno.models.protocols.text_calls.grammar import MORE, NAME, NO, SPACE, Balanced, Tools, sequence
from ripieno.models.protocols.text_calls.values import Found, objects_in, text_of

_MISTRAL = "[TOOL_CALLS]"
_NAMED = re.compile(r"\s*([^\s\[{]+)(?:\[CALL_ID\][^\s\[{]*)?(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)
_BEGINNING = re.compile(r"\[\s*(?:([A-Za-z_][\w.-]*)(\s*(\()?)?)?")
#: Maximum characters of a list of calls.
_LONGEST = 256 * 1024


def _followed(raw: str, _: Tools) -> Sequence[Found] | None:
    """``[TOOL_CALLS]name[ARGS]{…}``; newer models add an identifier, older ones omit ``[ARGS]``."""
    found = _NAMED.fullmatch(raw.removeprefix(_MISTRAL))
    return None if found is None else [(found[1], found[2])]


def _begins(text: str, at: int, tools: Tools) -> int:
    """``[name(`` of a known tool, the only mark of such a list."""
    match = _BEGINNING.match(text, at - 1)
    if match is None:
        return NO
    if match[3]:
        return at - 1 if match[1] in tools else NO
    if match.end() < len(text):
        return NO
    if match[1] is None:
        return MORE
    known = match[1] in tools if match[2] else any(name.startswith(match[1]) for name in tools)
    return MORE if known else NO


def _pythonic(raw: str, tools: Tools) -> Sequence[Found] | None:
    """``[f(a=1), g(b="x")]``: calls of known tools with named literal arguments. Nothing is evaluated."""
    source = raw.strip()
    if len(source) > _LONGEST:
        return None
    try:
        tree = _tree(source)
        calls = [_python_call(node) for node in tree.elts] if isinstance(tree, ast.List) else []
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return calls if calls and all(name in tools for name, _ in calls) else None


def _tree(source: str) -> ast.expr:
    """The tree of an expression. Errors: those of ``ast.parse``."""
    try:
        return ast.parse(source, mode="eval").body
    except SystemError:
        # Python 3.11 counts the depth once for a process: if garbage is collected while it parses, and cleaning that up
        # prints a traceback, which parses, too, the count is wrong at the end (measured).
        return ast.parse(source, mode="eval").body


def _python_call(node: ast.expr) -> Found:
    """One call. Errors: ``ValueError`` if it is no call, or has other arguments than literals."""
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError(node)
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError(keyword)
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return ast.unparse(node.func).replace(" ", ""), text_of(arguments)


def python_call(text: str) -> Found | None:
    try:
        return _python_call(_tree(text.strip()))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


FORMS = (
    Form(
        name="mistral",
        opener=_MISTRAL,
        variants=lambda _: (
            Variant(
                head=sequence(SPACE, ("[", "{")),
                body=Balanced,
                read=lambda raw, _: objects_in(raw.removeprefix(_MISTRAL)),
            ),
            *(
                Variant(head=sequence(SPACE, NAME, *marks, SPACE, ("{",)), body=Balanced, read=_followed)
                for marks in ((("[ARGS]",),), (("[CALL_ID]",), NAME, ("[ARGS]",)), ())
            ),
        ),
        examples=(
            '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "a.txt"}}]',
            '[TOOL_CALLS]read[ARGS]{"path": "a.txt"}',
            '[TOOL_CALLS]read[CALL_ID]9mwhcyxJq[ARGS]{"path": "a.txt"}',
        ),
    ),
    Form(
        name="functools",
        opener="functools[",
        begins="line",
        variants=lambda _: (
            Variant(
                head=sequence(SPACE, ("{",)),
                body=lambda: Balanced(depth=1),
                read=lambda raw, _: objects_in(raw.removeprefix("functools")),
            ),
        ),
        examples=('functools[{"name": "read", "arguments": {"path": "a.txt"}}]',),
    ),
    Form(
        name="pythonic",
        opener="[",
        begins="line",
        variants=lambda _: (Variant(head=_begins, body=lambda: Balanced(python=True, alone=True), read=_pythonic),),
        examples=('[read(path="a.txt")]',),
    ),
)
