"""Forms of tags: ``<tool_call>`` with the contents of several models, ``<function=…>``, and ``<invoke>``."""

# ruff: noqa: RUF001  models write these characters

import functools
import re
from collections.abc import Callable, Sequence

from ripieno.models.protocols.text_calls.forms.form import Form, Variant
from ripieno.models.protocols.text_calls.grammar import NAME, SPACE, Closed, Empty, Tagged, Tools, sequence
from ripieno.models.protocols.text_calls.values import Found, objects_in, pairs

_FUNCTION = re.compile(r"<function=([^\s<>]+)>(.*)</function>", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^\n<>]+)>(.*?)</parameter>(?=\s*(?:<parameter=|\Z))", re.DOTALL)
_PAIR = re.compile(r"\s*<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>(?=\s*(?:<arg_key>|\Z))", re.DOTALL)


def _function(raw: str, tools: Tools) -> Sequence[Found] | None:
    """``<function=name>`` with ``<parameter=key>`` (Qwen3-Coder), or with an object (Llama 3.1, Functionary)."""
    found = _FUNCTION.search(raw)
    if found is None:
        return None
    name, inner = found[1], found[2]
    if inner.lstrip().startswith("{"):
        return [(name, inner.strip())]
    given = _all(_PARAMETER, inner)
    return None if given is None else [pairs(name, [(key.strip(), _lines(value)) for key, value in given], tools, raw)]


def _all(pattern: re.Pattern[str], text: str) -> list[tuple[str, str]] | None:
    """All parameters in a text; None if it has anything else."""
    given: list[tuple[str, str]] = []
    at = 0
    while match := pattern.match(text, at):
        given.append((match[1], match[2]))
        at = match.end()
    return None if text[at:].strip() else given


def _lines(value: str) -> str:
    """A value without the line ends next to its tags."""
    return re.sub(r"\A\r?\n|\r?\n\Z", "", value)


def _named(raw: str, tools: Tools) -> Sequence[Found] | None:
    """``<tool_call>name`` with ``<arg_key>`` and ``<arg_value>`` (GLM 4.5)."""
    inner = raw.removeprefix("<tool_call>").removesuffix("</tool_call>")
    name, bracket, rest = inner.partition("<")
    given = _all(_PAIR, bracket + rest)
    return None if given is None else [pairs(name.strip(), [(key.strip(), text) for key, text in given], tools, raw)]


def _object(raw: str, _: Tools) -> Sequence[Found] | None:
    """``<tool_call>`` with an object, several, or a list of such (Hermes, Qwen 2.5 and 3)."""
    return objects_in(raw.removeprefix("<tool_call>").removesuffix("</tool_call>"))


def _objects(raw: str, _: Tools) -> Sequence[Found] | None:
    """``<tool_calls>`` with a list of objects (Jamba)."""
    return objects_in(raw[raw.index(">") + 1 : raw.rindex("</")])


def _function_body(last: str = "") -> Callable[[], Tagged]:
    return functools.partial(
        Tagged,
        opener="<parameter=",
        closer="</parameter>",
        end="</function>",
        following=("<parameter=", "</function>"),
        last=last,
    )


#: Qwen3-Coder writes several functions into one ``<tool_call>``, and closes one that it did not open.
_UNOPENED = ("</tool_call>",)
_TOOL_CALL = (
    Variant(head=sequence(SPACE, ("{", "[")), body=lambda: Closed("</tool_call>"), read=_object),
    Variant(
        head=sequence(SPACE, ("<function=",), NAME, (">",), SPACE, ("<parameter=", "</function>")),
        body=_function_body("</tool_call>"),
        read=_function,
        ends=_UNOPENED,
    ),
    Variant(
        head=sequence(SPACE, NAME, SPACE, ("<arg_key>", "</tool_call>")),
        body=functools.partial(
            Tagged,
            opener="<arg_value>",
            closer="</arg_value>",
            end="</tool_call>",
            following=("<arg_key>", "</tool_call>"),
        ),
        read=_named,
    ),
)
_FUNCTION_TAG = (
    Variant(
        head=sequence(NAME, (">",), SPACE, ("{",)), body=lambda: Closed("</function>"), read=_function, ends=_UNOPENED
    ),
    Variant(
        head=sequence(NAME, (">",), SPACE, ("<parameter=", "</function>")),
        body=_function_body(),
        read=_function,
        ends=_UNOPENED,
    ),
)


