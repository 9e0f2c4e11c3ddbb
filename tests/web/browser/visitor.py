"""Somebody with a browser, who notices what goes wrong behind the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, WebError, expect

from tests.web.site import COOKIE

Theme = Literal["light", "dark"]
WIDE, NARROW = 1280, 360
HEIGHT = 900
PATIENCE_MS = 20_000
"""Of every wait: the machine may be busy, and only a fault takes that long."""

expect.set_options(timeout=PATIENCE_MS)

# Chromium says nothing of it in the console where a policy only reports.
_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  const place = `${event.sourceFile}:${event.lineNumber}`;
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${place}`);
});
"""
_OWN_SCHEMES = ("data", "blob", "about")
_STATUS = re.compile(r"status of (\d{3})")


class Visitor:
    """One browser context with one page or more. ``faults``: what must not have happened."""

    def __init__(self, browser: Browser, url: str, *, theme: Theme = "light", width: int = WIDE) -> None:
        self.url = url.rstrip("/")
        self.context: BrowserContext = browser.new_context(
            base_url=url,
            color_scheme=theme,
            reduced_motion="reduce",
            viewport={"width": width, "height": HEIGHT},
            accept_downloads=True,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(_VIOLATIONS)
        self.faults: list[str] = []
        self._expected: set[str] = set()
        self.context.on("console", self._note_message)
        self.context.on("weberror", self._note_error)
        self.context.on("request", self._note_request)
        self.page: Page = self.context.new_page()

    def sign_in_as(self, cookie: str) -> None:
        """Take over a session that was opened elsewhere."""
        self.context.add_cookies([{"name": COOKIE, "value": cookie, "url": self.url}])

    @contextmanager
    def expecting(self, *statuses: int) -> Iterator[None]:
        """Answers of these kinds are what the block is about, and no faults."""
        self._expected |= {str(status) for status in statuses}
        try:
            yield
            # Messages come while Playwright waits for something.
            self.page.wait_for_timeout(50)
        finally:
            self._expected -= {str(status) for status in statuses}

    def check(self) -> None:
        """Fail when there was a fault."""
        assert not self.faults, "\n".join(self.faults)

    def close(self) -> None:
        """End the visit."""
        self.context.close()

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        found = _STATUS.search(message.text)
        if found is None or found[1] not in self._expected:
            place = message.location
            where = f"{place.get('url', '')}:{place.get('lineNumber', '')}" if place else ""
            self.faults.append(
                f"{self._path(message.page)}: console {message.type}: {message.text} ({where})"
            )

    def _note_error(self, error: WebError) -> None:
        self.faults.append(f"{self._path(error.page)}: {error.error}")

    def _note_request(self, request: Request) -> None:
        if not (request.url.startswith(f"{self.url}/") or urlsplit(request.url).scheme in _OWN_SCHEMES):
            self.faults.append(f"asked another site: {request.url}")

    def _path(self, page: Page | None) -> str:
        return "?" if page is None else page.url.removeprefix(self.url)
