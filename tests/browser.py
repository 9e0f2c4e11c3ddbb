"""A Chromium for the tests of a session, where the machine has one.

Playwright only drives it: browsers of its own are not downloaded.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "SKIPMAP_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")


def find_chromium() -> str | None:
    """Where Chromium lies: as SKIPMAP_CHROMIUM says, else on PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        return named if Path(named).is_file() else None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; tests open contexts of their own in it."""
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    if chromium is None:
        pytest.skip(f"no Chromium: install the package chromium, or say where one is in {VARIABLE}")
    # Root is not let into Chromium's sandbox; the pages of these tests are our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Set up a test as if no browser were open, unless it uses one."""
    with _loop_hidden_from(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a test as if no browser were open, unless it uses one."""
    with _loop_hidden_from(item):
        return (yield)


@contextmanager
def _loop_hidden_from(item: pytest.Item) -> Iterator[None]:
    """While its browser is open, Playwright's event loop counts as running: tests could not run one of their own."""
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in getattr(item, "fixturenames", ()):
        yield
        return
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
