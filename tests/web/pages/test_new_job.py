from __future__ import annotations

import io
import json
import re
import shlex

import pytest

from skipmap.client.documents import JobRequest
from skipmap.drafts.registry import draft_names
from tests.web.site import Page
from web.forms import choices
from web.forms.fields import fields
from web.forms.parameters import parameters_of

EVIL = '"><script>alert(1)</script>'
LONG = "x" * 20_000
NEW = "/jobs/new"
COMPLETE = {
    "target.choice": "smollm2-135m-instruct",
    "draft.method": "sam",
    "domain.choice": "qa",
    "calibration.kind": "sample",
    "calibration.sample": "qa",
}


@pytest.fixture
def untouched(site) -> dict[str, str]:
    """What the form sends that nobody has touched."""
    return site.page(NEW).form(NEW)


@pytest.fixture
def submit(site, untouched, bench):
    """Send the form with some changes; returns the id of the new job."""

    def act(**more: str) -> str:
        answer = site.post(NEW, {**untouched, **COMPLETE, **more})
        assert answer.status_code == 303, Page(answer).errors
        return answer.headers["Location"].rpartition("/")[2]

    return act


def refused(site, typed: dict[str, str], status: int = 422) -> Page:
    answer = site.post(NEW, typed)
    assert answer.status_code == status, answer.get_data(as_text=True)[:500]
    return Page(answer)


def fragment(site, name: str, typed: dict[str, str]) -> Page:
    answer = site.post(f"/jobs/{name}", typed, headers={"X-Fragment": name, "X-Requested-With": "fetch"})
    assert answer.status_code == 200, answer.get_data(as_text=True)[:500]
    return Page(answer)


def spec_of(bench, job_id: str) -> dict:
    (spec,) = bench.sql("SELECT spec FROM jobs WHERE id = :id", id=job_id)
    return spec


def test_the_form_has_every_field(site):
    page = site.page(NEW)
    names = {str(control["name"]) for control in page.all("#job [name]")}
    more = {"target.choice", "domain.choice", "decoding.stop_from", "calibration.kind"}
    more |= {
        "calibration.set",
        "calibration.sample",
        "calibration.hub",
        "csrf_token",
        "idempotency_key",
        "file",
    }
    parameters = {
        f"draft.params.{method}:{parameter.name}"
        for method in draft_names()
        for parameter in parameters_of(method)
    }
    # Of the prompts there is a control for each kind of source; buttons for browsers without scripts have a name too.
    assert names - {"do"} == (set(fields()) - {"calibration.source"}) | more | parameters


def test_every_control_has_a_label_and_help(site):
    page = site.page(NEW)
    ids = [str(element["id"]) for element in page.all("[id]")]
    assert len(ids) == len(set(ids))
    for control in page.all("#job input:not([type=hidden]), #job select, #job textarea"):
        name = str(control["id"])
        assert control.find_parent("label") or page.all(f'label[for="{name}"]'), name
        if control.get("type") != "radio":
            assert f"{name}-help" in str(control.get("aria-describedby", "")), name
            assert page.soup.find(id=f"{name}-help").get_text().strip()


def test_parameters_show_for_their_method(site):
    page = site.page(NEW)
    shown = [str(part["data-show-for"]) for part in page.all("#job fieldset[data-show-for]")]
    assert shown == [f"draft.method:{method}" for method in draft_names()]
    sam = page.one('fieldset[data-show-for="draft.method:sam"]')
    growth = sam.find(attrs={"name": "draft.params.sam:growth"})
    assert (growth["placeholder"], growth["value"]) == ("default 4.0", "")


