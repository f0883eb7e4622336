"""Calls in text, form by form: what models really write, cut at every place, and what looks like it and is none."""

import ast
import gc
import itertools

import pytest

from ripieno.models.protocols.text_calls.forms.brackets import python_call
from ripieno.models.protocols.text_calls.grammar import Reasoning, Text, TextCall, Wrapping
from ripieno.models.protocols.text_calls.scanner import Parser
from tests.models.protocols.text_call_examples import EXAMPLES, TOOLS, calls_in, everywhere, taken_apart, texts_in

# ruff: noqa: RUF001  models write these signs

READ = ("read", {"path": "a.txt"})
#: Forms without a mark of their own count only where nothing else is said.
WHOLE = {"fenced", "object"}
#: Forms that begin a line.
LINES = {"functools", "pythonic"}
MARKED = [example for name, example in EXAMPLES if name not in WHOLE | LINES]
EVERY = pytest.mark.parametrize(
    ("form", "example"), EXAMPLES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(EXAMPLES)]
)


@EVERY
def test_a_call_alone_at_every_cut(form: str, example: str) -> None:
    del form
    assert calls_in(example) == [READ]
    assert texts_in(example) == ""
    for chunks in everywhere(example):
        assert calls_in(chunks) == [READ]


@EVERY
def test_texts_around_calls_stay(form: str, example: str) -> None:
    text = f"Let me look.\n\n{example}\nAnd é 😀 now?"
    expected = [] if form in WHOLE else [READ]
    whole = taken_apart(text)
    assert calls_in(text) == expected
    if expected:
        assert texts_in(text) == "Let me look.\n\n\nAnd é 😀 now?"
    for chunks in everywhere(text):
        assert taken_apart(chunks) == whole


def test_two_forms_in_one_answer() -> None:
    for first, second in itertools.product(MARKED, MARKED):
        text = f"{first}\n{second}"
        assert calls_in(text) == [READ, READ], text


PATH = '<parameter name="path">a.txt</parameter>'
INVOKE = f'<invoke name="read">\n{PATH}\n</invoke>'
ARGUMENTS = '{"path": "a.txt"}'
OBJECT = f'{{"name": "read", "arguments": {ARGUMENTS}}}'
FUNCTION = "<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>"
STEP = (
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="read">'
    f"{PATH.replace('parameter', 'steptml:parameter')}</steptml:invoke><｜tool_call_end｜>"
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"{FUNCTION}\n</tool_call>", 1),
        (f"{FUNCTION}</tool_call>\n{FUNCTION}\n</tool_call>", 2),
        (f"{FUNCTION}\n</tool_call>\n<tool_call>\n{FUNCTION}\n</tool_call>", 2),
        ('<function=read>{"path": "a.txt"}</function>\n</tool_call>', 1),
        (f"<a:tool_call>{FUNCTION}</a:tool_call>", 1),
        (f"<｜tool_calls_begin｜>{STEP}<｜tool_calls_end｜>", 1),
        (f"<｜tool_calls_begin｜>\n{STEP}\n{STEP}\n<｜tool_calls_end｜>", 2),
        (f"<tool_call>{FUNCTION}{FUNCTION}</tool_call>", 2),
        (f"<tool_call>\n{FUNCTION}\n{FUNCTION}\n{FUNCTION}\n</tool_call>", 3),
        (f"<tool_call>{FUNCTION}<function=read>{ARGUMENTS}</function></tool_call>", 2),
        (f"<tool_call><function=read>{ARGUMENTS}</function>{FUNCTION}</tool_call>", 2),
        (f"<tool_call>{OBJECT}{OBJECT}</tool_call>", 2),
        (f"<tool_call>\n{OBJECT}\n{OBJECT}\n{OBJECT}\n</tool_call>", 3),
        (f"<tool_call>{OBJECT}, [{OBJECT}]</tool_call>", 2),
        (f"<tool_calls>{FUNCTION}\n{FUNCTION}</tool_calls>", 2),
        (f"<tool_calls><tool_call>{FUNCTION}{FUNCTION}</tool_call></tool_calls>", 2),
        (f"<tool_calls>\n<tool_call>{OBJECT}</tool_call>\n{INVOKE}\n</tool_calls>", 2),
        (f"<tool_calls>{OBJECT}\n{OBJECT}</tool_calls>", 2),
        (f"<function_calls>{FUNCTION}</function_calls>", 1),
        (f"<dots_function_call>\n{INVOKE}\n</dots_function_call>", 1),
        (f"<dots_function_call>\n{INVOKE}\n{INVOKE}\n</dots_function_call>", 2),
    ],
)
def test_no_wrapper_stays_in_the_text(text: str, count: int) -> None:
    text = f"Sure: {text} Done."
    whole = taken_apart(text)
    assert calls_in(text) == [READ] * count
    assert texts_in(text).split() == ["Sure:", "Done."]
    for chunks in everywhere(text):
        assert taken_apart(chunks) == whole


