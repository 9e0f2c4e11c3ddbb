"""Jobs in the form that publishes: which are offered, and what each of them offers."""

from __future__ import annotations

from sqlalchemy import event

from tests.api.published import result_of
from tests.profiling.report.conftest import make_result
from tests.web.pages.test_maps import EVIL
from tests.web.pages.test_publish import PATH, document, page_of, read, send, shown
from web.pages import publish
from web.views import map_form, map_offers


def test_jobs_are_added_and_left_out(site, shop):
    qa, math = shop.job(), shop.job("math")
    page = site.page(PATH)
    assert {option["value"] for option in page.all("#f-add option")} == {"", qa, math}
    form = read(page)
    page = page_of(site, form, "add", add=qa, new_name="main")
    form = read(page)
    assert (form["job"], form["new_name"]) == ([qa], "main")
    form = read(page_of(site, form, "add", add=math))
    assert form["job"] == [qa, math]
    # What was filled in stays.
    form["override." + math] = "typed before"
    form["point." + math] = "1"
    form = read(page_of(site, form, f"remove:{qa}"))
    assert form["job"] == [math]
    assert (form["point." + math], form["override." + math]) == ("1", "typed before")


def test_jobs_that_cannot_be_published(site, shop, bench):
    running = bench.submit().id
    for given, words in (
        (running, f"job {running} is running and has no result"),
        ("01900000-0000-7000-8000-000000000000", "There is no job 01900000"),
        ("nonsense", "There is no job nonsense"),
        ("%00", "characters that are no valid text"),
    ):
        answer = site.get(f"{PATH}?job={given}")
        assert answer.status_code == 422
        assert words in answer.get_data(as_text=True)


def test_jobs_must_fit_each_other(site, shop):
    target = {"id": "tiny", "revision": None, "fingerprint": "e" * 64, "num_layers": 4}
    qa, math = shop.job(), shop.job("math", target=target)
    form = shown(site, qa, math) | {"new_name": "main"}
    assert "It cannot be published like this" in site.page(f"{PATH}?job={qa}&job={math}").text
    page = page_of(site, form, "publish", 422)
    assert "differs between the results of" in page.one("#errors").get_text()
    same = shown(site, qa, shop.job()) | {"new_name": "main"}
    assert "give one job a domain" in page_of(site, same, "publish", 422).text


def test_jobs_that_are_older_than_the_list_are_reached(site, shop, monkeypatch):
    monkeypatch.setattr(publish, "_MOST_OFFERED", 2)
    old, math = shop.job("old"), shop.job("math")
    qa = [shop.job() for _ in range(3)]
    for domain, jobs in (("old", [old]), ("math", [math]), ("qa", qa)):
        shop.bench.sql("UPDATE jobs SET domain = :domain WHERE id = ANY(:jobs)", domain=domain, jobs=jobs)
    # The newest ones are of a domain that is in the form already: they hide no other.
    page = site.page(f"{PATH}?job={qa[0]}")
    assert [option["value"] for option in page.all("#f-add option")] == ["", math, old]
    assert page.all("#f-older") == []
    page = site.page(PATH)
    assert [option["value"] for option in page.all("#f-add option")] == ["", qa[2], qa[1]]
    assert page.links["All jobs that have succeeded"] == "/jobs?state=succeeded"
    form = read(page)
    for what in ("add", "check"):
        assert read(page_of(site, form, what, older=f" {old} "))["job"] == [old]
    refused = page_of(site, form, "add", 422, older="nonsense")
    assert "There is no job nonsense" in refused.errors["add"]


def test_points_belong_to_the_jobs_that_they_stand_beside(site, shop):
    one, other = shop.job(), shop.job("math")
    query = f"job={one}&job={one}&job={other}&point=paper&point=1&point=dense"
    form = read(site.page(f"{PATH}?{query}"))
    assert form["job"] == [one, other]
    assert (form[f"point.{one}"], form[f"point.{other}"]) == ("selected", "dense")


def test_more_jobs_than_a_map_takes(site, shop, monkeypatch):
    monkeypatch.setattr(map_form, "MOST_JOBS", 1)
    one, other = shop.job(), shop.job("math")
    page = site.page(f"{PATH}?job={one}&job={other}", status=422)
    assert "those after the first 1 were left out" in page.text
    assert read(page)["job"] == [one]


def test_what_jobs_offer_is_made_once_and_beside_other_requests(site, shop, app, monkeypatch):
    sizes = []

    def watched(work, size):
        sizes.append(size)
        return work()

    monkeypatch.setattr(map_offers, "aside", watched)
    result = result_of("qa")
    rows = [{**result["evaluations"][0], "skip": [3], "feasible": False} for _ in range(1000)]
    one, other = shop.job(evaluations=result["evaluations"] + rows), shop.job("math")
    form = shown(site, one, other) | {"new_name": "main"}
    assert len(sizes) == 2
    # Large ones are read and checked in a thread.
    assert max(sizes) > 100_000
    asked = []
    engine = app.extensions["skipmap"].database._reader
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    for _ in range(2):
        summary = site.post(f"{PATH}/summary", form, headers={"X-Fragment": "summary"})
        assert summary.status_code == 200
    page_of(site, form, "check")
    form[f"point.{one}"] = "1"
    page_of(site, form, "add", add=other)
    assert len(sizes) == 2
    assert not any("findings" in statement for statement in asked)
    # A further configuration is looked for in the result, once.
    for _ in range(2):
        site.page(f"{PATH}?job={one}&point=0")
    assert len(sizes) == 3


def test_a_job_that_is_kept_and_gone_is_not_offered(site, shop, bench):
    job = shop.job()
    site.page(f"{PATH}?job={job}")
    bench.sql("DELETE FROM jobs")
    assert f"There is no job {job}" in site.page(f"{PATH}?job={job}", status=422).text


def test_a_domain_with_a_bad_name_is_left_out(site, shop):
    job = shop.job(EVIL)
    answer = site.get(f"{PATH}?job={job}")
    assert answer.status_code == 422
    assert b"<script>alert" not in answer.data
    assert b"fits no map" in answer.data


def test_where_nothing_is_feasible_dense_is_offered(site, shop):
    result = make_result({(0,): (1.0, 0.1)})
    keys = ("evaluations", "front", "selected", "operating_points", "held_out", "pool", "reason")
    job = shop.job(**{key: result[key] for key in keys})
    page = site.page(f"{PATH}?job={job}")
    assert [row[:2] for row in page.table(f"points-{job}")] == [
        ["selected, paper, cheapest, fastest", "dense"]
    ]
    form = read(page) | {"new_name": "main"}
    assert send(site, form).headers["Location"] == "/maps/main/versions/1"
    assert document(site)["domains"]["qa"]["skip"] == []


def test_a_large_result_is_cut_to_what_is_offered(site, shop):
    result = result_of("qa")
    rows = result["evaluations"] + [
        {**result["evaluations"][0], "skip": [0, 1, 2, 3][: 1 + number % 2], "feasible": False}
        for number in range(2000)
    ]
    job = shop.job(evaluations=rows)
    page = site.page(f"{PATH}?job={job}")
    assert len(page.table(f"points-{job}")) == 3
