"""Pages as a browser gets them: bytes over the wire, until something is painted, until a chart is drawn."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, sync_playwright

from skipmap.errors import InvalidInput
from tests.browser import find_chromium
from tests.web.browser.entrance import sign_in

ROUNDS = 3
_WAIT_MS = 30_000

# Notes when a chart of each kind has marks; drawing replaces what stood there.
_WATCH = """
window.__drawn = {};
const look = () => {
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const kind = figure.dataset.chart;
    if (!(kind in window.__drawn) && figure.querySelectorAll("[data-chart-plot] svg path").length > 5)
      window.__drawn[kind] = performance.now();
  }
};
new MutationObserver(look).observe(document, { subtree: true, childList: true });
"""
_PAINTED = """
() => new Promise((resolve) => new PerformanceObserver((list) => {
  const found = list.getEntriesByName("first-contentful-paint");
  if (found.length) resolve(found[0].startTime);
}).observe({ type: "paint", buffered: true }))
"""
_IS_DRAWN = """
() => [...document.querySelectorAll("figure[data-chart]")].every((one) => one.dataset.chart in window.__drawn)
"""


@dataclass
class Guest:
    """A browser whose user is signed in. ``cookies``: for requests without it."""

    browser: Browser
    url: str
    state: Any

    @property
    def cookie(self) -> str:
        """The session, as a header."""
        return "; ".join(f"{one['name']}={one['value']}" for one in self.state["cookies"])

    def visit(self, path: str) -> dict[str, Any]:
        """Medians over visits with an empty cache."""
        seen = [self._visit(path) for _ in range(ROUNDS)]
        drawn = {kind for one in seen for kind in one["drawn"]}
        return {
            "bytes": statistics.median(one["bytes"] for one in seen),
            "requests": seen[-1]["requests"],
            "first_paint_ms": statistics.median(one["painted"] for one in seen),
            "drawn_ms": {
                kind: statistics.median(one["drawn"][kind] for one in seen) for kind in sorted(drawn)
            },
        }

    def _visit(self, path: str) -> dict[str, Any]:
        context = self.browser.new_context(base_url=self.url, storage_state=self.state)
        try:
            return _look(context, path)
        finally:
            context.close()


@contextmanager
def guest(url: str, token: str) -> Iterator[Guest]:
    """Open a browser and sign in with an access token."""
    chromium = find_chromium()
    if chromium is None:
        raise InvalidInput("SKIPMAP_CHROMIUM", "there is no Chromium; install one, or say here where it is")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            context = browser.new_context(base_url=url)
            sign_in(context.new_page(), token)
            yield Guest(browser, url, context.storage_state())
        finally:
            browser.close()


def _look(context: BrowserContext, path: str) -> dict[str, Any]:
    page = context.new_page()
    page.add_init_script(_WATCH)
    network = context.new_cdp_session(page)
    sizes = _sizes(network)
    page.goto(path, wait_until="load")
    painted = page.evaluate(_PAINTED)
    page.wait_for_function(_IS_DRAWN, timeout=_WAIT_MS)
    # What is loaded late, such as the data of charts, has come by now.
    drawn = page.evaluate("() => window.__drawn")
    return {"bytes": sum(sizes), "requests": len(sizes), "painted": painted, "drawn": drawn}


def _sizes(network: CDPSession) -> list[float]:
    sizes: list[float] = []
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    return sizes
