"""The form for a new job: its fields, and the job that it makes."""

from __future__ import annotations

import json

import pytest

from api.catalog import _built_in_drafts
from skipmap.client.documents import JobRequest
from skipmap.drafts import registry
from skipmap.drafts.base import DraftParams
from skipmap.drafts.registry import draft_names
from skipmap.spec import READ_BY
from tests.web.pages.job_form import COMPLETE, NEW, fragment, refused, spec_of, submit, untouched
from tests.web.site import Page
from web.forms.fields import fields
from web.forms.parameters import parameters_of

__all__ = ["submit", "untouched"]

EVIL = '"><script>alert(1)</script>'


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


class NeedyParams(DraftParams):
    checkpoint: str
    width: int = 2


class Needy:
    """A draft method that cannot be made without a checkpoint."""

    name = "needy"
    summary = "proposes what a checkpoint says"
    params_type = NeedyParams
    lossy = True
    remembers = False


@pytest.fixture
def _needy(monkeypatch):
    """One more draft method is registered."""
    monkeypatch.setitem(registry._BUILT_IN, "needy", Needy)
    _built_in_drafts.cache_clear()
    yield
    _built_in_drafts.cache_clear()


@pytest.mark.usefixtures("_needy")
def test_what_a_draft_method_says_of_itself_is_shown(site, untouched):
    page = site.page(NEW)
    options = {str(option["value"]): option.get_text() for option in page.all("#f-draft-method option")}
    assert (options["needy"], options["sam"]) == ("needy (lossy)", "sam")
    own = page.one('fieldset[data-show-for="draft.method:needy"]')
    assert "Proposes what a checkpoint says." in own.get_text()
    assert "This method is lossy" in own.get_text()
    fields = [own.find(attrs={"name": f"draft.params.needy:{name}"}) for name in ("checkpoint", "width")]
    assert [str(field["placeholder"]) for field in fields] == ["required", "default 2"]
    assert "lossy" not in page.one('fieldset[data-show-for="draft.method:sam"]').get_text()
    page = refused(site, {**untouched, **COMPLETE, "draft.method": "needy"})
    assert set(page.errors) == {"draft.params.needy:checkpoint"}


def test_fields_of_a_strategy_show_for_it_alone(site, submit, bench):
    page = site.page(NEW)
    for name, strategies in READ_BY.items():
        part = page.soup.find(attrs={"name": f"search.{name}"}).find_parent(attrs={"data-show-for": True})
        assert part["data-show-for"] == f"search.strategy:{','.join(strategies)}"
    # Without scripts the fields of the others are sent as well, at their defaults.
    assert spec_of(bench, submit())["search"]["strategy"] == "tss"
    beam = submit(**{"search.strategy": "beam", "search.beam_width": "3"}, idempotency_key="beam")
    assert spec_of(bench, beam)["search"]["beam_width"] == 3
    # What holds its default is not stored, and shows all the same.
    assert site.page(f"{NEW}?from={beam}").form(NEW)["search.beam_width"] == "3"
    usual = submit(**{"search.strategy": "beam"}, idempotency_key="usual")
    assert site.page(f"{NEW}?from={usual}").form(NEW)["search.beam_width"] == "8"


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


def test_a_form_that_has_done_its_work_is_named_to_scripts(site, untouched):
    key = untouched["idempotency_key"]
    assert site.page(NEW).one("#job")["data-keep"] != key
    wrong = refused(site, {**untouched, **COMPLETE, "search.eps": "abc"})
    assert wrong.one("#job")["data-keep"] == key
    assert not wrong.all('meta[name="sent-forms"]')
    answer = site.post(NEW, {**untouched, **COMPLETE})
    assert site.page(answer.headers["Location"]).one('meta[name="sent-forms"]')["content"] == key
    assert not site.page(answer.headers["Location"]).all('meta[name="sent-forms"]')


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


def test_forms_of_other_sites(site, untouched):
    assert site.client.post(NEW, data={**untouched, **COMPLETE, "csrf_token": "x"}).status_code == 403
    assert site.post(NEW, {**untouched, **COMPLETE}, headers={"Origin": "http://evil"}).status_code == 403


def test_the_example_is_a_job(site, bench):
    form = site.page(f"{NEW}?example=yes").form(NEW)
    answer = site.post(NEW, form)
    assert answer.status_code == 303, Page(answer).errors
    (spec,) = bench.sql("SELECT spec FROM jobs")
    assert JobRequest.parse(spec).search.max_depth == 2
