"""Requests at the limits of a gateway, in many shapes and over all wires: what one of them may cost the others."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence

#: Bytes of the largest body, and the limits of a gateway.
SIZE, MESSAGES, PARTS, TOOLS = 10 * 2**20 - 4096, 5000, 20_000, 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How a wire writes a request: formats with JSON for what they hold. ``call`` and ``result`` are one item each."""

    path: str
    request: str
    message: str
    part: str
    call: str
    result: str
    tool: str
    tools: str = "[%s]"
    reply: str = ""


WIRES = {
    "openai-chat": Wire(
        path="/v1/chat/completions",
        request='{"model":"m","messages":[%s]%s}',
        message='{"role":"user","content":%s}',
        part='{"type":"text","text":%s}',
        call='{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"t","arguments":%s}}]}',
        result='{"role":"tool","tool_call_id":"c%d","content":%s}',
        tool='{"type":"function","function":{"name":"t%d","parameters":%s}}',
    ),
    "openai-responses": Wire(
        path="/v1/responses",
        request='{"model":"m","store":false,"input":[%s]%s}',
        message='{"role":"user","content":%s}',
        part='{"type":"input_text","text":%s}',
        call='{"type":"function_call","call_id":"c%d","name":"t","arguments":%s}',
        result='{"type":"function_call_output","call_id":"c%d","output":%s}',
        tool='{"type":"function","name":"t%d","strict":false,"parameters":%s}',
    ),
    "anthropic": Wire(
        path="/v1/messages",
        request='{"model":"m","max_tokens":10,"messages":[%s]%s}',
        message='{"role":"user","content":%s}',
        part='{"type":"text","text":%s}',
        call='{"role":"assistant","content":[{"type":"tool_use","id":"c%d","name":"t","input":%s}]}',
        result='{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%d","content":%s}]}',
        tool='{"name":"t%d","input_schema":%s}',
    ),
    "gemini": Wire(
        path="/v1beta/models/m:generateContent",
        request='{"contents":[%s]%s}',
        message='{"role":"user","parts":%s}',
        part='{"text":%s}',
        call='{"role":"model","parts":[{"functionCall":{"id":"c%d","name":"t","args":%s}}]}',
        result='{"role":"user","parts":[{"functionResponse":{"id":"c%d","name":"t","response":{"output":%s}}}]}',
        tool='{"name":"t%d","parametersJsonSchema":%s}',
        tools='[{"functionDeclarations":[%s]}]',
    ),
}
_OBJECT = '{"type":"object","properties":{%s}}'


def _said(wire: Wire, text: str) -> str:
    """A message of one text, which is JSON already."""
    return wire.message % (f"[{wire.part % text}]" if wire.path.startswith("/v1beta") else text)


def _request(wire: Wire, messages: Sequence[str], tools: Sequence[str] = ()) -> bytes:
    more = f',"tools":{wire.tools % ",".join(tools)}' if tools else ""
    return (wire.request % (",".join(messages), more)).encode("utf-8", "surrogatepass")


def _one(text: Callable[[int], str]) -> Callable[[Wire], bytes]:
    """One message whose text, as JSON, fills the body."""
    return lambda wire: _request(wire, [_said(wire, text(SIZE))])