@pytest.mark.parametrize(
    "end", ["</tool_call>", "</dots_function_call>", "<｜tool_calls_end｜>", "<｜tool_call_end｜>"]
)
def test_an_end_without_a_call_before_it_is_text(end: str) -> None:
    assert taken_apart(f"It ends with {end}, always.") == [Text(f"It ends with {end}, always.")]


@EVERY
def test_half_a_frame_is_text(form: str, example: str) -> None:
    body = example.removesuffix("<|call|>")
    for end in range(len(body)):
        half = f"So: \n{body[:end]}"
        assert calls_in(half) == []
        # The channel of a message that never came is one all the same.
        assert form == "harmony_message" or taken_apart(half) == [Text(half)]


@EVERY
def test_ends_of_lines_may_be_those_of_windows(form: str, example: str) -> None:
    del form
    assert calls_in(example.replace("\n", "\r\n")) == [READ]


@EVERY
def test_no_call_in_code_or_quotations(form: str, example: str) -> None:
    del form
    quoted = "\n".join(f"> {line}" for line in example.split("\n"))
    line = example.replace("\n", " ").replace("```", "")
    for text in (
        f"See:\n```xml\n{example.replace('```', '')}\n```\n",
        f"See:\n~~~~\n{example}\n~~~\n{example}\n~~~~",
        f"- so:\n  ```\n  {line}\n\n  {line}\n  ```",
        f"1. ```\n   {line}\n   ```",
        f"See `{line}`, and ``a ` {line}``.",
        f"See:\n{quoted}",
        f'<tool_result id="1">\n{example}\n</tool_result>',
        f"<tool_response>\n{example}\n</tool_response>",
        f"[TOOL_RESULTS]{example}[/TOOL_RESULTS]",
        f"See:\n```\n{example.replace('```', '')}",
    ):
        assert calls_in(text) == [], text
        assert calls_in(list(text)) == [], text


@pytest.mark.parametrize("example", MARKED)
def test_a_call_after_code_or_a_quotation_counts(example: str) -> None:
    for before in (
        "```\ncode\n```\n",
        "```\r\ncode\r\n```\r\n",
        "~~~ info ` tick\n```\n~~~\n",
        "So `x` is ``y ` z``: ",
        "> quoted\n",
        "An odd ` tick.\n\n",
        "```inline``` code ",
        '<tool_result id="1">\n</tool_result>\n',
    ):
        assert calls_in(before + example) == [READ], before


@EVERY
def test_an_echo_of_a_result_is_no_call(form: str, example: str) -> None:
    del form
    assert calls_in(example, echoed=lambda raw: raw in f"The file says {example}") == []
    assert calls_in(example, echoed=lambda _: False) == [READ]


# What stands in arguments.


def test_markup_in_strings_is_no_markup() -> None:
    text = '<tool_call>\n{"name": "read", "arguments": {"path": "a</tool_call>{\\"<tool_call>}"}}\n</tool_call>'
    for chunks in everywhere(text):
        assert calls_in(chunks) == [("read", {"path": 'a</tool_call>{"<tool_call>}'})]
    text = '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "]}\\"[{"}}]'
    assert calls_in(list(text)) == [("read", {"path": ']}"[{'})]
    text = """[read(path="]'", note='")]')]"""
    assert calls_in(list(text)) == [("read", {"path": "]'", "note": '")]'})]


