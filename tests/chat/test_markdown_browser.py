"""How answers are drawn, in a real browser and under a strict content security policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import budget
from tests.support.browser import (  # noqa: F401
    Pages,
    axe_violations,
    browser_thread,
    chromium,
    expect,
    new_page,
    time_stands_still,
)
from tests.support.paths import ROOT
from tests.test_docs import blocks

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DRAW = """async ([text, labels]) => {
    const { draw } = await import("/static/modules/chat/markdown.js");
    document.getElementById("answer").replaceChildren(draw(text, labels));
}"""

# What an answer may be made of, whatever it says: elements with their attributes.
MAY_ARISE = {
    **dict.fromkeys(["br", "code", "em", "hr", "s", "strong", "tbody", "thead", "tr"], ()),
    **dict.fromkeys(["blockquote", "li", "table", "ul"], ("dir",)),
    "a": ["href", "rel", "target"],
    "button": ["class", "type"],
    "div": ["aria-label", "class", "dir", "role", "tabindex"],
    "input": ["checked", "disabled", "type"],
    "label": [],
    "ol": ["dir", "start"],
    "p": ["class", "data-level", "dir"],
    "pre": ["aria-label", "dir", "role", "tabindex"],
    "span": ["aria-live", "class", "dir"],
    "td": ["data-align", "dir"],
    "th": ["data-align", "dir", "scope"],
}

STRANGE = """async ([texts, mayArise]) => {
    const { draw, redraw } = await import("/static/modules/chat/markdown.js");
    const answer = document.getElementById("answer");
    const found = [];
    for (const text of texts) {
        answer.replaceChildren(draw(text));
        const whole = answer.cloneNode(true);
        for (const element of answer.querySelectorAll("*")) {
            const allowed = mayArise[element.localName];
            const strange = [...element.attributes].filter(({ name }) => !allowed?.includes(name));
            if (!allowed || strange.length) found.push([text, element.outerHTML]);
            if (element.localName === "a" && !["http:", "https:", "mailto:"].includes(element.protocol))
                found.push([text, element.outerHTML]);
        }
        answer.replaceChildren();
        for (const end of [0.2, 0.5, 0.8, 1]) redraw(answer, text.slice(0, Math.ceil(text.length * end)));
        if (!answer.isEqualNode(whole)) found.push([text, "differs when it was drawn piece by piece"]);
    }
    answer.replaceChildren();
    return found;
}"""

ADDRESSES = ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,<script>1</script>", "vbscript:x", "//other.test/"]
PIECES = [
    *[
        "**",
        "*",
        "_",
        "~~",
        "`",
        "```",
        "~~~\n",
        "# ",
        "- ",
        "1. ",
        "7) ",
        "> ",
        "|",
        "|-|-|\n",
        "---\n",
        "    ",
        "  \n",
    ],
    *[
        "[",
        "](",
        ")",
        "![",
        "<",
        ">",
        "[a]: ",
        "[a]",
        "\\",
        '"',
        "&#106;avascript:",
        "&lt;",
        "&colon;",
        *["\\(", "\\)", "\\[", "\\]", "$$", "- [ ] ", "- [x] ", "\\[\n", "\n\\]\n", "$$\n"],
        "\n",
        "\n\n",
        "\t",
    ],
    *[
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "<br>",
        "<!--",
        "<a href='",
    ],
    *ADDRESSES,
    *[f"[a]({address})" for address in ADDRESSES],
    *[f"<{address}>" for address in ADDRESSES],
    *[
        "java\nscript:x",
        "\x01javascript:x",
        "https://a.test/?b=c",
        "mailto:a@b.test",
        "blob:https://a.test/x",
        "file:///x",
    ],
    *["http://a@b.test", "强调", "「", "」です", "\u202e", "\u0000", "\ud800", "😀", "word ", "onclick=alert(1) "],
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30).map("".join)


@pytest.fixture
def answers(live_server: Any, settings: Any, new_page: Pages) -> Callable[..., Any]:  # noqa: F811
    """Opens the page of answers."""
    settings.ROOT_URLCONF = "tests.support.chat_pages"

    def open_(path: str = "/markdown/", **options: Any) -> Any:
        page = new_page(base_url=live_server.url, **options)
        page.goto(path)
        return page

    return open_


def drawn(page: Any, text: str, **labels: str) -> Any:
    """The element that shows the text."""
    page.evaluate(DRAW, [text, labels])
    return page.locator("#answer")


def markup(page: Any, text: str) -> str:
    return drawn(page, text).evaluate("answer => answer.innerHTML.replaceAll(' dir=\"auto\"', '')")


def link(address: str, text: str) -> str:
    return f'<a href="{address}" rel="noopener noreferrer" target="_blank">{text}</a>'


SPAN = '<span class="chatmemory-math" dir="ltr">'
DIV = '<div class="chatmemory-math" dir="ltr">'

EVERYTHING = """# Plan