def test_a_complete_form_makes_a_job(site, submit, bench):
    job = submit(name="a name", labels="team=search\nkind = night", priority="7", **{"search.eps": ".1"})
    spec = spec_of(bench, job)
    assert spec["target"]["id"] == "smollm2-135m-instruct"
    assert (spec["domain"]["metric"], spec["calibration"]["source"]) == ("f1", "sample:qa")
    assert (spec["search"]["eps"], spec["search"]["max_depth"]) == (0.1, 3)
    assert bench.sql("SELECT name, labels, priority FROM jobs") == [
        ("a name", {"team": "search", "kind": "night"}, 7)
    ]
    assert "The job is submitted." in site.page(f"/jobs/{job}").text
    assert bench.sql("SELECT action FROM audit WHERE action LIKE 'job%'") == ["job.submit"]


def test_a_double_click_makes_one_job(site, untouched, bench):
    typed = {**untouched, **COMPLETE}
    first, second = site.post(NEW, typed), site.post(NEW, typed)
    assert first.headers["Location"] == second.headers["Location"]
    assert bench.sql("SELECT count(*) FROM jobs") == [1]
    assert "submitted before" in site.page(second.headers["Location"]).text
    page = refused(site, {**typed, "search.max_depth": "2"})
    assert "has made a job before" in page.one("[data-error-summary]").get_text()
    again = page.form(NEW)
    assert again["idempotency_key"] != typed["idempotency_key"]
    assert site.post(NEW, again).status_code == 303
    assert bench.sql("SELECT count(*) FROM jobs") == [2]


@pytest.mark.parametrize("key", ["", "x" * 300, "ö", "\x00"])
def test_a_key_that_cannot_be_kept_is_replaced(site, untouched, key):
    answer = site.post(NEW, {**untouched, **COMPLETE, "idempotency_key": key})
    assert answer.status_code == 303


def test_wrong_values_come_back_as_typed_with_their_errors(site, untouched, bench):
    typed = {
        **untouched,
        **COMPLETE,
        "search.eps": "abc",
        "search.max_depth": "0",
        "draft.params.sam:growth": "-1",
        "decoding.temperature": "hot",
        "calibration.limit": "1.5",
        "name": "kept",
        "labels": "no pair",
    }
    page = refused(site, typed)
    wrong = {"search.eps", "search.max_depth", "decoding.temperature", "calibration.limit", "labels"}
    assert set(page.errors) == wrong
    assert page.errors["search.eps"] == "Must be a number (given: 'abc')"
    again = page.form(NEW)
    assert {name: again[name] for name in typed if name != "csrf_token"} == {
        name: value for name, value in typed.items() if name != "csrf_token"
    }
    summary = [str(link["href"]) for link in page.all("[data-error-summary] a")]
    assert summary[0] == "#f-calibration-limit"
    assert all(page.soup.find(id=address.removeprefix("#")) for address in summary)
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


def test_an_empty_form_says_what_is_needed(site, untouched):
    page = refused(site, untouched)
    assert set(page.errors) == {"target.choice", "draft.method", "domain.choice", "calibration.kind"}


def test_unknown_parameters_and_names(site, untouched):
    typed = {
        **untouched,
        **COMPLETE,
        "target.choice": "-other",
        "target.id": "nowhere",
        "draft.params.sam:growth": "-1",
        "draft.params": "fancy=1",
        "domain.metric": "beauty",
    }
    page = refused(site, typed)
    assert set(page.errors) == {"target.id", "draft.params.sam:growth", "draft.params", "domain.metric"}
    assert "no such parameter" in page.errors["draft.params"]
    # What folds away rare fields is open where one of them is wrong.
    assert page.soup.find(id="f-draft-params").find_parent("details").has_attr("open")
    assert not page.soup.find(id="f-target-dtype").find_parent("details").has_attr("open")
    again = page.form(NEW)
    assert (again["target.id"], again["domain.metric"]) == ("nowhere", "beauty")


def test_what_only_a_closer_look_shows(site, untouched, tmp_path):
    page = refused(site, {**untouched, **COMPLETE, "calibration.category": "none such"})
    assert set(page.errors) == {"calibration.category"}
    page = refused(
        site, {**untouched, **COMPLETE, "calibration.kind": "hub", "calibration.hub": str(tmp_path)}
    )
    assert set(page.errors) == {"calibration.hub"}
    page = refused(site, {**untouched, **COMPLETE, "calibration.kind": "set", "calibration.set": "gone"})
    assert set(page.errors) == {"calibration.set"}
    assert "gone (not known here)" in page.text


