"""A browser at the gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import State, served


@pytest.fixture
def state() -> State:
    """What the gallery's pages show."""
    return State()


@pytest.fixture
def gallery(state: State) -> Iterator[str]:
    """Address of the gallery."""
    with served(state) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, gallery: str) -> Iterator[Callable[..., Visitor]]:
    """Open a page of the gallery; errors in the console and violations of the policy fail the test."""
    visitors: list[Visitor] = []

    def open_page(path: str, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, gallery, **options))
        visitors[-1].page.goto(gallery + path)
        return visitors[-1]

    yield open_page
    for visitor in visitors:
        visitor.close()
    for visitor in visitors:
        visitor.check()


@pytest.fixture
def parts(visit: Callable[..., Visitor]) -> Page:
    """The page with everything but charts."""
    return visit("/parts").page