def test_values_between_tags_may_have_anything_but_their_end() -> None:
    value = "a </parameter> b <function=x> </function> `c` ```\n<tool_call>{}</tool_call>"
    text = f"<function=read>\n<parameter=path>\n{value}\n</parameter>\n</function> done"
    for chunks in everywhere(text):
        assert calls_in(chunks) == [("read", {"path": value})]
        assert texts_in(chunks) == " done"


def test_values_between_tags_are_of_the_type_that_the_schema_has() -> None:
    given = {"path": "12", "lines": "12", "whole": "True", "kinds": '["a", 1]', "note": "null", "odd": "3"}
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in given.items())
    expected = {"path": "12", "lines": 12, "whole": True, "kinds": ["a", 1], "note": None, "odd": "3"}
    assert calls_in(f"<function=read>\n{parameters}</function>") == [("read", expected)]
    pairs = "".join(f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>" for key, value in given.items())
    assert calls_in(f"<tool_call>read{pairs}</tool_call>") == [("read", expected)]
    inner = "".join(f'<{{}}parameter name="{key}">{value}</{{}}parameter>' for key, value in given.items())
    for namespace in ("", "ns:", "a.b-c:", "｜DSML｜"):
        text = f'<{{}}invoke name="read">{inner}</{{}}invoke>'.replace("{}", namespace)
        assert calls_in(text) == [("read", expected)]
    assert calls_in("<function=read>\n<parameter=lines>\nmany\n</parameter>\n</function>") == [
        ("read", {"lines": "many"})
    ]


def test_only_the_ends_of_lines_beside_tags_are_dropped() -> None:
    text = "<function=read>\n<parameter=path>\n\n  a\n\n</parameter>\n</function>"
    assert calls_in(text) == [("read", {"path": "\n  a\n"})]


def test_calls_without_arguments() -> None:
    for text in (
        '<tool_call>{"name": "list_all"}</tool_call>',
        '<tool_call>{"name": "list_all", "arguments": null}</tool_call>',
        "<tool_call>list_all</tool_call>",
        "<function=list_all>\n</function>",
        '<invoke name="list_all">\n</invoke>',
        "[list_all()]",
        "[TOOL_CALLS]list_all[ARGS]{}",
    ):
        assert calls_in(text) == [("list_all", {})], text


def test_other_keys_and_wrappings_that_models_write() -> None:
    for text in (
        '<tool_call>{"type": "function", "function": {"name": "read", "arguments": {"path": "a.txt"}}}</tool_call>',
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a.txt\\"}"}</tool_call>',
        '<tool_call>{"name": "functions.read", "parameters": {"path": "a.txt"}}</tool_call>',
        '<function_calls>\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>'
        "\n</function_calls>",
        "<seed:tool_call><function=read><parameter=path>a.txt</parameter></function></seed:tool_call>",
        '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>"
        '{"path": "a.txt"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>',
        '<|python_tag|>{"type": "function", "name": "read", "parameters": {"path": "a.txt"}}<|eom_id|>',
    ):
        for chunks in everywhere(text):
            assert calls_in(chunks) == [READ], chunks
            assert texts_in(chunks).strip() == "", chunks


def test_lists_make_several_calls() -> None:
    one = '{"name": "read", "arguments": {"path": "a.txt"}}'
    for text in (
        f"[TOOL_CALLS] [{one}, {one}]",
        f"functools[{one}, {one}]",
        f"<tool_call>[{one}, {one}]</tool_call>",
        '[read(path="a.txt"), read(path="a.txt")]',
        '[TOOL_CALLS]read[ARGS]{"path": "a.txt"}[TOOL_CALLS]read[ARGS]{"path": "a.txt"}',
    ):
        assert calls_in(list(text)) == [READ, READ], text


#: An object of a python tag, and another one.
ONE, TWO = (f'{{"name": "read", "parameters": {{"path": "{path}"}}}}' for path in ("a.txt", "b.txt"))
BOTH = [READ, ("read", {"path": "b.txt"})]


