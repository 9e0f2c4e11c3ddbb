"""Whatever people, models and nodes write, pages show it as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields

import pytest

from tests.web.browser.conftest import Served, served
from tests.web.browser.pages import ABSENT, PAGES, address
from tests.web.browser.visitor import Visitor
from tests.web.browser.words import HOSTILE, Words

_OPEN = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
# Also what stands in controls, and what pointing at charts has brought up.
_TEXTS = """
() => [document.body.innerText, ...[...document.querySelectorAll("input, textarea, option")].map((one) => one.value)]
"""


@pytest.fixture(scope="module")
def site(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(module_database_url, tmp_path_factory.mktemp("home"), HOSTILE) as made:
        yield made


def test_texts_of_others_do_nothing_and_can_be_read(
    site: Served, make_visitor: Callable[..., Visitor]
) -> None:
    visitor = make_visitor(site.url)
    visitor.sign_in_as(site.cookie)
    seen: set[str] = set()
    for name in PAGES:
        if name in ABSENT:
            continue
        visitor.page.goto(address(name, site.world))
        seen |= _shown(visitor, name)
    missing = {field.name for field in fields(Words)} - seen
    assert not missing, f"no page shows {', '.join(sorted(missing))}"


def _shown(visitor: Visitor, name: str) -> set[str]:
    """Which of the texts are there to be read, word for word."""
    page = visitor.page
    page.evaluate(_OPEN)
    for plot in page.locator("[data-chart-plot]").all():
        box = plot.bounding_box()
        if box is None:
            continue
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        for share in (0.2, 0.35, 0.5, 0.65, 0.8):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
    texts = page.evaluate(_TEXTS)
    assert page.evaluate("() => window.__xss") is None, name
    visitor.check()
    return {
        field.name for field in fields(Words) if any(getattr(HOSTILE, field.name) in text for text in texts)
    }