def test_a_domain_of_ones_own(submit, bench):
    job = submit(**{"domain.choice": "-other", "domain.name": "tickets", "domain.metric": "rougeL"})
    assert spec_of(bench, job)["domain"] == {
        "name": "tickets",
        "metric": "rougeL",
        "template": "chat",
        "shots": 0,
    }


def test_parameters_with_their_types(submit, bench):
    job = submit(
        **{
            "draft.method": "token_recycling",
            "draft.params.token_recycling:width": "4",
            "draft.params.token_recycling:from_prompt": "true",
            "draft.params.token_recycling:update": "accepted",
            "draft.params.sam:growth": "9",
            "draft.state": "run",
            "decoding.stop_from": "own",
            "decoding.stop": '"\\n"\r\nEND',
        }
    )
    spec = spec_of(bench, job)
    assert spec["draft"]["params"] == {"width": 4, "from_prompt": True, "update": "accepted"}
    assert spec["draft"]["state"] == "run"
    assert spec["decoding"]["stop"] == ["\n", "END"]


def test_names_of_ones_own(site, submit, bench, admin):
    for kind, definition in (
        ("targets", {"id": "owner/model", "dtype": "float16"}),
        ("drafts", {"method": "sam", "params": {"growth": 2.0, "min_match": 3}}),
    ):
        assert admin.post(f"/{kind}", json={"name": "mine", "definition": definition}).status_code == 201
    page = site.page(NEW)
    assert "mine (own, owner/model)" in page.text
    own = page.one('fieldset[data-show-for="draft.method:mine"]')
    assert "Sam with growth = 2.0, min_match = 3" in own.get_text()
    assert own.find(attrs={"name": "draft.params.mine:growth"})["placeholder"] == "default 2.0"
    job = submit(**{"target.choice": "mine", "draft.method": "mine", "draft.params.mine:min_match": "5"})
    spec = spec_of(bench, job)
    assert (spec["target"]["id"], spec["target"]["dtype"]) == ("owner/model", "float16")
    assert spec["draft"]["params"] == {"growth": 2.0, "min_match": 5}


CLONED = [
    {},
    {
        "draft": {"method": "sam", "params": {"growth": 4.0, "max_positions": 20}},
        "search": {
            "max_depth": 1,
            "eps": 0.125,
            "max_seconds": 7.5,
            "gate": "confident",
            "allow_no_signal": True,
        },
        "decoding": {"temperature": 0.5, "stop": ["\n", " a", '"'], "seed": -4, "top_k": 9},
        "calibration": {"calibration_fraction": 0.35, "seed": 3, "limit": 30},
        "name": " two\nlines ",
        "labels": {"a=b": "c", " ": "\t"},
        "priority": 8,
    },
    {
        "target": {"id": "owner/model", "revision": "v1", "dtype": "bfloat16", "device": "cuda:1"},
        "domain": {"name": "own-kind", "metric": "exact_match", "template": "few_shot", "shots": 2},
        "calibration": {
            "source": "owner/data",
            "columns": {"prompt": "q", "reference": "a.text"},
            "dataset_split": "x",
        },
    },
]


@pytest.mark.parametrize("number", range(len(CLONED)))
def test_a_clone_is_the_same_job(site, admin, bench, make_spec, number):
    first = admin.post("/jobs", json=make_spec(**CLONED[number]))
    assert first.status_code == 202, first.get_json()
    page = site.page(f"{NEW}?from={first.get_json()['id']}")
    assert "Unchanged, it finds the same" in page.text
    answer = site.post(NEW, page.form(NEW))
    assert answer.status_code == 303, Page(answer).errors
    rows = bench.sql("SELECT spec_digest, name, labels, priority FROM jobs ORDER BY id")
    assert len(rows) == 2
    assert rows[0] == rows[1]


