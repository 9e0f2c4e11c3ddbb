from __future__ import annotations

import io
import json

import pytest

from tests.web.pages.test_maps import EVIL, TIMES, router
from tests.web.site import Page
from web.pages import publish
from web.views import map_form

PATH = "/publish"


def shown(site, *jobs, **more):
    """The form for some jobs, as it would be sent."""
    query = "&".join([*(f"job={job}" for job in jobs), *(f"{name}={value}" for name, value in more.items())])
    return read(site.page(f"{PATH}?{query}"))


def read(page):
    form = page.form(PATH)
    form["job"] = [str(field["value"]) for field in page.all("input[name=job]")]
    return form


def send(site, form, do="publish", **changes):
    return site.post(PATH, {**form, "do": do, **changes})


def page_of(site, form, do, status=200, **changes):
    answer = send(site, form, do, **changes)
    assert answer.status_code == status
    return Page(answer)


def document(site, name="main", version=1):
    return json.loads(site.get(f"/maps/{name}/versions/{version}/document").data)


def test_without_jobs_it_is_said_what_to_do(site):
    page = site.page(PATH)
    assert "No job has succeeded yet" in page.text
    assert page.links["Start a job"].startswith("/jobs/new")


def test_points_stand_with_their_figures_and_verdicts(site, shop):
    job = shop.job()
    page = site.page(f"{PATH}?job={job}")
    rows = page.table(f"points-{job}")
    assert [row[:3] for row in rows] == [
        ["selected, paper, cheapest, fastest", "confirmed", "0, 2"],
        ["on the front", "not checked", "1"],
        ["dense", "dense", "dense"],
    ]
    assert rows[0][3:] == [f"1.20{TIMES}", f"0.60{TIMES}", "1.950", "1.900", "0.410", "0.500"]
    # A configuration that the address asks for is among them, if it is feasible.
    assert [row[2] for row in site.page(f"{PATH}?job={job}&point=0").table(f"points-{job}")] == [
        *("0, 2", "1", "0", "dense")
    ]
    page = site.page(f"{PATH}?job={job}&point=3")
    assert [row[2] for row in page.table(f"points-{job}")] == ["0, 2", "1", "dense"]
    assert page.form(PATH)[f"point.{job}"] == "selected"


def test_the_summary_follows_the_form(site, shop):
    qa, math = shop.job(), shop.job("math")
    form = shown(site, qa, math)
    form |= {"new_name": "fresh", f"point.{qa}": "dense", f"point.{math}": "1"}
    part = site.post(f"{PATH}/summary", form, headers={"X-Fragment": "summary"})
    assert part.status_code == 200
    text = part.get_data(as_text=True)
    assert "Version 1" in text
    assert "fresh" in text
    assert "<html" not in text
    assert "needs a reason" in text
    form[f"override.{math}"] = "because"
    text = site.post(f"{PATH}/summary", form, headers={"X-Fragment": "summary"}).get_data(as_text=True)
    assert "with your reason" in text


def test_a_version_is_published_with_its_points_and_a_router(site, shop):
    qa, math = shop.job(), shop.job("math")
    form = shown(site, qa, math) | {"new_name": "main", f"point.{math}": "dense"}
    file = (io.BytesIO(json.dumps(router("qa")).encode()), "router.json")
    # First it is looked at: the router stays in the form, its figures stand in the summary.
    page = page_of(site, form, "check", router=file)
    assert "A router for 1 domain is in the form." in page.text
    assert page.table("confusion")[0] == ["qa", "9", "1", "90 %"]
    assert "It does not know math" in page.text
    answer = send(site, read(page))
    assert answer.headers["Location"] == "/maps/main/versions/1"
    found = document(site)
    assert {name: entry["skip"] for name, entry in found["domains"].items()} == {"qa": [0, 2], "math": []}
    assert found["router"]["domains"].keys() == {"qa"}
    # Taken out again, the next version has none.
    form = read(page_of(site, read(page), "drop-router"))
    assert "router_text" not in form
    assert send(site, form | {"key": "another"}).headers["Location"] == "/maps/main/versions/2"
    assert document(site, version=2)["router"] is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no json", "is no readable JSON document"),
        (b"[1]", "is no JSON object"),
        (b"\xff\xfe\xff", "no UTF-8 text"),
        (b" " * 3001, "the file has 3001 bytes; at most 3000 are taken"),
        (json.dumps(router("other")).encode(), "the map has no such domain"),
    ],
    ids=["text", "list", "bytes", "large", "stray"],
)
def test_a_router_that_does_not_fit_is_said_at_its_field(site, shop, content, words, monkeypatch):
    for module in (publish, map_form):
        monkeypatch.setattr(module, "MAX_ROUTER_BYTES", 3000)
    form = shown(site, shop.job()) | {"new_name": "main"}
    page = page_of(site, form, "publish", 422, router=(io.BytesIO(content), "router.json"))
    (problem,) = page.all("#f-router-error")
    assert words in problem.get_text()
    assert site.get("/maps/main").status_code == 404