Some *emphasis*, **strength**, ~~no~~ and `code` by [somebody](https://example.com/a?b=c "who").
A second line

3. three
   - nested
     1. deep
4. four

> a quote
> > within

---

| Left | | Right |
| :-- | :-: | --: |
| a<br>b | `c` | [d](mailto:d@example.com) |

```python
print("<b>" * 2)

```
"""


def test_an_answer_is_drawn(answers: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = answers()
    answer = drawn(page, EVERYTHING)
    assert answer.locator("h1, h2, h3, h4, h5, h6").count() == 0
    expect(answer.locator("> p.chatmemory-heading[data-level='1']")).to_have_text("Plan")
    for tag, text in {"em": "emphasis", "strong": "strength", "s": "no", "p > code": "code"}.items():
        expect(answer.locator(tag)).to_have_text(text)
    expect(answer.locator("> p br")).to_have_count(1)
    somebody = answer.get_by_role("link", name="somebody")
    assert somebody.get_attribute("href") == "https://example.com/a?b=c"
    assert somebody.get_attribute("target") == "_blank"
    assert "noopener" in somebody.get_attribute("rel")
    assert answer.locator("> ol").get_attribute("start") == "3"
    expect(answer.locator("> ol > li > ul > li > ol > li")).to_have_text("deep")
    expect(answer.locator("> blockquote > blockquote")).to_have_text("within")
    expect(answer.locator("> hr")).to_have_count(1)
    expect(answer.get_by_role("columnheader")).to_have_text(["Left", "Right"])
    cells = answer.locator("tbody td")
    expect(cells.nth(0).locator("br")).to_have_count(1)
    assert [cells.nth(n).evaluate("cell => getComputedStyle(cell).textAlign") for n in range(3)] == [
        *["left", "center", "right"]
    ]
    expect(answer.locator("pre code")).to_have_text('print("<b>" * 2)\n', use_inner_text=False)
    expect(answer.locator(".chatmemory-code-head > span")).to_have_text("python")
    assert new_page.problems == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\*no\\* &amp; \\\\", "<p>*no* &amp; \\</p>"),
        ("a\\\nb  \nc\nd", "<p>a<br>b<br>c<br>d</p>"),
        ("<b>x</b> <script>", "<p>&lt;b&gt;x&lt;/b&gt; &lt;script&gt;</p>"),
        ("<div>\n*x*\n</div>", "<p>&lt;div&gt;<br><em>x</em><br>&lt;/div&gt;</p>"),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
        ("[a](data:text/html,x)", "<p>[a](data:text/html,x)</p>"),
        ("[a](&#x6A;avascript:x)", "<p>[a](javascript:x)</p>"),
        ("[a]: vbscript:x\n\n[a]", "<p>[a]: vbscript:x</p><p>[a]</p>"),
        ("<javascript:x>", "<p>&lt;javascript:x&gt;</p>"),
        ("[a](main.py)", "<p>[a](main.py)</p>"),
        ("main.py, a.test, a@b.test, ftp://a.test/", "<p>main.py, a.test, a@b.test, ftp://a.test/</p>"),
        ("https://a.test/b_c.", f"<p>{link('https://a.test/b_c', 'https://a.test/b_c')}.</p>"),
        ("[b](HTTPS://A.test)", f"<p>{link('https://a.test/', 'b')}</p>"),
        ("[b](//a.test)", f"<p>{link('http://a.test/', 'b')}</p>"),
        ("![cat](https://a.test/c.png)", f"<p>{link('https://a.test/c.png', 'cat')}</p>"),
        ("![](https://a.test/c.png)", f"<p>{link('https://a.test/c.png', 'https://a.test/c.png')}</p>"),
        (
            "[![cat](https://a.test/c.png) b](https://a.test/)",
            f"<p>{link('https://a.test/', '<span>cat</span> b')}</p>",
        ),
        ("![x](javascript:x)", "<p>![x](javascript:x)</p>"),
        ("これは**「強調」**です", "<p>これは<strong>「強調」</strong>です</p>"),
        ("**결과(값)**는", "<p><strong>결과(값)</strong>는</p>"),
        ("2 * 3 * 4 和 * 5", "<p>2 * 3 * 4 和 * 5</p>"),
        ("和* 5 和* 6", "<p>和* 5 和* 6</p>"),
        ("5 *和 6 *和", "<p>5 *和 6 *和</p>"),
        ("Here:\n-", "<p>Here:<br>-</p>"),
        ("a **b", "<p>a **b</p>"),
        ("", ""),
    ],
)
def test_small_things(answers: Callable[..., Any], text: str, expected: str) -> None:
    assert markup(answers(), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"If \(a_1 * b * c\), \(*x*\)", rf"<p>If {SPAN}\(a_1 * b * c\)</span>, {SPAN}\(*x*\)</span></p>"),
        ("$$a_1$$ and $$b_1$$ for $5, $6", f"<p>{SPAN}$$a_1$$</span> and {SPAN}$$b_1$$</span> for $5, $6</p>"),
        ("So:\n\\[\na\n- b\n= c\n\\]\nand", f"<p>So:</p>{DIV}\\[\na\n- b\n= c\n\\]</div><p>and</p>"),
        ("- so:\n\n  $$ a\n  # b $$\n- c", f"<ul><li><p>so:</p>{DIV}$$ a\n# b $$</div></li><li><p>c</p></li></ul>"),
        ("> \\[ a\n> - b \\]", f"<blockquote>{DIV}\\[ a\n- b \\]</div></blockquote>"),
        ("a \\[\nb\n\\] c", f"<p>a {SPAN}\\[\nb\n\\]</span> c</p>"),
        ("\\[\na\n- b", f"{DIV}\\[\na\n- b</div>"),
        ("$$\na\n\n*b*", f"{DIV}$$\na</div><p><em>b</em></p>"),
        ("\\[x] and \\(y\n\n\\] *z*", "<p>[x] and (y</p><p>] <em>z</em></p>"),
        ("`\\(a\\)` $$ $$ \\\\(b\\\\)", "<p><code>\\(a\\)</code> $$ $$ \\(b\\)</p>"),
    ],
)
def test_a_formula_is_shown_as_it_was_written(answers: Callable[..., Any], text: str, expected: str) -> None:
    assert markup(answers(), text) == expected


def test_the_items_of_a_task_list_have_boxes(answers: Callable[..., Any]) -> None:
    answer = drawn(answers(), "- [ ] a *b*\n- [x] c\n\n  d\n- [y] e\n- [ ]\n- [x]f\n1. [X] g")
    boxes = answer.get_by_role("checkbox")
    expect(boxes).to_have_count(3)
    for name, is_done in {"a b": False, "c": True, "g": True}.items():
        box = answer.get_by_role("checkbox", name=name, exact=True)
        expect(box).to_be_checked(checked=is_done)
        expect(box).to_be_disabled()
    assert answer.locator("li").all_inner_texts()[1:] == ["c\n\nd", "[y] e", "[ ]", "[x]f", "g"]


def test_links_within_the_site_are_followed(answers: Callable[..., Any], live_server: Any) -> None:
    address = drawn(answers(), "[order](/orders/7)").get_by_role("link").get_attribute("href")
    assert address == f"{live_server.url}/orders/7"


def test_a_script_of_the_page_draws_formulas_and_code(answers: Callable[..., Any]) -> None:
    [script] = [block for block in blocks(ROOT / "docs" / "chat.md", "js") if "chatmemory:math" in block]
    page = answers(permissions=["clipboard-read", "clipboard-write"])
    # In the place of the libraries: they say what they were asked for.
    page.evaluate("""() => {
        const say = (target, ...what) => target.replaceChildren(document.createElement("b"), what.join("|"));
        window.katex = { render: (source, target, { displayMode }) => say(target, source, displayMode) };
        window.hljs = {
            getLanguage: (name) => name === "python",
            highlightElement: (target) => say(target, target.className, target.textContent),
        };
    }""")
    page.evaluate(script)
    answer = drawn(page, "\\(a^2\\) $$ b $$\n\n\\[\nc\n\\]\n\n```python\nd = 1\n```\n\n```\ne\n```")
    expect(answer.locator(".chatmemory-math:has(b)")).to_have_text(["a^2|false", "b|true", "c|true"])
    expect(answer.locator("code")).to_have_text(["language-python|d = 1", "e"])
    answer.get_by_role("button", name="Copy").first.click()
    expect(answer.get_by_role("button", name="Copied")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == "d = 1"


def test_what_a_script_has_drawn_stays_while_the_answer_grows(answers: Callable[..., Any]) -> None:
    page = answers()
    drawings = page.evaluate("""async () => {
        const { redraw } = await import("/static/modules/chat/markdown.js");
        const answer = document.getElementById("answer");
        const drawings = [];
        document.addEventListener("chatmemory:code", ({ target, detail }) => {
            drawings.push(detail.source);
            target.replaceChildren(document.createElement("b"));
        });
        for (const text of ["```\\na", "```\\nab\\n```", "```\\nab\\n```\\n\\nc", "```\\nab\\n```\\n\\ncd"]) {
            redraw(answer, text);
            await null; // those who draw were told
        }
        return [...drawings, answer.querySelectorAll("code b").length, answer.lastChild.textContent];
    }""")
    assert drawings == ["a", "ab", 1, "cd"]


def test_a_shadow_shows_where_code_goes_on(answers: Callable[..., Any]) -> None:
    page = answers(viewport={"width": 400, "height": 400})
    answer = drawn(page, f"```\n{' ' * 200}x\n```\n\n```\n \n```")

    def edges(number: int, left: int) -> list[bytes]:
        """The pictures of both edges of a block that is scrolled so far."""
        pre = answer.locator("pre").nth(number)
        pre.evaluate("(pre, left) => { pre.scrollLeft = left; }", left)
        box = pre.bounding_box()
        at = {"y": box["y"] + box["height"] / 2 - 4, "width": 8, "height": 8}
        return [page.screenshot(clip={"x": x, **at}) for x in (box["x"], box["x"] + box["width"] - 8)]

    nothing, same = edges(1, 0)
    assert nothing == same
    starts, middle, ends = edges(0, 0), edges(0, 300), edges(0, 99_999)
    assert [edge == nothing for edge in (*starts, *middle)] == [True, False, False, False]
    assert ends[0] == middle[0]


def test_an_answer_that_grows_keeps_what_is_there(answers: Callable[..., Any]) -> None:
    page = answers()
    kept = page.evaluate("""async () => {
        const { redraw } = await import("/static/modules/chat/markdown.js");
        const answer = document.getElementById("answer");
        redraw(answer, "first\\n\\n```python\\na = 1");
        const [paragraph, block] = answer.children;
        const button = answer.querySelector("button");
        const unclosed = block.querySelector("code").textContent;
        redraw(answer, "first\\n\\n```python\\na = 1\\n```\\n\\nlast **bo");
        button.focus();
        redraw(answer, "first\\n\\n```python\\na = 1\\n```\\n\\nlast **bold**");
        return [unclosed, answer.children[0] === paragraph, answer.children[1] === block,
            document.activeElement === button, answer.children[2].textContent];
    }""")
    assert kept == ["a = 1", True, True, True, "last bold"]


def test_a_button_says_that_it_has_copied_though_the_answer_grows(answers: Callable[..., Any]) -> None:
    page = answers(permissions=["clipboard-read", "clipboard-write"])
    button = drawn(page, "```\na\n```").get_by_role("button")
    with time_stands_still(page):
        button.click()
        button.click()
        expect(button).to_have_text("Copied")
        page.evaluate("""async () => {
            const { redraw } = await import("/static/modules/chat/markdown.js");
            redraw(document.getElementById("answer"), "```\\na\\n```\\n\\nmore");
        }""")
        expect(page.locator("#answer")).to_contain_text("more")
        assert button.text_content() == "Copied"
    expect(button).to_have_text("Copy")


def test_code_is_copied_with_the_keyboard(answers: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = answers(permissions=["clipboard-read", "clipboard-write"])
    answer = drawn(page, "```\nlet a;\n  b <c>\n```", copy="コピー", copied="コピーしました", code="コード")
    page.keyboard.press("Tab")
    button = answer.get_by_role("button", name="コピー")
    expect(button).to_be_focused()
    with time_stands_still(page):
        button.press("Enter")
        expect(button).to_have_text("コピーしました")
    assert page.evaluate("navigator.clipboard.readText()") == "let a;\n  b <c>"
    expect(button).to_have_text("コピー")
    expect(answer.get_by_role("group", name="コード")).to_be_visible()
    assert new_page.problems == []


def test_a_table_looks_like_the_answer_on_a_page_without_a_doctype(answers: Callable[..., Any]) -> None:
    answer = drawn(answers("/markdown/no-doctype/"), "Order\n\n| a |\n|---|\n| 1 |")
    looks = """([answer]) => {
        Object.assign(answer.style, { color: "rgb(1, 2, 3)", fontSize: "20px", fontStyle: "italic" });
        return ["p", "td"].map(name => getComputedStyle(answer.querySelector(name)))
            .map(({ color, fontSize, fontStyle }) => [color, fontSize, fontStyle]);
    }"""
    paragraph, cell = answer.evaluate_all(looks)
    assert cell == paragraph == ["rgb(1, 2, 3)", "20px", "italic"]


def test_code_is_copied_where_browsers_offer_no_clipboard(answers: Callable[..., Any]) -> None:
    page = answers(permissions=["clipboard-read"])
    page.evaluate("delete Navigator.prototype.clipboard")
    answer = drawn(page, "```\nlet a;\n  b <c>\n```")
    with time_stands_still(page):
        answer.get_by_role("button", name="Copy").click()
        expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    page.reload()
    assert page.evaluate("navigator.clipboard.readText()") == "let a;\n  b <c>"


@pytest.mark.parametrize(
    "text",
    [
        "*a* " + "word " * 4_000,
        "> " * 21 + "*a*",
        "- " * 11 + "*a*",
        "|" + "a|" * 200 + "\n|" + "-|" * 200 + "\n" + "*a*\n" * 100,
    ],
    ids=["long", "quotes", "lists", "cells"],
)
def test_what_is_too_much_is_shown_as_written(answers: Callable[..., Any], text: str) -> None:
    answer = drawn(answers(), text)
    assert answer.evaluate("answer => answer.querySelectorAll('*').length") == 1
    assert answer.text_content() == text


@pytest.mark.parametrize(
    "text", ["*a* " + "word " * 3_999, "> " * 19 + "*a*", "- " * 9 + "*a*"], ids=["long", "quotes", "lists"]
)
def test_what_is_just_not_too_much_is_drawn(answers: Callable[..., Any], text: str) -> None:
    assert drawn(answers(), text).locator("em").first.text_content() == "a"


@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(
    answers: Callable[..., Any],
    width: int,
) -> None:
    page = answers(viewport={"width": width, "height": 800}, bypass_csp=True)
    wide = "| a | b |\n|-|-|\n| " + "wide " * 50 + "| " + "x" * 300 + " |\n\n```\n" + "x" * 500 + "\n```\n\n"
    nested = (
        "".join("  " * level + "- item\n" for level in range(9)) + "\n" + "y" * 500 + "\n\n" + "> " * 15 + "z" * 100
    )
    drawn(page, f"{EVERYTHING}\n\n{wide}{nested}")
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_no_text_makes_a_script_or_a_strange_address(answers: Callable[..., Any], new_page: Pages) -> None:  # noqa: F811
    page = answers()
    page.evaluate("document.addEventListener('securitypolicyviolation', event => console.error(event.sourceFile))")
    asked: list[str] = []

    @settings(max_examples=budget.examples(25), suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(TEXTS, min_size=20, max_size=60))
    def check(texts: list[str]) -> None:
        assert page.evaluate(STRANGE, [texts, MAY_ARISE]) == []

    page.on("request", lambda request: asked.append(request.url))
    check()
    assert [url for url in asked if "/static/modules/chat/" not in url] == []
    assert new_page.problems == []