def test_a_clone_of_another_version_is_told(site, admin, bench, make_spec):
    job = admin.post("/jobs", json=make_spec()).get_json()["id"]
    bench.sql(
        """UPDATE jobs SET spec = jsonb_set(spec::jsonb, '{search,magic}', '1')::json, spec_digest = 'x'"""
    )
    page = site.page(f"{NEW}?from={job}")
    assert "made by another version" in page.text


@pytest.mark.parametrize("given", ["x", "00000000-0000-7000-8000-000000000000", "%00"])
def test_clones_of_nothing(site, given):
    assert site.get(f"{NEW}?from={given}").status_code == 404


def test_the_estimate_follows_the_form(site, untouched):
    page = fragment(site, "estimate", {**untouched, "search.max_depth": "2", "search.max_pool": "5"})
    assert page.table("estimate")[1:] == [
        ["each layer alone", "as many as the target has layers"],
        ["sets of 2 of at most 5", "10", "10"],
    ]
    assert "no earlier job of this target and draft to learn from" in page.text
    assert "No fitting worker is live now" in page.text
    known = fragment(site, "estimate", {**untouched, **COMPLETE, "search.max_evaluations": "100"})
    assert "100 evaluations at most." in known.text
    assert "Of the 220 sets of 3, the 3 most promising are evaluated, 217 are not." in known.text
    wrong = fragment(site, "estimate", {**untouched, "search.max_pool": "x"})
    assert "Combine at most: Must be a whole number" in wrong.text


def test_the_estimate_knows_earlier_jobs(site, untouched, bench):
    bench.submit()
    bench.work_off()
    typed = {"target.choice": "-other", "target.id": "tiny", "draft.method": "prompt_lookup"}
    page = fragment(site, "estimate", {**untouched, **typed})
    assert "of one worker's time for all of them, going by 1 earlier job" in page.text
    assert "1 fitting worker is live now." in page.text


def test_prompts_are_previewed(site, untouched):
    page = fragment(site, "preview", {**untouched, **COMPLETE})
    assert "Searched on 10 prompts" in page.text
    assert "Kept for the check 38 prompts" in page.text
    assert "chat template puts its marks" in page.text
    assert len(page.all("section.card")) == 3
    wrong = fragment(site, "preview", untouched)
    assert "Choose a domain" in wrong.text


def test_everything_works_without_scripts(site, untouched):
    typed = {**untouched, **COMPLETE, "name": "kept", "search.eps": "abc"}
    for path, words in (
        ("estimate", "Must be a number"),
        ("preview", "Searched on"),
        ("command", "There is no command until the form is right"),
    ):
        answer = site.post(f"/jobs/{path}", typed)
        assert answer.status_code == 200
        page = Page(answer)
        assert words in page.text
        again = page.form(NEW)
        assert (again["name"], again["search.eps"]) == ("kept", "abc")


def test_curl_and_the_command_make_the_same_job(site, untouched, admin, bench, submit):
    typed = {
        **untouched,
        **COMPLETE,
        "name": "it's\t$HOME",
        "labels": "team=a b",
        "draft.params.sam:growth": "2",
        "search.max_depth": "2",
    }
    page = fragment(site, "command", typed)
    curl = page.one("#command-curl").get_text()
    head, _, rest = curl.partition("<<'EOF'\n")
    words = shlex.split(head)
    assert words[:5] == ["curl", "--fail-with-body", "-X", "POST", "http://localhost/api/v1/jobs"]
    answer = admin.post("/jobs", json=json.loads(rest.removesuffix("\nEOF")))
    assert answer.status_code == 202, answer.get_json()
    command = shlex.split(page.one("#command-skipmap").get_text())
    assert command[:5] == ["skipmap", "jobs", "submit", "--server", "http://localhost"]
    assert site.post(NEW, typed).status_code == 303
    first, second = bench.sql("SELECT spec_digest, name FROM jobs")
    assert first == second


