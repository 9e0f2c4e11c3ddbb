from __future__ import annotations

import pytest
from jinja2 import TemplateRuntimeError

from tests.web.templates.markup import ATTACK, attack_free, environment, soup, text
from web.frontend.gallery.components import Person


def page(source, given=None, **values):
    return soup(environment(**given or {}).from_string('{% extends "base.html" %}' + source).render(**values))


PLAIN = "{% block title %}Jobs{% endblock %}"


def test_a_page_has_one_heading_and_its_landmarks():
    found = page(PLAIN)
    assert text(found.title) == "Jobs · Skipmap"
    assert [text(heading) for heading in found.find_all("h1")] == ["Jobs"]
    assert [len(found.find_all(name)) for name in ("header", "main", "footer")] == [1, 1, 1]
    assert found.select_one("a.skip-link")["href"] == f"#{found.main['id']}"
    assert found.html["lang"] == "en"


def test_a_page_without_a_title_is_refused():
    with pytest.raises(TemplateRuntimeError, match="title"):
        page("")


def test_parts_that_a_page_leaves_out_leave_nothing_behind():
    found = page(PLAIN)
    assert not found.select(".crumbs, .page-actions, .help")
    full = page(
        PLAIN + "{% block crumbs %}<li><a href='/maps'>Maps</a></li>{% endblock %}"
        "{% block actions %}<a href='/do'>Do</a>{% endblock %}{% block help %}<p>Why</p>{% endblock %}"
    )
    assert (
        len(full.select(".crumbs a"))
        == len(full.select(".page-actions a"))
        == len(full.select(".help p"))
        == 1
    )


def test_the_navigation_marks_where_one_is_and_hides_what_is_not_for_one():
    nav = [("Jobs", "/jobs", "jobs", True), ("Admin", "/admin", "admin", False)]
    found = page(PLAIN, {"nav": nav, "section": "jobs"})
    for each in found.select('nav[aria-label="Main"]'):
        assert [(text(link), link.get("aria-current")) for link in each.find_all("a")] == [("Jobs", "page")]


def test_a_visitor_gets_no_menus():
    found = page(PLAIN, {"me": None, "may": lambda scope: False})
    assert not found.select('nav[aria-label="Main"], .user-menu, .new-job')
    assert found.select_one(".brand")["href"] == "#sign_in"


def test_only_who_may_start_jobs_sees_the_button():
    assert page(PLAIN, {"may": lambda scope: scope == "jobs:write"}).select(".new-job")
    assert not page(PLAIN, {"may": lambda scope: scope == "jobs:read"}).select(".new-job")


def test_signing_out_is_a_form_with_the_token():
    form = page(PLAIN).select_one('form[action="#sign_out"]')
    assert form["method"] == "post"
    assert form.select_one('input[name="csrf_token"]')["value"] == "a-token"


def test_names_and_messages_show_as_they_are():
    class Mallory:
        user_name, user_id = ATTACK, "u1"

    found = page(
        PLAIN, {"me": Mallory(), "toasts": lambda: [("bad", ATTACK)], "nav": [(ATTACK, "/", "x", True)]}
    )
    assert all(script.has_attr("src") for script in found.find_all("script"))
    assert found.select_one(".toast p").get_text() == ATTACK
    assert found.select_one(".user-menu strong").get_text() == ATTACK


def test_what_an_address_asks_for_in_vain_is_told_as_text():
    found = page(PLAIN, {"leftovers": lambda: [ATTACK, "limit: must be at least 1"]})
    assert [item.get_text() for item in found.select(".notice-warning li")] == [
        ATTACK,
        "limit: must be at least 1",
    ]
    assert not page(PLAIN).select(".notice")


def test_scripts_are_told_which_forms_have_done_their_work():
    found = page(PLAIN, {"sent_forms": lambda: ["one", "two"]})
    assert found.select_one('meta[name="sent-forms"]')["content"] == "one two"
    assert not page(PLAIN).select('meta[name="sent-forms"]')


def test_the_footer_tells_the_release_whatever_a_page_calls_a_version():
    assert "Skipmap 1.2.3" in text(page(PLAIN, version="version 7 of a map").footer)


def test_scripts_are_told_whose_page_it_is():
    assert page(PLAIN).select_one('meta[name="user"]')["content"] == Person().user_id
    assert not page(PLAIN, {"me": None}).select('meta[name="user"], meta[name="csrf-token"]')


def test_what_failed_is_read_out_at_once():
    found = page(PLAIN, {"toasts": lambda: [("good", "Done"), ("bad", "Not done")]})
    assert [text(alert) for alert in found.select('.toast [role="alert"]')] == ["Not done"]


def test_messages_are_read_out():
    found = page(PLAIN, {"toasts": lambda: [("good", "Done"), ("warning", "Look")]})
    assert found.select_one('[role="status"] > ol[data-toasts]') is not None
    assert [text(toast) for toast in found.select(".toast")] == ["Done", "Look"]
    assert all(button["aria-label"] == "Dismiss" for button in found.select("[data-toast-close]"))


DIALOG = (
    '{% extends "dialog.html" %}{% block title %}Cancel {{ name }}?{% endblock %}'
    "{% block text %}<p>{{ name }}</p>{% endblock %}{% block confirm %}Cancel the job{% endblock %}"
)


def test_a_question_is_a_page_with_a_form():
    source = environment().from_string(DIALOG)
    found = soup(source.render(name=ATTACK, action="/do", back="/jobs", danger=True))
    form = found.select_one("form.dialog-form")
    assert (form["method"], form["action"]) == ("post", "/do")
    assert form.select_one('input[name="csrf_token"]') is not None
    assert text(form.select_one("button.danger")) == "Cancel the job"
    assert form.select_one("a[data-dialog-close]")["href"] == "/jobs"
    assert found.h1.get_text() == f"Cancel {ATTACK}?"
    attack_free(form)


def test_the_part_for_a_dialog_stands_alone():
    source = environment().from_string(DIALOG)
    context = source.new_context({"name": "qa", "action": "/do", "back": "/jobs"})
    next(source.root_render_func(context))
    found = soup("".join(context.blocks["dialog"][0](context)))
    assert text(found.find(id="dialog-title")) == "Cancel qa?"
    assert found.select_one("button.primary") is not None, "not dangerous unless said"
    assert found.html is None


@pytest.mark.parametrize("me", [None, object()])
def test_an_error_says_what_to_do_and_what_to_report(me):
    class Person:
        user_name, user_id = "Ada", "u1"

    template = environment(me=me and Person(), request_id="r-17").get_template("error.html")
    found = soup(template.render(status=404, title=ATTACK, detail=ATTACK, advice="Go back."))
    attack_free(found.main)
    assert found.h1.get_text() == ATTACK
    assert "Go back." in text(found)
    assert text(found.code) == "r-17"
    assert found.select_one("main a.primary")["href"] == ("#show_jobs" if me else "#sign_in")
