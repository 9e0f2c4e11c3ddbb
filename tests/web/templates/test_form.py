from __future__ import annotations

import pytest

from tests.web.templates.markup import ATTACK, attack_free, call, text

CONTROLS = [
    "text('a.b', x, {value}, error=e, help=h)",
    "number('a.b', x, {value}, error=e, help=h)",
    "select('a.b', x, [(x, x), ('1', 'one')], {value}, error=e, help=h)",
    "textarea('a.b', x, {value}, error=e, help=h)",
    "checkbox('a.b', x, {value}, error=e, help=h)",
    "radio('a.b', x, [(x, x), ('1', 'one')], {value}, error=e, help=h)",
    "file('a.b', x, error=e, help=h)",
]


def control(found):
    return found.select_one("input, select, textarea")


@pytest.mark.parametrize("macro", ["text('a.b', x, 'v', {more})", "select('a.b', x, [], 'v', {more})"])
def test_a_note_has_a_place_of_its_own_even_while_it_is_empty(macro):
    for note in (ATTACK, ""):
        found = call(macro.format(more="note=n, error='e', help='h'"), "form", x="x", n=note)
        attack_free(found)
        assert found.select_one("#f-a-b-note[role=status]").get_text() == note
        assert control(found)["aria-describedby"] == "f-a-b-help f-a-b-note f-a-b-error"
    assert call(macro.format(more="help='h'"), "form", x="x").select("#f-a-b-note") == []


@pytest.mark.parametrize("macro", CONTROLS)
def test_text_shows_as_it_is(macro):
    found = call(macro.format(value="x"), "form", x=ATTACK, e=ATTACK, h=ATTACK)
    attack_free(found)
    assert found.select_one("#f-a-b-error").get_text() == ATTACK
    assert found.select_one("#f-a-b-help").get_text() == ATTACK
    assert ATTACK in found.get_text()


@pytest.mark.parametrize("macro", CONTROLS)
def test_a_control_is_named_and_points_to_its_help_and_error(macro):
    found = call(macro.format(value="'1'"), "form", x="Label", e="Wrong", h="Help")
    assert control(found)["id"] == "f-a-b"
    assert control(found)["name"] == "a.b"
    assert found.find("label").get("for", "f-a-b") == "f-a-b"
    told = found.find(attrs={"aria-invalid": "true"})
    assert told["name"] == "a.b"
    assert told["aria-describedby"].split() == ["f-a-b-help", "f-a-b-error"]
    assert [text(found.find(id=name)) for name in told["aria-describedby"].split()] == ["Help", "Wrong"]


@pytest.mark.parametrize("macro", CONTROLS)
def test_a_control_without_help_or_error_points_nowhere(macro):
    found = call(macro.format(value="'1'"), "form", x="Label", e=None, h="")
    assert not found.find_all(attrs={"aria-describedby": True})
    assert not found.find_all(attrs={"aria-invalid": True})


@pytest.mark.parametrize(("value", "shown"), [("none", ""), ("0", "0"), ("''", ""), ("0.05", "0.05")])
def test_nothing_is_told_from_zero(value, shown):
    assert call(f"number('n', 'N', {value})", "form").input["value"] == shown


def test_controls_take_attributes_of_their_own():
    field = call("text('n', 'N', '', type='url', maxlength=80, autofocus=true, required=true)", "form").input
    assert (field["type"], field["maxlength"], field["autofocus"], field["required"]) == ("url", "80", "", "")


def test_whole_numbers_are_asked_for_by_their_step():
    assert call("number('n', 'N', 1)", "form").input["inputmode"] == "decimal"
    whole = call("number('n', 'N', 1, step=1, min=0)", "form").input
    assert (whole["inputmode"], whole["step"], whole["min"]) == ("numeric", "1", "0")


def test_a_unit_stands_beside_its_control():
    assert text(call("number('n', 'N', 1, unit='tokens')", "form").select_one(".field-unit")) == "tokens"


@pytest.mark.parametrize("macro", ["select", "radio"])
def test_a_choice_is_found_whatever_its_type(macro):
    found = call(f"{macro}('n', 'N', [(1, 'one'), (2, 'two')], '2')", "form")
    chosen = [
        tag["value"]
        for tag in found.find_all(["option", "input"])
        if {"selected", "checked"} & set(tag.attrs)
    ]
    assert chosen == ["2"]


def test_choices_have_ids_of_their_own_and_the_first_has_the_fields():
    found = call("radio('a.n', 'N', [(1, 'one'), (2, 'two')], none)", "form")
    assert [choice["id"] for choice in found.find_all("input")] == ["f-a-n", "f-a-n-2"]
    assert text(found.legend) == "N"


@pytest.mark.parametrize(("value", "ticked"), [("true", True), ("'true'", True), ("'on'", True)])
def test_a_box_is_ticked_again(value, ticked):
    assert call(f"checkbox('n', 'N', {value})", "form").input.has_attr("checked") is ticked


@pytest.mark.parametrize("value", ["none", "false", "''", "'false'"])
def test_a_box_stays_open(value):
    assert not call(f"checkbox('n', 'N', {value})", "form").input.has_attr("checked")


def test_a_text_keeps_the_line_break_that_it_begins_with():
    shown = call("textarea('n', 'N', x)", "form", x="\nfirst\n").textarea.get_text()
    assert shown == "\n\nfirst\n", "browsers drop the first line break after the tag"


def test_the_summary_leads_to_the_fields():
    found = call("error_summary(errors)", "form", errors={"a.b": ATTACK, "": "The form is too old"})
    attack_free(found)
    assert found.a["href"] == "#f-a-b"
    assert found.a.get_text() == ATTACK
    box = found.select_one("[data-error-summary]")
    assert (box["tabindex"], box["role"]) == ("-1", "alert")
    assert text(box.p) == "2 things need a change"
    assert len(found.find_all("a")) == 1, "what is said of no field leads nowhere"


def test_a_form_without_errors_has_no_summary():
    assert text(call("error_summary({})", "form")) == ""
