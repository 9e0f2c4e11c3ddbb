"""Rendering: pages, parts of them, and answers of "nothing new"."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from flask import Flask, Response
from jinja2 import DictLoader, UndefinedError
from werkzeug.wrappers import Response as BaseResponse

import web
from tests.web.site import Site
from web.guard import CSRF_FIELD
from web.mask import unmasked
from web.rendering import PARTS, data_response, done, not_changed, refused, render
from web.routes import PageRoute, register

TEMPLATES = {
    "base.html": "<title>{% block title %}{% endblock %}</title>{{ helper() }}{% block content %}{% endblock %}"
    "{% for kind, text in toasts() %}<p class='{{ kind }}'>{{ text }}</p>{% endfor %}",
    "macros.html": "{% macro shout(text) %}{{ text|upper }}{{ csrf_token()|length > 20 }}{% endmacro %}",
    "page.html": "{% extends 'base.html' %}{% from 'macros.html' import shout with context %}"
    "{% block title %}{{ name }}{% endblock %}"
    "{% block content %}<main>{% block part %}{{ shout(name) }}{{ me.user_name }}{% endblock %}</main>{% endblock %}",
    "child.html": "{% extends 'page.html' %}{% block part %}child {{ name }} {{ super() }}{% endblock %}",
    "wrong.html": "{{ nowhere }}",
    "token.html": '["{{ csrf_token() }}","{{ csrf_token() }}"]',
    "form.html": "{{ errors.name }}/{{ name }}",
}


def show_page() -> Response:
    return render("page.html", name="<ada>")


def show_child() -> Response:
    return render("child.html", name="ada")


def show_tagged() -> Response:
    return not_changed("7") or render("page.html", name="tagged", tag="7")


def show_wrong() -> Response:
    return render("wrong.html")


def show_token() -> Response:
    return render("token.html")


def show_data() -> Response:
    return data_response({"name": "ä", "x": [1.5, None]})


def show_nan() -> Response:
    return data_response({"x": float("nan")})


def show_refused() -> Response:
    return refused("form.html", {"name": "too <long>"}, name="x")


def show_missing() -> Response:
    return render("page.html", status=404, name="x")


def change() -> BaseResponse:
    return done("<b>done</b>", "/t/page")


def change_badly() -> BaseResponse:
    return done("no", "/t/page", kind="terrible")


@pytest.fixture
def front(app, monkeypatch) -> Flask:
    monkeypatch.setattr("web.rendering.PARTS", {"part", "nothing"})
    front: Flask = app.extensions["skipmap-pages"]
    front._got_first_request = False
    front.jinja_env.loader = DictLoader({**TEMPLATES, "error.html": "{{ title }}: {{ detail }}"})
    front.jinja_env.globals["helper"] = lambda: "helped"
    views = (
        show_page,
        show_child,
        show_tagged,
        show_wrong,
        show_token,
        show_data,
        show_nan,
        show_refused,
        show_missing,
    )
    for view in views:
        register(front, PageRoute("GET", f"/t/{view.__name__.removeprefix('show_')}", "signed in", view))
    for view in (change, change_badly):
        register(front, PageRoute("POST", f"/t/{view.__name__}", "signed in", view))
    return front


@pytest.fixture
def person(front, make_site) -> Site:
    return make_site("viewer")


def test_a_page_comes_whole_and_escaped(person):
    answer = person.get("/t/page")
    assert answer.get_data(as_text=True) == (
        "<title>&lt;ada&gt;</title>helped<main>&lt;ADA&gt;Trueviewer 0</main>"
    )
    assert answer.content_type == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert {"X-Fragment", "Cookie"} <= set(answer.headers["Vary"].replace(" ", "").split(","))


def test_a_part_comes_alone_with_the_macros_of_its_page(person):
    answer = person.get("/t/page", headers={"X-Fragment": "part"})
    assert answer.get_data(as_text=True) == "&lt;ADA&gt;Trueviewer 0"
    assert (
        person.get("/t/child", headers={"X-Fragment": "part"})
        .get_data(as_text=True)
        .startswith("child ada ADA")
    )


@pytest.mark.parametrize("name", ["nothing", "", "__class__", "part\u00e9", "title", "content"])
def test_what_is_no_part_is_not_found(person, name):
    answer = person.get("/t/page", headers={"X-Fragment": name})
    assert answer.status_code == 404
    assert answer.mimetype == "application/json"


def test_nothing_new_costs_no_body(person):
    first = person.get("/t/page")
    assert first.headers["ETag"].startswith('W/"')
    again = person.get("/t/page", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.get_data()) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Cache-Control"] == "private, no-cache"


def test_tags_differ_by_part_and_person(person, make_site):
    tags = {
        person.get("/t/tagged").headers["ETag"],
        person.get("/t/tagged", headers={"X-Fragment": "part"}).headers["ETag"],
        make_site("viewer").get("/t/tagged").headers["ETag"],
    }
    assert len(tags) == 3
    whole = person.get("/t/tagged").headers["ETag"]
    found = {tag: person.get("/t/tagged", headers={"If-None-Match": tag}).status_code for tag in tags}
    assert found == {tag: 304 if tag == whole else 200 for tag in tags}
    assert person.get("/t/tagged", headers={"If-None-Match": whole, "X-Fragment": "part"}).status_code == 200


@pytest.mark.parametrize("path", ["/t/tagged", "/t/page", "/t/data"])
def test_other_assets_make_every_page_new(person, monkeypatch, path):
    tag = person.get(path).headers["ETag"]
    assert person.get(path, headers={"If-None-Match": tag}).status_code == 304
    monkeypatch.setattr("web.rendering.build_id", lambda: "another")
    assert person.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_a_token_is_written_in_another_way_each_time_and_the_page_stays_the_same(person):
    first, second = (person.get("/t/token") for _ in range(2))
    tokens = [json.loads(answer.get_data()) for answer in (first, second)]
    assert tokens[0][0] == tokens[0][1]
    assert tokens[0][0] != tokens[1][0]
    assert first.headers["ETag"] == second.headers["ETag"]
    again = person.get("/t/token", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    for shown, _ in tokens:
        assert person.client.post("/t/change", data={CSRF_FIELD: shown}).status_code == 303
    plain = unmasked(tokens[0][0]).decode()
    assert person.client.post("/t/change", data={CSRF_FIELD: plain}).status_code == 403


def test_a_cheap_tag_saves_the_work(person, monkeypatch):
    tag = person.get("/t/tagged").headers["ETag"]
    monkeypatch.setattr("tests.web.test_rendering.render", None)
    answer = person.get("/t/tagged", headers={"If-None-Match": f'"other", {tag}'})
    assert answer.status_code == 304
    assert person.get("/t/tagged", headers={"If-None-Match": "*"}).status_code == 304


def test_a_message_is_shown_once_and_makes_the_page_new(person):
    tag = person.get("/t/tagged").headers["ETag"]
    answer = person.post("/t/change")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/t/page")
    assert person.get("/t/tagged", headers={"If-None-Match": tag}).status_code == 200
    person.post("/t/change")
    text = person.get("/t/page").get_data(as_text=True)
    assert "<p class='good'>&lt;b&gt;done&lt;/b&gt;</p>" in text
    assert "done" not in person.get("/t/page").get_data(as_text=True)
    assert person.get("/t/tagged", headers={"If-None-Match": tag}).status_code == 304


def test_a_part_leaves_messages_for_the_page(person):
    person.post("/t/change")
    person.get("/t/page", headers={"X-Fragment": "part"})
    assert "done" in person.get("/t/page").get_data(as_text=True)


def test_a_message_of_no_known_kind_is_a_mistake(person):
    assert person.post("/t/change_badly").status_code == 500


def test_an_unknown_variable_is_a_mistake(person, front):
    assert person.get("/t/wrong").status_code == 500
    with pytest.raises(UndefinedError), front.test_request_context("/"):
        render("wrong.html")


def test_data_is_compact_and_conditional(person):
    answer = person.get("/t/data")
    assert answer.get_data(as_text=True) == '{"name":"ä","x":[1.5,null]}'
    assert json.loads(answer.get_data()) == answer.get_json()
    assert person.get("/t/data", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    assert person.get("/t/nan").status_code == 500


def test_a_refused_form_is_no_success(person):
    answer = person.get("/t/refused")
    assert answer.status_code == 422
    assert answer.get_data(as_text=True) == "too &lt;long&gt;/x"


def test_a_failure_is_never_nothing_new(person):
    answer = person.get("/t/missing")
    again = person.get("/t/missing", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 404


_LIVE = re.compile(r'data-live="(\w+)"')
_FOLLOWING = re.compile(r"data-refresh-from=[^>]*>\s*\{%-? block (\w+)")


def test_the_parts_are_those_that_scripts_ask_for():
    templates = Path(web.__file__).parent / "templates"
    sources = [path.read_text() for path in templates.rglob("*.html")]
    asked = {name for text in sources for pattern in (_LIVE, _FOLLOWING) for name in pattern.findall(text)}
    assert asked | {"dialog"} == PARTS


def test_no_part_of_any_page_is_a_failure(site):
    front = site.client.application.extensions["skipmap-pages"]
    paths = [rule.rule for rule in front.url_map.iter_rules() if "GET" in rule.methods and not rule.arguments]
    assert len(paths) > 15
    for path in paths:
        for name in ("content", "title", *sorted(PARTS)):
            answer = site.get(path, headers={"X-Fragment": name}, buffered=True)
            assert answer.status_code < 500, (path, name)
