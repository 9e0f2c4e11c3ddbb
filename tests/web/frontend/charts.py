"""Charts of the gallery, in a browser."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

from tests.web.browser.visitor import Visitor
from tests.web.frontend import samples

Visit = Callable[..., Visitor]


NAMES = [name for name, _, _, _ in samples.all_samples() if name != "nothing"]
PLOT = "[data-chart-plot]"
_LOOK = """
(token) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color.match(/\\d+/g).map(Number);
}
"""


def chart(page: Page, name: str) -> str:
    """Wait for the chart to be drawn; returns the selector of its plot."""
    plot = f"#chart-{name} {PLOT}"
    page.wait_for_selector(f"{plot} svg path, {plot} svg rect")
    return plot


def colour(page: Page, token: str) -> str:
    """What a token of the styles stands for in the page's theme."""
    return "#" + "".join(f"{number:02x}" for number in page.evaluate(_LOOK, token))
