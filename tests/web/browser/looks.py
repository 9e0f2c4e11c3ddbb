"""What the eye would find wrong with a page: too wide, nameless, empty where a chart should be, focus unseen."""

from __future__ import annotations

from collections.abc import Sequence

from playwright.sync_api import Page

_WIDE = """
() => {
  const root = document.documentElement, width = root.clientWidth;
  if (root.scrollWidth <= width) return [];
  const found = [`${root.scrollWidth} px in a window of ${width}`];
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    const name = `${element.tagName.toLowerCase()}#${element.id}.${element.getAttribute("class")}`;
    if (box.right > width + 0.5 && box.width > 0) found.push(`${name} ends at ${Math.round(box.right)}`);
  }
  return found.slice(0, 9);
}
"""

# An image is named by itself, hidden with what it belongs to, or part of something that has a name.
_NAMELESS = """
() => {
  const found = [];
  for (const image of document.querySelectorAll("svg, img, canvas")) {
    if (!image.checkVisibility() || image.closest("[aria-hidden=true], [hidden]")) continue;
    const holder = image.closest("[aria-label], [aria-labelledby]");
    const named = image.getAttribute("alt") !== null || image.querySelector(":scope > title")?.textContent.trim();
    if (!named && !holder) found.push(image.outerHTML.slice(0, 160));
  }
  return found;
}
"""

_CHARTS = """
() => [...document.querySelectorAll("figure[data-chart]")].filter((one) => one.checkVisibility()).map((figure) => {
  const plot = figure.querySelector("[data-chart-plot]");
  return [figure.id, plot ? plot.querySelectorAll("svg path, svg circle, svg rect, svg text").length : 0];
})
"""

_FOCUS = """
() => {
  const element = document.activeElement;
  if (!element || element === document.body) return "nothing has the focus";
  const name = element.outerHTML.slice(0, 120);
  const box = element.getBoundingClientRect(), style = getComputedStyle(element);
  if (box.bottom <= 0 || box.right <= 0 || box.top >= innerHeight || box.left >= innerWidth)
    return `out of sight: ${name}`;
  const seen = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const around = element.closest("label, .field-control, .field-file, summary");
  const marked = seen(style) || style.boxShadow !== "none" || (around && seen(getComputedStyle(around)));
  return marked ? "" : `no visible focus: ${name}`;
}
"""


_SETTLE = """
async () => {
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  await frame();
  // What moves for ever, such as a mark of something that runs, does not settle.
  const ending = document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < 2000);
  await Promise.allSettled(ending.map((one) => one.finished));
  await frame();
}
"""


def settle(page: Page) -> None:
    """Wait until a change of theme or width is on the screen."""
    page.evaluate(_SETTLE)


def overflow(page: Page) -> Sequence[str]:
    """What makes a page wider than its window, if anything does."""
    found: Sequence[str] = page.evaluate(_WIDE)
    return found


def nameless(page: Page) -> Sequence[str]:
    """Images without a text that stands for them."""
    found: Sequence[str] = page.evaluate(_NAMELESS)
    return found


def empty_charts(page: Page) -> Sequence[str]:
    """Ids of charts in which nothing is drawn."""
    return [name for name, marks in page.evaluate(_CHARTS) if marks < _FEWEST_MARKS]


def focus_problem(page: Page) -> str:
    """Why somebody who looks at the page would not see where the focus is; empty when they would."""
    found: str = page.evaluate(_FOCUS)
    return found


_FEWEST_MARKS = 5
"""Axes alone have more."""