def _messages(count: int, text: Callable[[int], str]) -> Callable[[Wire], bytes]:
    def make(wire: Wire) -> bytes:
        each = max(2, SIZE // count - 80)
        return _request(wire, [_said(wire, text(each)) for _ in range(count)])

    return make


def _parts(messages: int, count: int, text: Callable[[int], str]) -> Callable[[Wire], bytes]:
    def make(wire: Wire) -> bytes:
        each = max(2, SIZE // (messages * count) - 60)
        parts = ",".join(wire.part % text(each) for _ in range(count))
        return _request(wire, [wire.message % f"[{parts}]" for _ in range(messages)])

    return make


def _calls(count: int, argument: Callable[[int], str]) -> Callable[[Wire], bytes]:
    """Calls with arguments that are an object, and a result for each."""

    def make(wire: Wire) -> bytes:
        each = max(2, SIZE // count // 2 - 160)
        given = argument(each)
        written = given if wire.path in ("/v1/messages", "/v1beta/models/m:generateContent") else json.dumps(given)
        items = [_said(wire, '"go"')]
        for number in range(count):
            items += [wire.call % (number, written), wire.result % (number, _plain(each))]
        return _request(wire, items)

    return make


def _tools(count: int, properties: Callable[[int], str]) -> Callable[[Wire], bytes]:
    def make(wire: Wire) -> bytes:
        each = max(2, SIZE // count - 160)
        tools = [wire.tool % (number, _OBJECT % properties(each)) for number in range(count)]
        return _request(wire, [_said(wire, '"go"')], tools)

    return make


def _ended(end: bytes) -> Callable[[Wire], bytes]:
    return lambda wire: _request(wire, [_said(wire, _plain(SIZE - 200))])[:-1] + end


def _plain(size: int) -> str:
    return '"' + "a" * (size - 2) + '"'


def _of(piece: str) -> Callable[[int], str]:
    """Text of one piece, as it is written in JSON."""
    return lambda size: '"' + piece * max(1, (size - 2) // len(piece.encode("utf-8", "surrogatepass"))) + '"'


def _repeated(piece: str, form: str) -> Callable[[int], str]:
    return lambda size: form % ",".join([piece] * max(1, (size - len(form)) // (len(piece) + 1)))


def _keys(form: str) -> Callable[[int], str]:
    return lambda size: form % ",".join(f'"k{number}":1' for number in range(max(1, (size - len(form)) // 12)))


def _nested(size: int) -> str:
    deep = '"a":{"type":"object","properties":{' * 20 + "}}" * 20
    return ",".join(deep.replace('"a"', f'"a{number}"', 1) for number in range(max(1, size // len(deep) - 1)))


#: Each makes a body of a wire, at most as large as allowed and mostly as large as that.
SHAPES: dict[str, Callable[[Wire], bytes]] = {
    "one text": _one(_plain),
    "one text, two bytes a letter": _one(_of("\u00e4")),
    "one text, four bytes a letter": _one(_of("\U0001f600")),
    "one text of escapes": _one(_of("\\u0061")),
    "one text of pairs of escapes": _one(_of("\\ud83d\\ude00")),
    "one text of line ends": _one(_of("\\n")),
    "one text of quotes": _one(_of('\\"')),
    "one text of JSON": _one(_of('{\\"a\\":[1,2]},')),
    "as many messages as allowed": _messages(MESSAGES, _plain),
    "as many short messages as allowed": _messages(MESSAGES, lambda _: '"a"'),
    "more short messages than allowed": _messages(120_000, lambda _: '"a"'),
    "300 messages": _messages(300, _plain),
    "as many parts as allowed, in one message": _parts(1, PARTS, _plain),
    "as many parts as allowed, in all messages": _parts(2000, 10, _plain),
    "as many short parts as allowed": _parts(1, PARTS, lambda _: '"a"'),
    "more short parts than allowed": _parts(1, 200_000, lambda _: '"a"'),
    "as many calls as allowed": _calls(2400, lambda size: f'{{"a":{_plain(size)}}}'),
    "as many short calls as allowed": _calls(2400, lambda _: "{}"),
    "20 calls with many keys": _calls(20, _keys("{%s}")),
    "a call with numbers": _calls(1, _repeated("1", '{"a":[%s]}')),
    "a call with fractions": _calls(1, _repeated("1.5e-7", '{"a":[%s]}')),
    "a call with lists": _calls(1, _repeated("[]", '{"a":[%s]}')),
    "a call with objects": _calls(1, _repeated("{}", '{"a":[%s]}')),
    "a call with words": _calls(1, _repeated('"a"', '{"a":[%s]}')),
    "as many tools as allowed": _tools(TOOLS, lambda size: f'"a":{{"description":{_plain(size)}}}'),
    "as many short tools as allowed": _tools(TOOLS, lambda _: '"a":{"type":"string"}'),
    "more tools than allowed": _tools(80_000, lambda _: ""),
    "a tool with many properties": _tools(
        1, lambda size: ",".join(f'"k{n}":{{"type":"string"}}' for n in range(size // 30))
    ),
    "a tool with a long list of values": _tools(1, _repeated('"a"', '"a":{"enum":[%s]}')),
    "tools with nested properties": _tools(20, _nested),
    "no JSON, at the end": _ended(b"x"),
    "no UTF-8, at the end": _ended(b"\xff}"),
    "spaces": lambda wire: _request(wire, [_said(wire, '"go"')])[:-1] + b" " * (SIZE - 200) + b"}",
    "a key twice": lambda wire: _request(wire, [_said(wire, _plain(SIZE - 200))])[:-1] + b',"model":"m"}',
}


def requests() -> Iterator[tuple[str, str, str, bytes]]:
    """Each shape over each wire: the names of both, the path, and the body."""
    for name, make in SHAPES.items():
        for wire, spelled in WIRES.items():
            yield name, wire, spelled.path, make(spelled)
