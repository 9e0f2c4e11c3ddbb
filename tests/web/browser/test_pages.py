"""Each page with data: usable by everybody, within its policy, in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.web.browser.axe import COLOURS, bring, grave_findings
from tests.web.browser.conftest import Served, served
from tests.web.browser.looks import empty_charts, nameless, overflow, settle
from tests.web.browser.pages import ABSENT, PAGES, RARE, address
from tests.web.browser.visitor import HEIGHT, NARROW, Visitor
from tests.web.browser.words import PLAIN

DRAWN_MS = 10_000
ARRANGED_ANEW = ("jobs", "new job")
"""On a phone other parts of these are shown, such as the menu."""


@pytest.fixture(scope="module")
def site(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(module_database_url, tmp_path_factory.mktemp("home"), PLAIN) as made:
        yield made


@pytest.fixture
def visitor(site: Served, make_visitor: Callable[..., Visitor]) -> Visitor:
    visitor = make_visitor(site.url)
    visitor.sign_in_as(site.cookie)
    bring(visitor.context)
    return visitor


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in RARE else []) for name in PAGES]
)
def test_a_page_is_for_everybody(name: str, site: Served, visitor: Visitor) -> None:
    page, status = visitor.page, 404 if name in ABSENT else 200
    with visitor.expecting(*((404,) if name in ABSENT else ())):
        answer = page.goto(address(name, site.world))
    assert answer is not None
    assert answer.status == status, page.inner_text("main")
    page.wait_for_function(
        "() => !document.querySelector('figure[data-chart] .chart-wait')", timeout=DRAWN_MS
    )
    found = {
        "nothing is drawn": empty_charts(page),
        "an image has no name": nameless(page),
        "light": grave_findings(page),
    }
    page.emulate_media(color_scheme="dark")
    settle(page)
    found["dark"] = grave_findings(page, COLOURS)
    page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    settle(page)
    found["too wide"] = overflow(page)
    if name in ARRANGED_ANEW:
        found["narrow"] = grave_findings(page)
    problems = [f"{what}: {one}" for what, many in found.items() for one in many]
    assert not problems, "\n".join([page.url, *problems])
