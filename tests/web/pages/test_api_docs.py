"""The API's description: every call, with an example that the API takes."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from api.openapi import document
from web.api_reference import body_example, find, operations, tags

CALLS = {operation.id: operation for operation in operations()}


def ids(text: str) -> set[str]:
    """Calls that a search finds."""
    return {call.id for call in find(text)[0]}


def bodies() -> list[str]:
    """Names of the documents that calls take."""
    contents = [
        call.about["requestBody"]["content"] for call in CALLS.values() if "requestBody" in call.about
    ]
    return sorted(
        {c["application/json"]["schema"]["$ref"].split("/")[-1] for c in contents if "application/json" in c}
    )


def test_every_call_is_there(visitor):
    page = visitor.page("/docs")
    shown = {str(part["id"]) for part in page.all("details[id]")}
    schemas = {f"schema-{name}" for name in document()["components"]["schemas"]}
    assert shown == set(CALLS) | schemas
    assert {call.tag for call in CALLS.values()} == set(tags())


def test_links_inside_the_page_lead_somewhere(visitor):
    page = visitor.page("/docs")
    places = {str(part["id"]) for part in page.all("[id]")}
    for link in page.all('a[href^="#"]'):
        assert str(link["href"])[1:] in places, link


def test_no_id_is_there_twice(visitor):
    ids = [str(part["id"]) for part in visitor.page("/docs").all("[id]")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("model", bodies())
def test_examples_of_bodies_fit_their_schemas(model):
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{model}", "components": document()["components"]}
    Draft202012Validator(schema).validate(body_example(model))


@pytest.mark.parametrize("name", list(CALLS))
def test_examples_are_lines_for_a_shell(name):
    call = CALLS[name]
    words = shlex.split(call.example.replace("\\\n", " "))
    assert words[0] == "curl"
    assert words[-1].startswith("$SKIPMAP_SERVER/")
    assert "{" not in words[-1]
    needs_token = bool(call.about["security"])
    assert ("Authorization: Bearer $SKIPMAP_TOKEN" in words) == needs_token
    if "-d" in words:
        json.loads(words[words.index("-d") + 1])
    for parameter in call.about["parameters"]:
        if parameter["in"] == "query" and parameter.get("required"):
            assert f"{parameter['name']}=" in words[-1]


def test_an_example_with_a_body_works_as_it_stands(app, make_caller):
    caller = make_caller("jobs:read", "jobs:write")
    words = shlex.split(CALLS["create_job"].example.replace("\\\n", " "))
    answer = caller.post("/jobs", data=words[words.index("-d") + 1], content_type="application/json")
    assert answer.status_code == 202


def test_calls_are_found_by_their_words(visitor):
    assert ids("post /maps versions") == {"create_version"}
    assert ids("") == set(CALLS)
    page = visitor.page("/docs?find=IDEMPOTENCY-key")
    shown = {str(part["id"]) for part in page.all("details[id]") if not str(part["id"]).startswith("schema-")}
    assert shown == {"create_job", "create_version"}
    assert "2\u00a0calls of" in page.soup.get_text()
    nothing = visitor.page("/docs?find=<script>")
    assert "No call fits" in nothing.text
    assert not [script for script in nothing.all("script") if not script.get("src")]


@pytest.mark.parametrize(
    "text", ["rollback", "roll back", "Roll-Back", "undo channel", "deployment", "PUT promot"]
)
def test_a_rollback_is_found_however_it_is_called(visitor, text):
    assert "put_channel" in ids(text)
    page = visitor.page("/docs", query_string={"find": text})
    assert page.all("details#put_channel")
    assert "No call" not in page.text


def test_where_no_call_has_all_words_those_with_most_are_shown(visitor):
    found, is_whole = find("rollback channel zebra")
    assert ([call.id for call in found], is_whole) == (["put_channel"], False)
    page = visitor.page("/docs?find=rollback+channel+zebra")
    assert page.all("details#put_channel")
    assert "No call has all of “rollback channel zebra”" in page.text
    assert find("zebra") == ((), False)


def test_it_says_what_a_call_needs_and_which_problems_there_are(visitor):
    page = visitor.page("/docs")
    assert "Needs: maps:publish." in page.one("#put_channel").get_text()
    assert "Open to everybody." in page.one("#get_health").get_text()
    types = [row[1] for row in page.table("problem-kinds")]
    assert "urn:skipmap:problem:gate-refused" in types


def test_it_costs_little_the_second_time(visitor):
    answer = visitor.get("/docs")
    again = visitor.get("/docs", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
