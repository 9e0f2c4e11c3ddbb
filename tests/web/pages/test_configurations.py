"""Configurations of a job: all of them, and one by itself."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace

import pytest

from models.chunks import skip_key, skip_of
from skipmap.profiling.search import DENSE
from tests.web.pages.story import IDS, set_content

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def address(job, more=""):
    return f"/jobs/{job.id}/configurations{more}"


def keys(page):
    return [str(cell["data-value"]) for cell in page.all("table#configurations tbody th")]


def in_order(stored):
    return [skip_key(skip) for skip in sorted(stored, key=lambda skip: (len(skip), skip))]


def test_all_configurations_with_their_figures(site, story):
    job = story.tell()
    stored, limits = story.stored(job.id), story.limits(job.id)
    page = site.page(address(job))
    assert keys(page) == in_order(stored)
    for key, row in zip(keys(page), page.table("configurations"), strict=True):
        score = stored[skip_of(key)]
        assert (row[3], row[5]) == (f"{score.accept:.3f}", f"{score.metric:.3f}")
        assert row[2] == str(len(skip_of(key)))
        # Four prompts are few.
        is_checked = key == ",".join(map(str, job.best["skip"]))
        assert row[1] == ("passes, not certain" if is_checked else "\u2013")
        if key == "dense":
            assert row[9] == "dense"
        elif limits.admits(score):
            assert row[9] == "feasible"
        else:
            missed = [
                name
                for name, kept in (
                    ("accept length", limits.admits_accept(score)),
                    ("f1", limits.admits_metric(score)),
                )
                if not kept
            ]
            assert row[9] == f"below: {', '.join(missed)}"
    (selected,) = page.all("table#configurations tr.selected th")
    assert selected["data-value"] == skip_key(skip_of(",".join(map(str, job.best["skip"]))))


def test_filters_and_order_lie_in_the_address(site, story):
    job = story.tell()
    stored, limits = story.stored(job.id), story.limits(job.id)
    level = [skip_key(skip) for skip in sorted(s for s in stored if len(s) == 2)]
    assert keys(site.page(address(job, "?level=2"))) == level
    feasible = {skip_key(s) for s, score in stored.items() if limits.admits(score)}
    assert set(keys(site.page(address(job, "?feasible=true")))) == feasible
    assert (
        set(keys(site.page(address(job, "?feasible=false&level="))))
        == {skip_key(s) for s in stored} - feasible
    )
    by_metric = keys(site.page(address(job, "?sort=metric&order=desc")))
    assert [stored[skip_of(key)].metric for key in by_metric] == sorted(
        (score.metric for score in stored.values()), reverse=True
    )
    page = site.page(address(job, "?level=2&sort=accept_length&order=desc"))
    (sorted_by,) = page.all("th[aria-sort]")
    assert (sorted_by.get_text(strip=True), sorted_by["aria-sort"]) == ("Accept length", "descending")
    assert "level=2" in sorted_by.a["href"]
    assert "order=asc" in sorted_by.a["href"]


def test_pages_go_on_by_cursor(site, story, monkeypatch):
    from web.pages import configurations

    monkeypatch.setattr(configurations, "_LIMIT", 4)
    job = story.tell()
    whole, seen = in_order(story.stored(job.id)), []
    page = site.page(address(job))
    while True:
        seen += keys(page)
        if "Next" not in page.links:
            break
        page = site.page(page.links["Next"])
    assert seen == whole
    assert page.links["Back to the start"] == address(job, "?sort=skip&order=asc")


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("cursor=rubbish", None, "the list begins at its start"),
        ("level=many", "level", "Must be a whole number"),
        ("sort=name", "sort", "Must be 'skip'"),
        ("feasible=perhaps", "feasible", "(given: 'perhaps')"),
    ],
)
def test_what_makes_no_sense_is_told_of_and_the_rest_holds(site, story, query, field, words):
    job = story.tell()
    page = site.page(address(job, f"?order=desc&{query}"), status=422)
    assert set(page.errors) == ({field} if field else set())
    assert words in page.text
    assert page.form(address(job))["order"] == "desc"
    assert sorted(keys(page)) == sorted(keys(site.page(address(job))))
    # A file holds all that was asked for, from its beginning, or is none.
    for ending in ("csv", "json"):
        assert site.get(f"{address(job)}.{ending}?{query}").status_code == (422 if field else 200)


def test_a_filter_that_fits_nothing_says_so(site, story):
    job = story.tell()
    page = site.page(address(job, "?level=9"))
    assert "No configuration fits" in page.text
    (chosen,) = page.all("#f-level option[selected]")
    assert (chosen["value"], chosen.get_text()) == ("9", "Level 9 (nothing evaluated)")
    assert [option["value"] for option in site.page(address(job)).all("#f-level option")] == [
        "",
        "0",
        "1",
        "2",
    ]
    assert page.links["Show all"] == address(job)


def test_a_job_without_any_evaluation(site, story):
    page = site.page(address(story.submit(story.spec())))
    assert "Nothing is evaluated yet" in page.text
    assert not page.all("[data-live-end]")


def test_the_table_is_live(site, story):
    job = story.submit(story.spec())
    story.store(claimed := story.reach("dense"))
    first = site.get(address(job), headers={"X-Fragment": "rows"})
    again = {"X-Fragment": "rows", "If-None-Match": first.headers["ETag"]}
    assert site.get(address(job), headers=again).status_code == 304
    story.finish(claimed)
    assert site.get(address(job), headers=again).status_code == 200
    # Another filter is another thing, whatever the tag.
    assert site.get(address(job, "?level=0"), headers={"X-Fragment": "rows"}).status_code == 200


def test_cost_comes_with_the_result(site, story):
    job = story.submit(story.spec())
    claimed = story.reach("cost")
    assert {row[7] for row in site.page(address(job)).table("configurations")} == {"\u2013"}
    story.store(claimed)
    story.finish(claimed)
    story.work_off()
    costs = {row[2]: row[7] for row in site.page(address(job)).table("configurations")}
    assert costs == {"0": "1.000\u00d7", "1": "0.800\u00d7", "2": "0.600\u00d7"}


def test_all_rows_are_taken_away_as_csv_and_json(site, story, monkeypatch):
    monkeypatch.setattr("api.evaluations._ROWS_AT_A_TIME", 3)
    job = story.tell()
    stored = story.stored(job.id)
    page = site.page(address(job, "?level=2"))
    links = {link.get_text(strip=True): link["href"] for link in page.all("details a[download]")}
    rows = list(csv.DictReader(io.StringIO(site.get(links["All rows as CSV"]).text)))
    assert [row["skip"] for row in rows] == [key for key in in_order(stored) if key.count(",") == 1]
    items = site.get(links["All rows as JSON"]).get_json()
    assert items["next_cursor"] is None
    assert [skip_key(skip_of(",".join(map(str, item["skip"])))) for item in items["items"]] == [
        row["skip"] for row in rows
    ]
    assert all(item["metric"] == float(row["metric"]) for item, row in zip(items["items"], rows, strict=True))
    everything = site.get(address(job, ".json")).get_json()["items"]
    assert len(everything) == len(stored)
    empty = story.submit(story.spec())
    assert site.get(address(empty, ".json")).get_json() == {"items": [], "next_cursor": None}


def test_one_configuration_stands_beside_dense_and_the_floors(site, story):
    job = story.tell()
    stored, limits = story.stored(job.id), story.limits(job.id)
    for skip, score in stored.items():
        page = site.page(address(job, f"/{skip_key(skip)}"))
        accept, metric = page.table("figures")
        assert (accept[1], metric[1]) == (f"{score.accept:.3f}", f"{score.metric:.3f}")
        assert (accept[2], metric[2]) == (f"{stored[DENSE].accept:.3f}", f"{stored[DENSE].metric:.3f}")
        assert (accept[4], metric[4]) == (f"{limits.accept:.3f}", f"{limits.metric:.3f}")
        if skip != DENSE:
            assert accept[6] == ("kept" if limits.admits_accept(score) else "missed")
            assert metric[6] == ("kept" if limits.admits_metric(score) else "missed")
            action = (
                "Publish this configuration" if list(skip) == job.best["skip"] else "Publish with an override"
            )
            assert (action in page.links) == limits.admits(score)
        assert len(page.all(".cells i.skipped")) - 1 == len(skip)


def test_publishing_names_the_configuration(site, make_site, story):
    job = story.tell()
    key = ",".join(map(str, job.best["skip"]))
    page = site.page(address(job, f"/{key}"))
    target = page.links["Publish this configuration"]
    assert target.startswith(f"/publish?job={job.id}&point=")
    assert "Publish this configuration" not in make_site("editor").page(address(job, f"/{key}")).links


def test_layers_may_be_named_in_any_order(site, story):
    job = story.tell()
    first, second = next(skip.blocks for skip in story.stored(job.id) if len(skip) == 2)
    assert site.page(address(job, f"/{second},{first}")).heading.startswith(f"Skip {first}, {second}")


@pytest.mark.parametrize("skip", ["3,4,1", "99", "rubbish", "-1", "1;2", "1" * 400])
def test_what_was_not_evaluated_is_not_found(site, story, skip):
    site.page(address(story.tell(), f"/{skip}"), 404)


@pytest.mark.parametrize("part", ["calibration", "held-out"])
def test_records_of_answers_are_read_aside(site, story, monkeypatch, part):
    from web.pages import configuration

    inside: list[bool] = []
    loads, is_aside = json.loads, False

    def aside(work, size):
        nonlocal is_aside
        is_aside = True
        return work()

    def noted(text):
        inside.append(is_aside)
        return loads(text)

    job = story.tell()
    best = address(job, f"/{','.join(map(str, job.best['skip']))}?part={part}")
    site.page(best)
    monkeypatch.setattr(configuration, "aside", aside)
    monkeypatch.setattr(configuration, "json", SimpleNamespace(loads=noted))
    assert site.page(best).all("article")
    assert inside
    assert all(inside)


def test_the_held_out_check_is_shown_where_it_was_made(site, story):
    job = story.tell()
    best = ",".join(map(str, job.best["skip"]))
    page = site.page(address(job, f"/{best}"))
    assert page.all(".notice-title")[0].get_text() == "Held-out check: passes, not certain"
    assert "1.20\u00d7" in page.text
    assert "1.10\u00d7 to 1.30\u00d7" in page.text
    other = next(skip for skip in story.stored(job.id) if skip != DENSE and list(skip) != job.best["skip"])
    assert "It was not checked on held-out prompts" in site.page(address(job, f"/{skip_key(other)}")).text


@pytest.mark.parametrize(
    ("passes", "prompts", "tone", "word", "action"),
    [
        (True, 64, "good", "confirmed", "Publish this configuration"),
        (True, 4, "warning", "passes, not certain", "Publish this configuration"),
        (False, 64, "bad", "fails", "Publish with an override"),
    ],
)
def test_the_held_out_check_leads(site, story, passes, prompts, tone, word, action):
    story.passes_gate, story.held_out_prompts = passes, prompts
    job = story.tell()
    page = site.page(address(job, f"/{','.join(map(str, job.best['skip']))}"))
    badges = page.all("h1 .badge")
    assert badges[0].get_text(strip=True) == word
    assert f"badge-{tone}" in badges[0]["class"]
    # Feasible is good news only where held-out prompts say the same.
    assert any("badge-good" in badge["class"] for badge in badges) == (word == "confirmed")
    (notice, *_) = page.all("main .notice")
    assert f"notice-{tone}" in notice["class"]
    assert f"Held-out check: {word}" in notice.get_text()
    assert ("only with an override" in notice.get_text()) == (not passes)
    (button,) = [link for link in page.all("a.button") if "/publish?" in link["href"]]
    assert (button.get_text(strip=True), "primary" in button["class"]) == (action, passes)


def test_evil_texts_are_shown_as_text(site, story):
    story.texts = {("dense", IDS[0]): f"{EVIL} said dense", ("0", IDS[0]): f"{EVIL} said sparse"}
    spec, set_id = story.with_set(set_content([EVIL], [EVIL]), name=EVIL)
    job = story.tell(spec, calibration_set_id=set_id)
    answer = site.get(address(job, "/0")).text
    assert "<img src=x" not in answer
    assert "<script>alert(2)" not in answer
    page = site.page(address(job, "/0"))
    article = page.all("#answers article")[0].get_text(" ")
    assert article.count("<script>alert(2)</script>") == 4
    assert EVIL in " ".join(page.links)
    assert "<img src=x" not in site.get(address(job)).text


def test_accepted_drafts_have_a_column_where_the_floor_looks_at_them(site, story):
    job = story.tell(story.spec(accept_measure="accepted_drafts"))
    page = site.page(address(job))
    drafts = story.stored(job.id, "accepted_drafts")
    rows = dict(zip(keys(page), page.table("configurations"), strict=True))
    assert {key: row[4] for key, row in rows.items()} == {
        skip_key(skip): f"{score.accept:.3f}" for skip, score in drafts.items()
    }
