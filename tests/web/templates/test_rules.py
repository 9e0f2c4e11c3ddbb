"""Rules that every template keeps: the pages' security policy allows nothing inline."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from web.frontend.gallery.components import TEMPLATES

FILES = sorted(TEMPLATES.rglob("*.html"))
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
NOT_HTML = re.compile(r"\{#.*?#\}|\{%.*?%\}", re.DOTALL)
HANDLER = re.compile(r"on[a-z]+")
ATTRIBUTE_OF_A_MACRO = re.compile(
    r"[(,]\s*(style|on(click|change|input|submit|load|error|key\w*|focus|blur))\s*="
)


class _Rules(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.broken = path, []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name, value in attrs:
            if name == "style" or HANDLER.fullmatch(name):
                self.broken.append(f"<{tag}> has {name}")
            if (value or "").strip().lower().startswith("javascript:"):
                self.broken.append(f"<{tag} {name}> is a script")
        if tag == "style":
            self.broken.append("<style>")
        outside = self.path == TEMPLATES / "base.html" and "src" in given
        if tag == "script" and given.get("type") != "application/json" and not outside:
            self.broken.append("<script> that is no data")

    handle_startendtag = handle_starttag


def broken_rules(path: Path, source: str) -> list[str]:
    """What a template does that it must not."""
    rules = _Rules(path)
    bare = NOT_HTML.sub("", source)
    rules.feed(EXPRESSION.sub("x", bare))
    rules.close()
    code = re.sub(r"\{#.*?#\}", "", source, flags=re.DOTALL)
    if re.search(r"\|\s*safe\b|autoescape\s+false", code):
        rules.broken.append("text that is not escaped")
    rules.broken += [
        f"{found[0]} in a macro's call"
        for found in ATTRIBUTE_OF_A_MACRO.findall(" ".join(EXPRESSION.findall(code)))
    ]
    return rules.broken


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_keeps_the_rules(path):
    assert broken_rules(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        '<p style="color: red">',
        "<p {% if x %}style='a'{% endif %}>",
        '<svg style="x"/>',
        '<button type="button" onclick="go()">',
        '<a href="javascript:go()">',
        "<style>p {}</style>",
        "<script>go()</script>",
        '<script src="{{ asset("app.js") }}"></script>',
        "{{ text|safe }}",
        "{{ button('Go', onclick='go()') }}",
        "{% autoescape false %}{{ x }}{% endautoescape %}",
    ],
)
def test_the_rules_see(source):
    assert broken_rules(TEMPLATES / "page.html", source)


@pytest.mark.parametrize(
    "source",
    [
        '<script type="application/json">{{ data|tojson }}</script>',
        '<p class="style" data-on="1">{{ "on" if x == 1 }}</p>',
        "{# style= and |safe are spoken of #}",
        "<input{% if required %} required{% endif %} value=\"{{ 'a' if b else c }}\">",
    ],
)
def test_the_rules_let_pass(source):
    assert broken_rules(TEMPLATES / "page.html", source) == []
