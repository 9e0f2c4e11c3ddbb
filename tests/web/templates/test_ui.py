from __future__ import annotations

import pytest

from tests.web.templates.markup import ATTACK, attack_free, call, environment, soup, text
from web.filters import NONE


@pytest.mark.parametrize(
    "macro",
    [
        "state(x)",
        "button(x)",
        "button(x, x, title=x)",
        "submit(x)",
        "empty(x, x, x, x)",
        "notice('bad', x, x)",
        "stat(x, x, x, x)",
        "meter(1, 2, x)",
        "tabs([(x, x, x)], x)",
        "pager(x, x)",
        "copy_button(x, x)",
        "export_menu(table=x, chart=x, name=x, csv_url=x, json_url=x)",
        "key_values([(x, x)])",
        "crumbs([(x, x)])",
    ],
)
def test_text_shows_as_it_is(macro):
    found = call(macro, "ui", x=ATTACK)
    attack_free(found)
    values = [value for tag in found.find_all(True) for value in tag.attrs.values()]
    assert ATTACK in found.get_text() or ATTACK in values


def test_a_card_escapes_its_title_and_keeps_the_markup_inside():
    page = environment().from_string(
        '{% from "macros/ui.html" import card with context %}{% call card(x, id="here") %}<i>in</i>{% endcall %}'
    )
    found = soup(page.render(x=ATTACK))
    attack_free(found)
    assert found.h2.get_text() == ATTACK
    assert found.select_one("section#here > i") is not None


@pytest.mark.parametrize(
    ("name", "shape"), [("running", "play"), ("failed", "cross"), ("STALE", "clock"), ("unheard-of", "ring")]
)
def test_a_state_is_told_by_word_and_shape(name, shape):
    found = call(f"state('{name}')", "ui")
    assert text(found) == name
    assert found.use["href"] == f"#icon-{shape}"


def test_shapes_of_opposite_states_differ():
    def shape(name):
        return call(f"state('{name}')", "ui").use["href"]

    for one, other in [
        ("feasible", "infeasible"),
        ("live", "silent"),
        ("FRESH", "STALE"),
        ("running", "paused"),
    ]:
        assert shape(one) != shape(other)


def test_every_shape_is_an_icon_of_the_page():
    page = soup(environment().get_template("icons.html").render())
    icons = {symbol["id"] for symbol in page.find_all("symbol")}
    names = (
        "running",
        "paused",
        "cancelled",
        "pending",
        "live",
        "silent",
        "draining",
        "EXPIRED",
        "NONE",
        "?",
    )
    used = {call(f"state('{name}')", "ui").use["href"][1:] for name in names}
    assert used <= icons


def test_a_button_takes_attributes_of_its_own():
    link = call("button('Cancel', '/x', kind='danger', data_dialog=true, title=none, hidden=false)", "ui").a
    assert link.attrs == {"class": ["button", "danger"], "href": "/x", "data-dialog": ""}
    plain = call("button('Do', aria_controls='there')", "ui").button
    assert (plain["type"], plain["aria-controls"]) == ("button", "there")


def test_a_form_carries_the_token_of_the_session():
    field = call("csrf()", "ui", {"csrf_token": lambda: "t1"}).input
    assert (field["type"], field["name"], field["value"]) == ("hidden", "csrf_token", "t1")


def test_a_figure_that_is_not_known_is_a_dash():
    assert text(call("stat('Cost', none)", "ui")) == f"Cost {NONE}"
    assert text(call("key_values([('Cost', none), ('Zero', 0)])", "ui")) == f"Cost {NONE} Zero 0"


def test_a_meter_says_its_figures_and_names_its_bar():
    found = call("meter(187, 435, 'Level 2')", "ui")
    assert text(found) == "Level 2 187 of 435 · 43 %"
    assert found.progress.attrs == {"value": "187", "max": "435", "aria-label": "Level 2"}


@pytest.mark.parametrize("total", ["none", "0"])
def test_a_meter_without_a_total_has_no_bar(total):
    found = call(f"meter(5, {total}, 'Level 2')", "ui")
    assert found.progress is None
    assert text(found) == "Level 2 5"


def test_the_current_tab_is_marked():
    found = call("tabs([('A', '/a', 'a'), ('B', '/b', 'b')], 'b')", "ui")
    assert [link.get("aria-current") for link in found.find_all("a")] == [None, "page"]


def test_a_list_that_fits_has_no_pager():
    assert text(call("pager(none)", "ui")) == ""
    assert [link["href"] for link in call("pager('/n', '/f')", "ui").find_all("a")] == ["/f", "/n"]


def test_the_export_menu_offers_what_there_is():
    found = call("export_menu(table='t', csv_url='/all', name='jobs')", "ui")
    assert [item["data-export"] for item in found.find_all("button")] == ["csv", "json"]
    assert found.a.attrs == {"href": "/all", "download": "jobs.csv"}
    assert [item["data-export"] for item in call("export_menu(chart='c')", "ui").find_all("button")] == [
        "png",
        "svg",
    ]
