"""Colours follow the system or a choice on the screen, and are the light ones on paper."""

from __future__ import annotations

import pytest

from tests.web.frontend.charts import Visit, colour
from tests.web.templates.test_tokens import DARK, LIGHT


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_is_the_systems_unless_one_is_chosen(visit: Visit, system: str):
    page = visit("/chart/rollout").page
    page.emulate_media(color_scheme=system)
    seen = {}
    for choice in ("system", "dark", "light"):
        page.get_by_role("button", name=choice, exact=True).click()
        seen[choice] = colour(page, "page")
        page.emulate_media(media="print")
        assert colour(page, "page") == LIGHT["page"]
        page.emulate_media(media="screen")
    of_system = LIGHT if system == "light" else DARK
    assert seen == {"system": of_system["page"], "dark": DARK["page"], "light": LIGHT["page"]}
