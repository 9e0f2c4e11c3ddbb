from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from skipmap.errors import InvalidInput
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.report import render_report

Make = Callable[..., Any]
SINGLES = {(0,): (1.1, 0.05), (1,): (2.1, 0.41), (2,): (1.95, 0.30), (3,): (1.7, 0.42)}
EVIL = '<script>alert("1")</script>\'&'


@pytest.fixture
def full(result: Make, held_out: Make, row: Make, counted: Make) -> dict[str, Any]:
    """A result with every part."""
    dense = [row(f"p{i}", 10, 20, [0.4], "the cat sat") for i in range(5)]
    sparse = [row(f"p{i}", 10, 20 + i, [0.4 + 0.1 * (i - 1)], "the dog sat") for i in range(5)]
    document: dict[str, Any] = result(
        SINGLES, selected=(1,), front=[(1,)], pool=(1, 2, 3), held_out=held_out((1,), dense, sparse)
    )
    counted(document["dense"], [60, 30, 10], [40, 10, 50])
    counted(document["evaluations"][1], [70, 20, 0, 10], [50, 0, 0, 50])
    counted(document["held_out"]["dense"], [25, 25], [20, 30])
    counted(document["held_out"]["points"][0], [40, 10], [20, 30])
    return document


@pytest.fixture
def no_signal(result: Make) -> dict[str, Any]:
    document: dict[str, Any] = result(
        {}, cost=False, no_signal=True, notes=["no signal: dense is not above it"]
    )
    document["operating_points"] = dict.fromkeys(("paper", "cheapest", "fastest"))
    document["budget"]["stopped"] = "dense scores no better than a trivial answer"
    return document


def test_page_asks_for_nothing_outside_itself(full: dict[str, Any], no_signal: dict[str, Any]) -> None:
    html = render_report([full, no_signal])
    assert "://" not in html
    assert "@import" not in html
    targets = re.findall(r"""\b(?:src|href|action|data)\s*=\s*["']?([^"'\s>]*)""", html)
    assert targets
    assert all(target.startswith("#") for target in targets)
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", html))


