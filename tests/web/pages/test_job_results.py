"""What a job has found, on its page."""

from __future__ import annotations

import pytest

from skipmap.profiling.found import found_table
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from tests.models.bench import LAYERS, all_good, random_table
from tests.web.pages.test_jobs import url
from web.filters import NONE
from web.views.strategies import strategy_title
from web.views.words import ACCEPT_LENGTH


def test_a_job_that_has_succeeded_shows_its_result(site, story):
    job = story.tell()
    page = site.page(url(job))
    selected = job.best["skip"]
    assert f"May skip block{'s' * (len(selected) > 1)} {', '.join(map(str, selected))}" in page.text
    assert "Held-out check: passes, not certain" in page.text
    assert "4 are too few to be sure by, 20 the least" in page.text
    assert page.links["Publish"] == f"/publish?job={job.id}"
    assert page.links["Figures and answers of the selected configuration"] == url(
        job, f"/configurations/{','.join(map(str, selected))}"
    )
    kinds = [(chart["data-chart"], chart["data-chart-src"]) for chart in page.all("[data-chart]")]
    assert kinds == [
        ("layer-heatmap", url(job, "/data/layers.json")),
        ("pareto", url(job, "/data/pareto.json")),
        ("cost", url(job, "/data/cost.json")),
        ("intervals", url(job, "/data/speedup.json")),
        ("intervals", url(job, "/data/metric.json")),
    ]


@pytest.mark.parametrize(
    ("passes", "prompts", "word", "action"),
    [
        (True, 64, "confirmed", "Publish"),
        (True, 4, "passes, not certain", "Publish"),
        (False, 64, "fails", "Publish with an override"),
    ],
)
def test_the_held_out_check_is_told_in_the_same_words_and_decides_how_to_publish(
    site, story, passes, prompts, word, action
):
    story.passes_gate, story.held_out_prompts = passes, prompts
    job = story.tell()
    page = site.page(url(job))
    assert f"Held-out check: {word}" in page.text
    selected = next(row for row in page.table("table-held-out") if "selected" in row[0])
    assert selected[1] == word
    # Of the front, those that were not checked say nothing.
    assert {row[1] for row in page.table("table-front")} <= {word, NONE}
    for part in (page, site.fragment(url(job), "controls")):
        (button,) = [link for link in part.all("a.button") if "/publish?" in link["href"]]
        assert (button.get_text(strip=True), "primary" in button["class"]) == (action, passes)


def test_warnings_are_sentences_and_several_are_a_list(site, story):
    story.changes = {"notes": ["level 3: 12 configurations were not evaluated", "max_pool 6 is full"]}
    page = site.page(url(story.tell()))
    (notice,) = [one for one in page.all(".notice") if "To keep in mind" in one.get_text()]
    lines = [line.get_text() for line in notice.find_all("li")]
    assert lines[:2] == ["Level 3: 12 configurations were not evaluated.", "max_pool 6 is full."]
    story.changes = {"notes": ["only one"], "draft": {"method": "sam", "lossy": False, "params": {}}}
    page = site.page(url(story.tell()))
    (notice,) = [one for one in page.all(".notice") if "To keep in mind" in one.get_text()]
    assert notice.find_all("li") == []
    assert notice.find_all("p")[1].get_text() == "Only one."


def test_files_are_named_after_the_job_and_what_they_hold(site, story):
    job = story.tell(story.spec(name="night/run"))
    page = site.page(url(job))
    names = [str(button["data-export-name"]) for button in page.all("[data-export]")]
    assert all(name.startswith(f"night/run-{job.id[-8:]}-") for name in names)
    kinds = ["layers", "configurations", "front", "cost", "held-out-speedup", "held-out-metric"]
    assert list(dict.fromkeys(name.removeprefix(f"night/run-{job.id[-8:]}-") for name in names)) == kinds
    # What the scatter shows is taken from itself: its table holds the front alone.
    points = [button for button in page.all("#chart-pareto [data-export]") if "Points" in button.get_text()]
    assert [(one["data-export"], one["data-export-chart"]) for one in points] == [
        ("csv", "chart-pareto"),
        ("json", "chart-pareto"),
    ]


