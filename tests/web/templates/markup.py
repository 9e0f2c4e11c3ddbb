"""Templates rendered without an app, and what their HTML says."""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup

from web.frontend.gallery.components import environment

ATTACK = "\"'><script>alert(1)</script><b onclick=x>&amp;"
"""Text that must show as it is."""


def call(macro: str, module: str, /, given: dict[str, Any] | None = None, **values: Any) -> BeautifulSoup:
    """What one call of a macro gives; ``macro`` is the call as templates write it."""
    name = macro.partition("(")[0]
    source = f'{{% from "macros/{module}.html" import {name} with context %}}{{{{ {macro} }}}}'
    return soup(environment(**given or {}).from_string(source).render(**values))


def soup(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def text(of: Any) -> str:
    """All text, with single spaces."""
    return " ".join(of.get_text(" ").split())


def attack_free(found: BeautifulSoup) -> None:
    """Nothing of ATTACK became markup."""
    assert not found.find_all("script")
    assert not [tag for tag in found.find_all("b") if tag.has_attr("onclick")]