def test_the_gate_refuses_and_is_overridden(site, shop, bench):
    qa, math = shop.job(passes_gate=False), shop.job("math")
    form = shown(site, qa, math) | {"new_name": "main"}
    page = page_of(site, form, "publish", 409)
    assert "accept length 1.5000 (floor 1.9000, dense 2.0000)" in page.errors[f"override.{qa}"]
    assert f"override.{math}" not in page.errors
    assert site.get("/maps/main").status_code == 404
    form = read(page)
    form[f"override.{qa}"] = f"night traffic {EVIL}"
    version = site.follow(PATH, {**form, "do": "publish"})
    assert f"night traffic {EVIL}" in version.text
    assert document(site)["domains"]["qa"]["override"] == f"night traffic {EVIL}"
    assert bench.sql("SELECT actor FROM audit WHERE action = 'map.override'") == [site.user_id]


def test_a_refused_point_stands_with_its_figures_above_the_reason(site, shop):
    job = shop.job(passes_gate=False)
    page = site.page(f"{PATH}?job={job}")
    assert page.table(f"points-{job}")[0][1] == "fails"
    (part,) = page.all(f'[data-show-for="point.{job}:selected"] .notice')
    assert "notice-bad" in part["class"]
    assert "The held-out check refuses 0, 2" in part.get_text()
    assert "accept length 1.5000 (floor 1.9000, dense 2.0000)" in part.get_text()
    assert page.table(part.find("table")["id"])[0] == [
        *("Accept length (tokens a step)", "2.000", "1.500"),
        *("\u221225.0 %", "\u22120.100 to 0.400 sparse minus dense"),
    ]
    assert page.one(f'textarea[name="override.{job}"]').find_parent("fieldset") is part.find_parent(
        "fieldset"
    )


def test_a_point_that_is_not_certain_passes_and_says_why(site, shop):
    job = shop.job(data={"n_calibration": 5, "n_held_out": 6, "left_out": {}, "shots": [], "digest": "d"})
    page = site.page(f"{PATH}?job={job}")
    assert page.table(f"points-{job}")[0][1] == "passes, not certain"
    assert "6 are too few to be sure by, 20 the least" in page.text
    assert send(site, shown(site, job) | {"new_name": "main"}).status_code == 303
    assert document(site)["domains"]["qa"]["held_out"]["certain"] is False
    assert site.page("/maps/main/versions/1").table("domains")[0][1] == "passes, not certain"


def test_the_only_map_is_chosen_and_a_typed_name_stays(site, shop):
    job = shop.job()
    started_before = shown(site, job)
    assert "map" not in started_before
    shop.publish(job, name="alpha")
    form = shown(site, job)
    assert form["map"] == "alpha"
    # Somebody else has made the first map meanwhile: the name that was typed is still that of a new one.
    again = read(page_of(site, started_before | {"new_name": "No!"}, "publish", 422))
    assert (again["map"], again["new_name"]) == ("*", "No!")
    again = read(page_of(site, form | {"map": "*", "new_name": "No!"}, "publish", 422))
    assert (again["map"], again["new_name"]) == ("*", "No!")
    assert send(site, form).headers["Location"] == "/maps/alpha/versions/2"
    shop.publish(job, name="beta")
    assert shown(site, job)["map"] == ""


def test_a_double_click_makes_one_version(site, shop):
    form = shown(site, shop.job()) | {"new_name": "main"}
    first, second = send(site, form), send(site, form)
    assert first.headers["Location"] == second.headers["Location"] == "/maps/main/versions/1"
    assert [row[0] for row in site.page("/maps/main").table("versions")] == ["1"]
    # Back in the browser, and changed: it is asked once more, then it is another version.
    (job,) = form["job"]
    again = page_of(site, form | {f"point.{job}": "dense"}, "publish", 409)
    assert "has made a version before" in again.text
    fresh = read(again)
    assert fresh["key"] != form["key"]
    assert send(site, fresh).headers["Location"] == "/maps/main/versions/2"