def test_each_chart_has_its_table(site, story):
    job = story.tell()
    page = site.page(url(job))
    stored, limits = story.stored(job.id), story.limits(job.id)
    singles = page.table("table-layers")
    assert [row[0] for row in singles] == [str(layer) for layer in range(LAYERS)]
    for row in singles:
        score = next(score for skip, score in stored.items() if skip.blocks == (int(row[0]),))
        assert (row[1], row[4]) == (f"{score.accept:.3f}", f"{score.metric:.3f}")
        assert (row[3], row[6]) == (
            "kept" if limits.admits_accept(score) else "below",
            "kept" if limits.admits_metric(score) else "below",
        )
        assert row[7] == ("in the pool" if int(row[0]) in job.outcome["pool"] else "no")
    feasible = {s: score for s, score in stored.items() if s != DENSE and limits.admits(score)}
    front = {", ".join(map(str, skip)) for skip in pareto_front(feasible)}
    assert {row[0] for row in page.table("table-front")} == front
    assert page.table("table-cost")
    assert len(page.table("table-held-out")) == 2
    for chart in page.all("[data-chart]"):
        assert page.one(f"table#{chart.find('a')['href'].removeprefix('#')}")


def test_accept_length_is_explained_wherever_it_is_shown(site, story):
    page = site.page(url(story.tell()))
    for chart in page.all("[data-chart]"):
        card = chart.find_parent("section")
        assert "Cost" in card.h2.get_text() or ACCEPT_LENGTH in card.get_text()
    assert ACCEPT_LENGTH in page.one("details.help").get_text()


STRATEGIES = {
    "accept_only": {},
    "metric_only": {},
    "beam": {"beam_width": 2},
    "greedy": {"tau": 0.5},
    "random": {"draws": 2},
    "shortgpt": {},
    "sleb": {},
}