def test_commands_wait_for_a_form_that_is_right(site, untouched):
    page = fragment(site, "command", {**untouched, **COMPLETE, "priority": "x"})
    assert "Priority: Must be a whole number" in page.text
    assert page.all("pre") == []


def _numbers(count: int = 12) -> bytes:
    return b"".join(
        json.dumps({"id": n, "prompt": f"Say {n}.", "reference": str(n)}).encode() + b"\n"
        for n in range(count)
    )


def test_a_file_that_comes_with_the_form_is_used(site, untouched, bench):
    typed = {**untouched, **COMPLETE, "calibration.kind": "set", "calibration.sample": ""}
    answer = site.post(NEW, {**typed, "file": (io.BytesIO(_numbers()), "numbers.jsonl")})
    assert answer.status_code == 303, Page(answer).errors
    ((source, set_id),) = bench.sql("SELECT spec->'calibration'->>'source', calibration_set_id FROM jobs")
    assert source == f"set:{set_id}"


def test_a_file_can_be_uploaded_first(site, untouched, bench):
    typed = {**untouched, "name": "kept", "do": "upload"}
    page = Page(site.post(NEW, {**typed, "file": (io.BytesIO(_numbers()), "numbers.jsonl")}))
    assert page.status == 200
    (set_id,) = bench.sql("SELECT id FROM calibration_sets")
    form = page.form(NEW)
    assert (form["calibration.kind"], form["calibration.set"], form["name"]) == ("set", set_id, "kept")
    assert "numbers.jsonl with 12 prompts is chosen below." in page.text
    none = Page(site.post(NEW, typed))
    assert none.status == 422
    assert "No file is chosen" in none.errors["file"]


def test_a_bad_file_takes_nothing_away(site, untouched, bench):
    typed = {**untouched, **COMPLETE, "name": "kept", "search.eps": "abc"}
    bad = b'{"id": 1}\n\nno JSON\n'
    page = refused(site, {**typed, "file": (io.BytesIO(bad), "x.jsonl")})
    assert set(page.errors) == {"file", "search.eps"}
    assert [item.get_text().partition(":")[0] for item in page.all("#file-problems li")] == [
        "Line 1",
        "Line 3",
    ]
    form = page.form(NEW)
    assert (form["name"], form["search.eps"], form["calibration.sample"]) == ("kept", "abc", "qa")
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]


def test_a_set_can_be_chosen_by_the_address(site, admin):
    set_id = admin.upload(_numbers(), name="numbers").get_json()["id"]
    form = site.page(f"{NEW}?set={set_id}").form(NEW)
    assert (form["calibration.kind"], form["calibration.set"]) == ("set", set_id)
    assert "not known here" in site.page(f"{NEW}?set={EVIL}").text


def test_older_sets_are_found_by_their_page(site, admin, monkeypatch):
    monkeypatch.setattr(choices, "_MOST_SETS", 1)
    older, newer = (admin.upload(_numbers(n), name=f"set {n}").get_json()["id"] for n in (3, 4))
    options = [option["value"] for option in site.page(NEW).all("#f-calibration-set option")]
    assert options == ["", newer]
    page = site.page(f"{NEW}?set={older}")
    assert page.form(NEW)["calibration.set"] == older
    assert "an older one has a button" in page.text


def test_what_people_write_is_shown_as_text(site, untouched, admin):
    typed = {name: EVIL for name in untouched if name not in ("csrf_token", "idempotency_key")}
    page = refused(site, {**untouched, **typed})
    assert page.all("script:not([src])") == []
    assert page.form(NEW)["name"] == EVIL
    for name in ("estimate", "preview", "command"):
        assert fragment(site, name, {**untouched, **typed}).all("script") == []
    record = json.dumps({"id": EVIL, "prompt": EVIL, "reference": EVIL})
    other = json.dumps({"id": "2", "prompt": EVIL, "reference": EVIL})
    set_id = admin.upload(f"{record}\n{other}\n", name=EVIL).get_json()["id"]
    typed = {**untouched, **COMPLETE, "calibration.kind": "set", "calibration.set": set_id, "name": EVIL}
    assert EVIL in fragment(site, "preview", typed).text
    for name in ("preview", "command"):
        assert fragment(site, name, typed).all("script") == []
    assert site.page(NEW).all("script:not([src])") == []