@functools.lru_cache(maxsize=64)
def _invoke(namespace: str) -> tuple[Variant, ...]:
    """``<invoke name="…">`` with ``<parameter name="…">`` (Claude, MiniMax, DeepSeek 3.2), or with an object."""
    start, end = f"<{namespace}parameter", f"</{namespace}invoke>"
    begins = (re.compile(r"\s+"), ("name=",), ('"', "'"), NAME, ('"', "'"), SPACE, (">",), SPACE)
    parameter = re.compile(
        rf"""\s*{re.escape(start)}\s+name=["']([^"'<>]+)["'](?:\s+string=["'](?:true|false)["'])?\s*>"""
        rf"(.*?)</{re.escape(namespace)}parameter>(?=\s*(?:{re.escape(start)}\s|\Z))",
        re.DOTALL,
    )

    def read(raw: str, tools: Tools) -> Sequence[Found] | None:
        head = re.match(r"""<\S*invoke\s+name=["']([^"']+)["']\s*>""", raw)
        if head is None:
            return None
        inner = raw[head.end() :].removesuffix(end)
        if inner.lstrip().startswith("{"):
            return [(head[1], inner.strip())]
        given = _all(parameter, inner)
        return None if given is None else [pairs(head[1], given, tools, raw)]

    return (
        Variant(head=sequence(*begins, ("{",)), body=lambda: Closed(end), read=read),
        Variant(
            head=sequence(*begins, (start, end)),
            body=lambda: Tagged(opener=start, closer=f"</{namespace}parameter>", end=end, following=(start, end)),
            read=read,
        ),
    )


def _wrapper(tag: str, *inner: str, listed: bool = False) -> Callable[[str], tuple[Variant, ...]]:
    """A tag around calls with one of these openers; both have the same namespace. ``listed``: or around objects."""

    @functools.lru_cache(maxsize=64)
    def variants(namespace: str) -> tuple[Variant, ...]:
        calls = tuple(dict.fromkeys(opener.replace("<", f"<{space}") for opener in inner for space in ("", namespace)))
        end = f"</{namespace}{tag}>"
        wrapper = Variant(head=sequence(SPACE, calls), body=Empty, ends=(end,))
        objects = Variant(head=sequence(SPACE, ("{", "[")), body=lambda: Closed(end), read=_objects)
        return (wrapper, objects) if listed else (wrapper,)

    return variants


FORMS = (
    Form(
        name="tool_call",
        opener="<tool_call>",
        variants=lambda _: _TOOL_CALL,
        examples=(
            '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>',
            "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
        ),
    ),
    Form(
        name="function",
        opener="<function=",
        variants=lambda _: _FUNCTION_TAG,
        examples=(
            "<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>",
            '<function=read>{"path": "a.txt"}</function>',
        ),
    ),
    Form(
        name="invoke",
        opener="<invoke",
        variants=_invoke,
        namespaced=True,
        examples=(
            '<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>',
            '<｜DSML｜invoke name="read"><｜DSML｜parameter name="path" string="true">a.txt</｜DSML｜parameter>'
            "</｜DSML｜invoke>",
        ),
    ),
    Form(
        name="tool_calls",
        opener="<tool_calls>",
        variants=_wrapper("tool_calls", "<invoke", "<tool_call>", "<function=", listed=True),
        namespaced=True,
        examples=('<tool_calls>[\n{"name": "read", "arguments": {"path": "a.txt"}}\n]</tool_calls>',),
    ),
    *(
        Form(name=name, opener=f"<{tag}>", variants=_wrapper(tag, *inner), namespaced=True)
        for name, tag, inner in (
            ("function_calls", "function_calls", ("<invoke", "<tool_call>", "<function=")),
            ("dots_function_call", "dots_function_call", ("<invoke",)),
            ("wrapped_tool_call", "tool_call", ("<function=", "<invoke")),
        )
    ),
)
