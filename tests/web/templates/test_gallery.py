"""All macros together on one page: what they point to is there."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.web.templates.markup import soup
from web.frontend.gallery.components import gallery


@pytest.fixture(scope="module")
def page():
    return soup(gallery())


def test_no_id_is_given_twice(page):
    ids = Counter(tag["id"] for tag in page.find_all(id=True))
    assert [name for name, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("attribute", ["for", "aria-describedby", "aria-labelledby"])
def test_what_is_pointed_to_is_there(page, attribute):
    tags = page.find_all(attrs={attribute: True})
    assert tags
    # The parser gives a list for some of these attributes, and a text for others.
    pointed = {name for tag in tags for name in " ".join([*tag.get_attribute_list(attribute)]).split()}
    assert {name for name in pointed if page.find(id=name) is None} == set()


def test_every_icon_that_is_used_is_drawn(page):
    used = {use["href"] for use in page.find_all("use")}
    assert used - {f"#{symbol['id']}" for symbol in page.find_all("symbol")} == set()


def test_every_control_has_a_name_to_read_out(page):
    labels = {label["for"] for label in page.find_all("label", attrs={"for": True})}
    for control in page.select("input:not([type=hidden]), select, textarea"):
        assert control["id"] in labels or control.find_parent("label") is not None


def test_every_button_without_text_says_what_it_does(page):
    for button in page.select("button, summary, a"):
        assert button.get_text(strip=True) or button.get("aria-label"), str(button)[:200]