def test_domains_that_would_be_lost_are_told_and_taken_along(site, shop):
    qa, math, gone = shop.job(), shop.job("math"), shop.job("rag")
    jobs = [{"job": qa, "point": "selected"}, {"job": math, "point": []}, {"job": gone, "point": []}]
    shop.publisher.post("/maps/main/versions", json={"jobs": jobs})
    shop.bench.sql("DELETE FROM jobs WHERE id = :id", id=gone)
    page = site.page(f"{PATH}?map=main&job={shop.job()}")
    assert "Domains of version 1 are left out: math, rag" in page.text
    form = read(page_of(site, read(page), "keep"))
    # The job behind rag is gone: it cannot be taken along.
    assert form["job"][1:] == [math]
    assert form[f"point.{math}"] == "dense"


def test_a_form_with_text_that_cannot_be_stored_comes_back(site, shop):
    form = shown(site, shop.job()) | {"new_name": "ma\0in"}
    page = page_of(site, form, "publish", 422)
    assert "characters that are no valid text" in page.one("#errors").get_text()
    again = read(page)
    assert (again["job"], again["new_name"]) == (form["job"], "ma\ufffdin")


def test_the_map_that_is_asked_for_is_chosen_however_many_there_are(site, shop, monkeypatch):
    monkeypatch.setattr(publish, "_MOST_OFFERED", 1)
    job = shop.job()
    for name in ("alpha", "beta"):
        shop.publish(job, name=name)
    page = site.page(f"{PATH}?map=beta&job={job}")
    assert [option["value"] for option in page.all("#f-map option")] == ["alpha", "beta", "*"]
    assert "Not all maps are listed" in page.text
    form = read(page)
    assert form["map"] == "beta"
    assert send(site, form).headers["Location"] == "/maps/beta/versions/2"


@pytest.mark.parametrize("there", [(), ("alpha",)], ids=["none", "another"])
def test_a_map_that_is_not_there_is_chosen_as_a_new_one(site, shop, there):
    job = shop.job()
    for name in there:
        shop.publish(job, name=name)
    page = site.page(f"{PATH}?map=fresh&job={job}")
    (chosen,) = page.all("#f-map option[selected]")
    assert (chosen["value"], chosen.get_text()) == ("fresh", "fresh (a new map)")
    assert "Version 1 of the new map fresh" in page.text
    assert send(site, read(page)).headers["Location"] == "/maps/fresh/versions/1"


def test_a_map_with_a_bad_name_is_shown_and_refused(site, shop):
    shop.publish(name="alpha")
    page = site.page(f"{PATH}?map=No!&job={shop.job()}")
    form = read(page)
    assert form["map"] == "No!"
    assert "is no name" in page_of(site, form, "publish", 422).errors["map"]


def test_one_line_of_the_summary_is_read_out(site, shop):
    qa, math = shop.job(), shop.job("math")
    form = shown(site, qa, math) | {"new_name": "main", f"point.{math}": "1"}
    part = Page(site.post(f"{PATH}/summary", form, headers={"X-Fragment": "summary"}))
    (line,) = part.all("[role=status]")
    assert (
        " ".join(line.get_text().split()) == "Version 1 of the new map main: 2 domains. math needs a reason."
    )
    page = site.page(f"{PATH}?job={qa}")
    assert page.all("[aria-live], [role=status]") == page.all("[role=status]")
    assert not any(one.find(["table", "ul", "figure"]) for one in page.all("[role=status]"))


@pytest.mark.parametrize("name", ["", "Main", "a/b", "x" * 65, EVIL])
def test_names_of_maps(site, shop, name):
    shop.publish(name="there")
    form = shown(site, shop.job()) | {"map": "*", "new_name": name}
    answer = send(site, form)
    assert answer.status_code == 422
    assert b"<script>alert" not in answer.data
    assert page_of(site, form, "publish", 422).errors["new_name"]
    # The one that is there is chosen by its name.
    assert send(site, form | {"map": "there"}).headers["Location"] == "/maps/there/versions/2"