def test_ids_are_unique_and_every_reference_leads_somewhere(full: dict[str, Any], page: Make) -> None:
    elements = page(render_report([full, full])).elements
    ids = [attrs["id"] for _, attrs, _ in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    named = " ".join(attrs.get("aria-labelledby", "") for _, attrs, _ in elements).split()
    used = [attrs["href"][1:] for _, attrs, _ in elements if "href" in attrs]
    filled = [attrs["fill"][5:-1] for _, attrs, _ in elements if attrs.get("fill", "").startswith("url(")]
    assert {*named, *used, *filled} <= set(ids)
    for tag, attrs, _ in elements:
        if tag == "svg" and "aria-hidden" not in attrs and "overflow" not in attrs:
            assert attrs["role"] == "img"


def test_same_documents_give_the_same_page(full: dict[str, Any]) -> None:
    assert render_report([full]) == render_report([full])


def test_user_text_stays_text(full: dict[str, Any], page: Make) -> None:
    clean = page(render_report([full]))
    full["spec"]["domain"]["name"] = full["target"]["id"] = full["draft"]["method"] = EVIL
    full["metric"]["name"] = full["metric"]["signature"] = EVIL
    full["notes"] = full["data"]["shots"] = [EVIL]
    full["budget"]["stopped"] = full["reason"] = EVIL
    full["spec"]["labels"] = {EVIL: EVIL}
    for part in (full["held_out"]["dense"], full["held_out"]["points"][0]):
        for number, answer in enumerate(part["per_prompt"]):
            answer["id"], answer["text"] = f"{EVIL}{number}", EVIL
    found = page(render_report([full]))
    assert len(found.all("script")) == len(clean.all("script")) == 1
    assert "alert" not in found.all("script")[0][1]
    assert EVIL in found.all("li")[0][1]
    assert EVIL in [text.strip() for _, text in found.all("p", "text")]
    assert next(text for _, text in found.all("title")).endswith(EVIL)
    assert not any("alert" in name for _, attrs, _ in found.elements for name in attrs)


def test_no_signal_shows_sentences_instead_of_charts(no_signal: dict[str, Any], page: Make) -> None:
    found = page(render_report([no_signal]))
    assert [text for _, text in found.all("h1")] == ["No answer: the metric shows no signal"]
    assert not found.all("figure")
    for sentence in (
        "Only dense was evaluated, so there is nothing to compare.",
        "No single block was evaluated, so there is no heat map.",
        "Cost was not measured",
        "No configuration was checked on held-out prompts.",
        "The search stopped after dense: dense scores no better than a trivial answer.",
    ):
        assert sentence in found.text


def test_nothing_feasible_keeps_dense_and_names_the_missed_floors(result: Make, page: Make) -> None:
    found = page(render_report([result({(0,): (1.0, 0.4), (1,): (2.0, 0.1), (2,): (1.0, 0.1)}, pool=(0, 1))]))
    assert "Keep the target dense" in found.text
    assert (
        "Of 3 configurations evaluated, none keeps both accept length and f1 above their floors."
        in found.text
    )
    assert "None: no configuration is feasible." in found.text
    cells = [text for _, text in found.all("td")]
    for missed in ("accept length", "f1", "accept length and f1"):
        assert f"below floor: {missed}" in cells
    assert not [attrs for attrs, _ in found.all("use", "feasible") if "%" in attrs["x"]]


def test_points_of_each_verdict_read_differently(full: dict[str, Any], page: Make) -> None:
    found = page(render_report([full]))
    assert found.all("h1")[0][1] == "May skip block 1"
    assert found.all("p", "pill")[0][1] == "✓Held-out check: confirmed"
    point = full["held_out"]["points"][0]
    point["intervals"]["metric_change"] = [-0.2, 0.1]
    found = page(render_report([full]))
    assert found.all("h1")[0][1] == "May skip block 1, but that is not certain"
    assert found.all("p", "pill")[0][1] == "~Held-out check: passes, not certain"
    assert "the interval of f1 reaches down to 0.2000, below its floor of 0.3800" in found.text
    point |= {"passes_gate": False, "metric": 0.30}
    found = page(render_report([full]))
    assert found.all("h1")[0][1] == "Skip nothing yet: skipping block 1 fails on held-out prompts"
    assert "f1 is 0.3000, below its floor of 0.3800." in found.text
    assert "Do not roll it out as it is." in found.text
    full["held_out"] = {"dense": None, "points": [], "not_checked": [[1]]}
    found = page(render_report([full]))
    assert found.all("h1")[0][1] == "May skip block 1, not checked on held-out prompts"
    assert "Not checked (max_held_out_points): {1}." in found.text


def test_confident_gate_that_fails_above_the_floors_says_so(full: dict[str, Any], page: Make) -> None:
    full["spec"]["search"]["gate"] = "confident"
    full["held_out"]["points"][0]["passes_gate"] = False
    assert "do not keep the floors as surely as the gate asks" in page(render_report([full])).text


def test_held_out_figures_stand_with_their_intervals(full: dict[str, Any], page: Make) -> None:
    cells = [text for _, text in page(render_report([full])).all("td")]
    assert "1.20\u00d71.10\u00d7 to 1.30\u00d7" in cells
    assert "+0.1000\u22120.0200 to +0.0300" in cells
    assert "+0.20\u22120.10 to +0.40" in cells


def test_cut_searches_never_look_exhaustive(full: dict[str, Any], page: Make) -> None:
    assert (
        "Within its depth the search was exhaustive: 5 configurations evaluated"
        in page(render_report([full])).text
    )
    full["budget"] |= {
        "exhaustive": False,
        "pool_cut": [0],
        "pool_found": 4,
        "not_evaluated": {"2": 3, "3": 1},
    }
    found = page(render_report([full])).text
    assert "not exhaustive: only 3 of 4 blocks that passed a floor were combined (max_pool)" in found
    assert "4 configurations not evaluated (3 of level 2, 1 of level 3)" in found
    assert "Sets of more than 1 block were not tried" in found
    assert "the search was exhaustive" not in found


def test_strategy_is_named_with_what_it_found_and_what_it_left(full: dict[str, Any], page: Make) -> None:
    plain = page(render_report([full])).text
    assert "Strategy" not in plain.partition("How this result was made")[0]
    full["spec"]["search"]["strategy"] = "sleb"
    full["spec"]["search"]["accept_measure"] = "tokens_per_step"
    path = [{"skip": [], "log_perplexity": 1.0}, {"skip": [1], "log_perplexity": 1.5}]
    full["strategy"] = {"name": "sleb", "path": path}
    full["budget"] |= {"exhaustive": False, "ranked": 3}
    found = page(render_report([full]))
    assert "Strategy sleb: adds one block a round" in found.text
    assert "not exhaustive: strategy sleb does not look at every set" in found.text
    assert "3 ranking figures taken" in found.text
    cells = [text for _, text in found.all("td")]
    assert cells[cells.index("4.482") - 2 : cells.index("4.482") + 1] == ["1", "1.5000", "4.482"]


def test_points_of_one_objective_are_admitted_ones(full: dict[str, Any], page: Make) -> None:
    full["spec"]["search"]["strategy"] = "accept_only"
    full["strategy"] = {"name": "accept_only", "looks_at": "accept length"}
    for row in full["evaluations"]:
        # None keeps the metric's floor, and all are admitted.
        row |= {"admitted": True, "feasible": False, "metric": 0.1}
    found = page(render_report([full]))
    assert "accept length keeps 95 % of dense or more; f1 was not asked" in found.text
    assert "Admitted ones first" in found.text
    assert "lowest cost of all admitted" in found.text
    assert "no configuration is" not in found.text


def test_strategy_of_a_later_version_is_refused(full: dict[str, Any]) -> None:
    full["spec"]["search"]["strategy"] = "guess"
    with pytest.raises(InvalidInput, match="strategy 'guess' is unknown to this version"):
        render_report([full])


def test_large_tables_say_what_they_leave_out(result: Make, page: Make) -> None:
    pairs = {pair: (1.0 + sum(pair) / 100, 0.2) for pair in combinations(range(24), 2)}
    found = page(render_report([result(pairs, num_layers=24)]))
    assert "The first 200 of 276; 76 are left out here" in found.text


def test_result_without_prompt_rows_shows_no_answers(full: dict[str, Any], page: Make) -> None:
    found = page(render_report([without_prompts(full)]))
    assert "This copy of the result has no per-prompt rows" in found.text
    assert not found.all("p", "text")


def test_several_results_get_an_overview_and_one_first_heading(
    full: dict[str, Any], no_signal: dict[str, Any], page: Make
) -> None:
    found = page(render_report([full, no_signal]))
    assert [text for _, text in found.all("h1")] == ["2 results"]
    assert len(found.all("article")) == 2
    assert [attrs["href"] for attrs, text in found.all("a") if text == "qa"] == ["#r1", "#r2"]


@pytest.mark.parametrize("documents", [[], [{"schema": "skipmap.map/1"}]])
def test_anything_but_results_is_refused(documents: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="result"):
        render_report(documents)


def test_accepted_drafts_are_never_called_accept_length(full: dict[str, Any], page: Make) -> None:
    full["spec"]["search"]["accept_measure"] = "accepted_drafts"
    found = page(render_report([full]))
    assert "All configurations: accepted drafts against f1" in found.text
    # The floor is 95 % of dense's accepted drafts, 1.0.
    assert "A is at least 0.95" in found.text


def test_drafting_is_shown_dense_beside_selected(full: dict[str, Any], page: Make) -> None:
    found = page(render_report([full]))
    assert "What drafts get accepted" in [text for _, text in found.all("h2")]
    assert "Dense: a step scores 3.50 positions, root included, and accepts 0.50 drafted tokens" in found.text
    tables = {attrs["aria-label"]: " ".join(text.split()) for attrs, text in found.all("div", "scroll")}
    assert tables["Accepted drafted tokens a step"].endswith(
        "06060.0 %7070.0 % 13030.0 %2020.0 % 21010.0 %00.0 % 300.0 %1010.0 %"
    )
    assert tables["Acceptance by draft position"].endswith(
        "16066.7 %5060.0 % 25020.0 %5020.0 % 30\u20135020.0 %"
    )
    # 0.5 s an answer, five answers over 50 steps: 50 ms a step, of which 2 draft and 30 verify.
    assert tables["Time of a step"].count("502.00 ms4.0 %30.00 ms60.0 %18.00 ms36.0 %50.00 ms") == 2


def test_drafting_of_dense_alone_where_nothing_is_selected(
    no_signal: dict[str, Any], counted: Make, page: Make
) -> None:
    counted(no_signal["dense"], [60, 40], [60, 40])
    found = page(render_report([no_signal]))
    assert len(found.all("rect", "dense")) == 2 + 1 + 1
    assert not found.all("rect", "selected")
    assert "Time of a step" not in found.text


def test_drafts_that_never_came_have_no_positions(
    no_signal: dict[str, Any], counted: Make, page: Make
) -> None:
    counted(no_signal["dense"], [100], [100])
    found = page(render_report([no_signal])).text
    assert "100 of 100 steps had no draft." in found
    assert "No step had a draft, so there is no acceptance by position." in found


def test_results_of_older_versions_are_shown_without_drafting(full: dict[str, Any], page: Make) -> None:
    counters = ("accepted_histogram", "proposed_histogram", "tree_size", "draft_seconds", "verify_seconds")
    held_out = full["held_out"]
    for part in (full["dense"], *full["evaluations"], held_out["dense"], *held_out["points"]):
        for name in counters:
            part.pop(name, None)
    found = page(render_report([full]))
    assert "What drafts get accepted" not in found.text
    assert found.all("figure", "heat")


def test_copies_without_prompts_show_no_rest(full: dict[str, Any], page: Make) -> None:
    found = page(render_report([without_prompts(full)]))
    (times,) = (text for attrs, text in found.all("div", "scroll") if attrs["aria-label"] == "Time of a step")
    assert times.count("2.00 ms6.2 %30.00 ms93.8 %32.00 ms") == 2
    assert "Rest" not in times