@pytest.mark.parametrize("mark", [";", "; ", " ; ", ";\n", "\n;\n\n", f"{' ' * 40};{' ' * 20}"])
def test_objects_behind_a_python_tag_are_parted_by_semicolons(mark: str) -> None:
    text = f"Both:\n<|python_tag|>{ONE}{mark}{TWO}{mark}{ONE}<|eom_id|>"
    for chunks in everywhere(text):
        assert calls_in(chunks) == [*BOTH, READ]
        assert texts_in(chunks) == "Both:\n"
    parser = Parser(TOOLS)
    for raw in (f"<|python_tag|>{ONE}", f"{mark}{TWO}", f"{mark}{ONE}"):
        # None waits for the next.
        (piece,) = parser.feed(raw)
        assert isinstance(piece, TextCall)
        assert piece.raw == raw
    assert list(parser.finish()) == []


@pytest.mark.parametrize(
    "rest",
    [
        ";",
        "; ",
        f"{TWO}",
        f", {TWO}",
        f";; {TWO}",
        f"; and {TWO}",
        f" So; {TWO}",
        f"{' ' * 64}; {TWO}",
        f";{' ' * 64}{TWO}",
        f"; {TWO[:-1]}",
        f"; {TWO[:20]}",
        "; {oops}",
        '; {"path": "b.txt"}',
        f'; {{"path": "b.txt"}}; {TWO}',
        f"; [{TWO}]",
        f"; `{TWO}`",
        f"\n```\n; {TWO}\n```",
    ],
)
def test_what_is_not_parted_by_a_semicolon_from_a_call_is_text(rest: str) -> None:
    text = f"<|python_tag|>{ONE}{rest}"
    for chunks in everywhere(text):
        assert calls_in(chunks) == [READ]
        assert texts_in(chunks) == rest
    assert calls_in(f"It was {ONE}; {TWO}") == []
    assert calls_in(f"<tool_call>{ONE}</tool_call>; {TWO}") == [READ]


def test_each_object_behind_a_python_tag_is_judged_by_itself() -> None:
    text = f"<|python_tag|>{ONE}; {TWO}"
    assert calls_in(text, echoed=lambda raw: "b.txt" in raw) == [READ]
    pieces = [*(parser := Parser(TOOLS, declared=True)).feed(text.replace("read", "gone", 1)), *parser.finish()]
    assert not any(isinstance(piece, TextCall) for piece in pieces)
    pieces = [
        *(parser := Parser(TOOLS, declared=True)).feed(f"{text}; {TWO.replace('read', 'gone')}"),
        *parser.finish(),
    ]
    assert [type(piece) for piece in pieces] == [TextCall, TextCall, Text]
    (call,) = [
        piece for piece in taken_apart(f'<|python_tag|>{ONE}; {{"name": "f", oops}}')[1:] if isinstance(piece, TextCall)
    ]
    assert (call.name, call.arguments) == ("f", '{"name": "f", oops}')


def test_channels() -> None:
    text = (
        "<|channel|>analysis<|message|>I should `look`.<|end|><|start|>assistant<|channel|>commentary to=functions"
        '.read <|constrain|>json<|message|>{"path": "a.txt"}<|call|>'
        "<|start|>assistant<|channel|>final<|message|>It is there.<|return|>"
    )
    for chunks in everywhere(text):
        pieces = taken_apart(chunks)
        assert [one for one in pieces if not isinstance(one, Wrapping)] == [
            Reasoning("I should `look`."),
            TextCall(
                name="read",
                arguments='{"path": "a.txt"}',
                raw="<|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>"
                '{"path": "a.txt"}',
            ),
            Text("It is there."),
        ]


# Names.


def test_a_mark_makes_a_call_of_any_name_and_nothing_else_does() -> None:
    for _, example in EXAMPLES:
        unknown = example.replace("read", "delete_all")
        known = calls_in(unknown, {"delete_all": {}})
        assert known == [("delete_all", {"path": "a.txt"})], unknown
        marked = example.startswith(("<", "[TOOL", "functools"))
        assert calls_in(unknown) == ([("delete_all", {"path": "a.txt"})] if marked else []), unknown


