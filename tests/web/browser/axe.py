"""What axe-core says of a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

FILE = Path(__file__).resolve().parents[3] / "web" / "static" / "dist-test" / "axe.min.js"
COLOURS = ("color-contrast", "link-in-text-block")
"""Rules whose answer the theme changes."""
_GRAVE = ("serious", "critical")

_RUN = """
async (rules) => {
  const options = { resultTypes: ["violations"], preload: false };
  if (rules.length) options.runOnly = { type: "rule", values: rules };
  const found = await window.axe.run(document, options);
  return found.violations.map((one) => [
    one.impact,
    `${one.id} (${one.impact}): ${one.help}`,
    one.nodes.map((node) => `    ${node.target.join(" ")}: ${node.html.slice(0, 200)} | ${node.failureSummary}`),
  ]);
}
"""


def bring(context: BrowserContext) -> None:
    """Let every page that the context opens have axe; a policy that lets nothing in stays as it is."""
    if not FILE.exists():
        pytest.fail(f"{FILE.name} is not built; run 'make setup' first", pytrace=False)
    context.add_init_script(path=FILE)


def grave_findings(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Serious and critical findings, each with the elements; of these rules alone where some are given."""
    found = page.evaluate(_RUN, list(rules))
    return ["\n".join([what, *nodes]) for impact, what, nodes in found if impact in _GRAVE]