OF_LAYERS = {"accept_only", "metric_only", "beam", "greedy"}
"""Those that evaluate each layer alone."""
RANKED = {"shortgpt", "sleb"}
ONE_FLOOR = {"accept_only": "accept length", "metric_only": "metric"}
"""Those that look at one figure alone, and what it is called."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_of_any_strategy_is_shown(site, story, strategy):
    job = story.tell(story.spec(strategy=strategy, max_depth=3, **STRATEGIES[strategy]))
    assert job.state == "succeeded"
    page = site.page(url(job))
    charts = {str(chart["data-chart"]) for chart in page.all("[data-chart]")}
    assert ("layer-heatmap" in charts) == (strategy in OF_LAYERS)
    assert ("there is no map of single layers" in page.text) == (strategy not in OF_LAYERS)
    assert "pareto" in charts
    titles = [row[0] for row in page.table("levels")]
    assert any(title.startswith("Ranking layers") for title in titles) == (strategy in RANKED)
    # What ranks evaluates nothing that could be listed.
    assert not [text for text in page.links if text.startswith("Ranking")]
    assert strategy_title(strategy) in page.text
    counted = "evaluations, ranking figures and runs" if strategy in RANKED else "evaluations and runs"
    assert f"{counted} of the levels so far" in page.text
    front = "the feasible configurations that no other one beats in both"
    if strategy in ONE_FLOOR:
        front = f"that keep the floor of {ONE_FLOOR[strategy]} and"
    assert front in page.one("details.help").get_text()
    found = found_table(story.document(job.id))
    shown = page.table("table-found") if page.all("#table-found") else []
    assert shown == ([list(row) for row in found.rows] if found else [])
    assert bool(shown) == (strategy not in ONE_FLOOR)
    for path in ("/configurations", "/data/pareto.json", "/report", "/result.json"):
        assert site.get(url(job, path)).status_code == 200, path


def test_levels_that_rank_are_no_choice_among_configurations(site, story):
    job = story.tell(story.spec(strategy="sleb"))
    options = [
        option["value"] for option in site.page(url(job, "/configurations")).all("[name=level] option")
    ]
    assert options == ["", "0", "1", "2"]


def test_a_job_that_ranks_says_so(site, story):
    job = story.submit(story.spec(strategy="shortgpt"))
    story.reach("rank")
    page = site.page(url(job))
    assert page.table("levels")[1][:3] == [page.table("levels")[1][0], "running", f"0 of {LAYERS}"]
    assert page.table("levels")[1][0].startswith("Ranking layers")
    assert f"Ranking layers begins ({LAYERS} units)" in page.text
    assert [row[4] for row in site.page("/jobs").table("jobs")] == ["Ranking layers"]


def test_what_the_budget_cut_is_told(site, story):
    story.table = all_good
    job = story.tell(story.spec(max_pool=3, max_evaluations=8))
    text = site.page(url(job)).text
    assert "The search was cut short" in text
    assert (
        "2 layers that kept a floor alone were not combined, for the pool was full (search.max_pool)" in text
    )
    assert "of the sets that skip 2 layers were not evaluated" in text


def test_nothing_feasible_stays_dense(site, story):
    story.table = lambda skip: Score(2.0, 0.8) if skip == DENSE else Score(1.0, 0.2)
    job = story.tell()
    page = site.page(url(job))
    assert job.best is None
    assert "Keep the target dense" in page.text
    assert "No configuration keeps both floors, so there is no front. Dense stays." in page.text
    assert "No configuration was checked on held-out prompts, because none is feasible." in page.text
    assert page.links["Figures and answers of the dense target"] == url(job, "/configurations/dense")


def test_no_signal_shows_dense_alone(site, story):
    story.changes = {"no_signal": True, "cost": None, "notes": ["no signal: dense is no better"]}
    story.table = lambda skip: Score(2.0, 0.05)
    job = story.tell()
    page = site.page(url(job))
    assert "No answer: the metric shows no signal" in page.text
    assert "No signal: dense is no better." in page.text
    assert "No single layer is evaluated in this job." in page.text
    assert "Only dense is evaluated in this job." in page.text
    assert [row[0].split(" ")[0] for row in page.table("levels")] == ["Dense", "Result"]


def test_the_front_of_a_job_on_accepted_drafts_is_told_in_accept_length(site, story):
    job = story.tell(story.spec(accept_measure="accepted_drafts"))
    lengths = story.stored(job.id)
    drafts = story.stored(job.id, "accepted_drafts")
    page = site.page(url(job))
    head = [cell.get_text() for cell in page.all("table#table-front thead th")]
    assert head[3:6] == ["Accept length", "Change", "Accepted drafts"]
    rows = page.table("table-front")
    assert rows
    for row in rows:
        skip = SkipSet(tuple(map(int, row[0].split(", "))))
        assert (row[3], row[5]) == (f"{lengths[skip].accept:.3f}", f"{drafts[skip].accept:.3f}")
    assert "All configurations: accept length against f1" in page.text
    assert "marks alone tell what keeps it" in page.text


def test_the_pages_own_word_is_layers(site, story):
    """The summary, which it shares with the report, says blocks: once it is told that those are layers."""
    page = site.page(url(story.tell()))
    assert "blocks are the layers of the target" in page.one("#result").get_text(" ")
    page.one("#result").decompose()
    assert "block" not in page.text.lower()


def test_result_and_report_are_taken_away_by_the_session(site, story):
    job = story.tell()
    result = site.get(url(job, "/result.json"))
    assert result.get_json()["selected"] == job.best["skip"]
    assert f"result-{job.id}.json" in result.headers["Content-Disposition"]
    report = site.get(url(job, "/report"))
    assert "<h1" in report.text
    assert "script-src 'sha256-" in report.headers["Content-Security-Policy"]
    assert site.page(url(story.submit(), "/result.json"), 409).text


def test_figures_of_a_random_search_never_fail(site, story):
    for seed in range(4):
        story.table = random_table(seed)
        assert site.page(url(story.tell(story.spec(accept_measure="accepted_drafts")))).table("levels")
