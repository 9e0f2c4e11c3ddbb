"""What is wrong with the form for a new job, and when that is said."""

from __future__ import annotations

from skipmap.spec import JobSpec
from tests.models.bench import make_spec as make_spec_of_bench
from tests.web.pages.job_form import COMPLETE, NEW, refused, untouched
from tests.web.site import Page

__all__ = ["untouched"]

LONG = "x" * 6_000


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
    assert set(page.errors) == wrong | {"draft.params.sam:growth"}
    assert page.errors["search.eps"] == "Must be a number (given: 'abc')"
    again = page.form(NEW)
    assert {name: again[name] for name in typed if name != "csrf_token"} == {
        name: value for name, value in typed.items() if name != "csrf_token"
    }
    summary = [str(link["href"]) for link in page.all("[data-error-summary] a")]
    assert summary[:2] == ["#f-draft-params-sam:growth", "#f-calibration-limit"]
    assert all(page.soup.find(id=address.removeprefix("#")) for address in summary)
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


def check(site, typed: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Errors and notes of a form that is still being filled in."""
    answer = site.post("/jobs/check", typed, headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 200
    found = answer.get_json()
    return found["errors"], found["notes"]


def test_a_form_is_checked_before_it_is_sent(site, untouched, bench):
    typed = {**untouched, **COMPLETE, "search.eps": "abc", "draft.params": "fancy=1", "labels": "none"}
    errors, _ = check(site, typed)
    assert errors == refused(site, typed).errors
    right = {**typed, "search.eps": "0.1", "draft.params": "", "labels": "team=search"}
    assert check(site, right)[0] == {}
    # What only a look into the prompts shows is told when that is asked for.
    deep = {**right, "calibration.category": "none such"}
    assert check(site, deep)[0] == {}
    assert set(check(site, {**deep, "closely": "true"})[0]) == {"calibration.category"}
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


def test_what_is_known_of_a_target_is_told_before_it_is_sent(make_app, make_site, tmp_path, bench, admin):
    (tmp_path / "empty").mkdir()
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "config.json").write_text("{}")
    site = make_site(app=make_app(roots=(tmp_path,)))

    def note(**typed: str) -> str:
        notes = check(site, {name.replace("_", "."): value for name, value in typed.items()})[1]
        assert set(notes) == {"target.choice", "target.id"}
        return notes["target.id"] or notes["target.choice"]

    def typed(text: str) -> str:
        return note(target_choice="-other", target_id=text)

    assert note() == ""
    assert note(target_choice="smollm2-135m-instruct") == "Installed on this server. It has 30\xa0layers."
    assert "no config.json" in typed(str(tmp_path / "empty"))
    assert typed(str(whole)).startswith("There on this server.")
    assert typed("owner/no-such-model").startswith("Well formed.")
    assert "shows when the job starts" in typed("owner/no-such-model")
    errors, notes = check(site, {"target.choice": "-other", "target.id": str(tmp_path / "gone")})
    assert "does not exist on the server" in errors["target.id"]
    assert not any(notes.values())
    assert "no known target" in check(site, {"target.choice": "-other", "target.id": "gpt"})[0]["target.id"]
    # A name of one's own is told of by what it stands for.
    definition = {"id": "owner/model"}
    assert admin.post("/targets", json={"name": "mine", "definition": definition}).status_code == 201
    assert note(target_choice="mine").startswith("Well formed.")
    spec = make_model_spec("owner/model")
    bench.submit(spec)
    bench.work_off()
    assert typed("owner/model") == "An earlier job has loaded it from the hub. It has 5\xa0layers."
    # Without scripts the page itself tells.
    assert "An earlier job" in Page(site.post("/jobs/estimate", {"target.choice": "mine"})).text


def make_model_spec(target: str) -> JobSpec:
    spec = make_spec_of_bench()
    return spec.model_copy(update={"target": spec.target.model_copy(update={"id": target})})


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


def test_very_long_values_come_back_and_messages_stay_short(site, untouched):
    typed = {name: LONG for name in untouched if name not in ("csrf_token", "idempotency_key")}
    page = refused(site, {**untouched, **typed})
    assert page.form(NEW)["name"] == LONG
    assert page.form(NEW)["search.eps"] == LONG
    assert page.errors["search.eps"]
    assert all(len(text) < 1000 for text in page.errors.values())
    assert len(page.one("[data-error-summary]").get_text()) < 40_000