def test_very_long_values_come_back_and_messages_stay_short(site, untouched):
    typed = {name: LONG for name in untouched if name not in ("csrf_token", "idempotency_key")}
    page = refused(site, {**untouched, **typed})
    assert page.form(NEW)["name"] == LONG
    assert page.form(NEW)["search.eps"] == LONG
    assert page.errors["search.eps"]
    assert all(len(text) < 1000 for text in page.errors.values())
    assert len(page.one("[data-error-summary]").get_text()) < 40_000


def test_who_may_not(make_site, visitor, untouched, bench):
    viewer = make_site("viewer")
    page = viewer.page(NEW, status=403)
    assert page.all("#job") == []
    assert not any(NEW in address for address in viewer.page("/jobs").links.values())
    for path in (NEW, "/jobs/estimate", "/jobs/preview", "/jobs/command"):
        assert viewer.post(path, {**untouched, **COMPLETE}).status_code == 403
    assert visitor.get(NEW).headers["Location"].startswith("/sign-in?next=")
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


def test_a_session_that_has_ended(site, untouched, bench):
    bench.sql("DELETE FROM sessions")
    answer = site.post(NEW, {**untouched, **COMPLETE})
    assert answer.status_code == 401
    assert "your session has ended" in Page(answer).text
    script = site.post("/jobs/estimate", untouched, headers={"X-Fragment": "estimate"})
    assert (script.status_code, script.mimetype) == (401, "application/json")
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


@pytest.mark.parametrize("name", ["estimate", "preview", "command"])
def test_whatever_part_is_asked_for_there_is_an_answer(site, untouched, name):
    for part in ("estimate", "preview", "command"):
        assert site.post(f"/jobs/{name}", untouched, headers={"X-Fragment": part}).status_code == 200
    assert site.post(f"/jobs/{name}", untouched, headers={"X-Fragment": "content"}).status_code == 404


def test_one_line_of_each_region_is_read_out(site, untouched):
    page = site.page(NEW)
    regions = page.all("[data-refresh-from]")
    assert len(regions) == 3
    for region in regions:
        assert not region.has_attr("aria-live")
        assert len(region.select("[role=status]")) == 1
    # Those that are not asked for yet are empty, which tells scripts so.
    assert [bool(region.get_text().strip()) for region in regions] == [False, True, False]

    def said(name: str, **typed: str) -> str:
        return " ".join(fragment(site, name, {**untouched, **typed}).one("[role=status]").get_text().split())

    limits = {"search.max_depth": "2", "search.max_pool": "5"}
    assert said("estimate", **COMPLETE, **limits) == "41 evaluations at most."
    assert said("estimate", **{"search.max_pool": "x"}) == "This search could not run."
    assert said("preview").startswith("The prompts cannot be shown")
    assert re.fullmatch(r"\d+ prompts to search on, \d+ kept for the check\.", said("preview", **COMPLETE))
    assert said("command") == "There is no command until the form is right."
    assert said("command", **COMPLETE) == "The commands follow the form."


def test_forms_of_other_sites(site, untouched):
    assert site.client.post(NEW, data={**untouched, **COMPLETE, "csrf_token": "x"}).status_code == 403
    assert site.post(NEW, {**untouched, **COMPLETE}, headers={"Origin": "http://evil"}).status_code == 403


def test_the_example_is_a_job(site, bench):
    form = site.page(f"{NEW}?example=yes").form(NEW)
    answer = site.post(NEW, form)
    assert answer.status_code == 303, Page(answer).errors
    (spec,) = bench.sql("SELECT spec FROM jobs")
    assert JobRequest.parse(spec).search.max_depth == 2