def test_what_only_looks_like_a_call_is_text() -> None:
    for text in (
        "[read](https://example.org)",
        "[read(1)](x)",
        "[1, 2]",
        '[read(path=open("a"))]',
        "[read(path=1 + 1)]",
        "[read(**{})]",
        "[read(path=1), other(a=1)]",
        '{"name": "read"}',
        '{"name": "read", "arguments": {}, "more": 1}',
        '{"name": "read", "arguments": {}} and more',
        '{"name": "reader", "arguments": {}}',
        '```json\n{"name": "read", "arguments": {}}\n```\nThat is how.',
        '```json\n{"name": "Ada"}\n```',
        '[read(path="a.txt")] is how.',
        "<tool_call> is how a call begins.",
        "a <b and c> d <function= x",
        "functools[0]",
        "if a[TOOL_CALLS] > 1",
        # Frames without a name, or with other things in them.
        *("<tool_call>{}</tool_call>", "<tool_call>{oops}</tool_call>", "<tool_call>[1]</tool_call>"),
        *("<function=></function>", "<invoke></invoke>", "[TOOL_CALLS] [1]"),
        "<function=read>some words</function>",
        "<function=read>\n<parameter=a>\n1\n</parameter>\nwords\n</function>",
    ):
        assert taken_apart(text) == [Text(text)]
        assert taken_apart(list(text)) == [Text(text)]


# What cannot be read.


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('<tool_call>{"name": "read", "arguments": {"path": "a.txt",}}</tool_call> So.', " So."),
        ('<tool_call>{"name": "read", "arguments": {\'path\': \'a.txt\'}}</tool_call>', ""),
        ('<tool_call>{"name": "read", "arguments": {"path": "a}}</tool_call> So.\nMore.', " So.\nMore."),
        ('<tool_call>{"name": "read", "arguments": {"path": "a}}</tool_call>', ""),
        ('<tool_call>{"name": "read", "arguments": {"path": "a\nb"}}</tool_call> So.', " So."),
        ("<function=read>{'a': 1}</function>", ""),
        ("<function=read><parameter=a>1</parameter><parameter=a>2</parameter></function>", ""),
    ],
)
def test_arguments_that_cannot_be_read_are_those_of_a_call(text: str, rest: str) -> None:
    for chunks in everywhere(text):
        (call,) = [piece for piece in taken_apart(chunks) if isinstance(piece, TextCall)]
        assert call.name == "read"
        assert texts_in(chunks) == rest


def test_of_several_objects_only_the_unreadable_is_unreadable() -> None:
    torn = OBJECT.replace('"}', '",}')
    for chunks in everywhere(f"<tool_call>{OBJECT}\n{torn}</tool_call>"):
        calls = [(piece.name, piece.arguments) for piece in taken_apart(chunks) if isinstance(piece, TextCall)]
        assert calls == [("read", '{"path":"a.txt"}'), ("read", torn)]


def test_what_follows_a_frame_that_came_to_nothing_is_read_again() -> None:
    good = '<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>'
    for text in (
        f"A <tool_call> is this: {good}",
        f"<tool_call><tool_call>{good}",
        f"<tool_call>{{oops}}</tool_call> {good}",
        f'[TOOL_CALLS][{{"torn\n{good}',
        f"<|python_tag|>import this\n{good}",
    ):
        assert calls_in(text) == [READ], text
        assert calls_in(list(text)) == [READ], text


def test_text_that_is_no_call_flows_at_once() -> None:
    parser = Parser(TOOLS)
    for text in ("Hello. ", "a < b, ", "a[0], `x`, ", "\n- [ ] done\n", "```py\nprint(1)\n```\n", "the end"):
        (piece,) = parser.feed(text)
        assert piece == Text(text)
    assert list(parser.feed(" <tool_")) == [Text(" ")]
    assert list(parser.feed("box>")) == [Text("<tool_box>")]


class _Garbage:
    """Parses Python when it is collected, as asyncio does when it prints the traceback of a lost task."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.literal_eval("[1]")


def test_garbage_that_is_collected_while_a_call_is_parsed_loses_no_call() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(100):
            _Garbage()
            assert python_call('read(path="a.txt")') == ("read", '{"path":"a.txt"}')
    finally:
        gc.set_threshold(*thresholds)
