from __future__ import annotations

import pytest

from skipmap.profiling.summary import summary


@pytest.fixture
def told(result):
    """Lines of the finished job's summary, after ``change`` has edited its document."""

    def tell(change=lambda document: None):
        document = result()
        change(document)
        return document, summary(document)

    return tell


def line(lines, start):
    """The one line that begins so."""
    (found,) = (text for text in lines if text.startswith(start))
    return found


def test_says_what_may_be_skipped_and_what_it_gains_and_costs(told):
    document, lines = told()
    selected, dense = document["selected"], document["dense"]
    assert selected
    row = next(row for row in document["evaluations"] if row["skip"] == selected)
    target, draft = document["target"], document["draft"]
    assert lines[0] == f"words on {target['id']} with draft {draft['method']}"
    assert line(lines, "Dense: ") == (
        f"Dense: accept length {dense['accept_length']:.2f} tokens per step, f1 1.000 (4 calibration prompts)."
    )
    may = line(lines, "Selected: ")
    assert may.startswith(
        f"Selected: block{'s' * (len(selected) > 1)} {', '.join(map(str, selected))} of 5 ("
    )
    assert document["reason"] in may
    gains = line(lines, "Expected: ")
    assert f"costs {row['cost_ratio']:.3f} of dense" in gains
    assert f"{dense['accept_length']:.3f} -> {row['accept_length']:.3f}" in gains
    speed = row["accept_length"] / row["cost_ratio"] / dense["accept_length"]
    assert f"{100 * (speed - 1):+.1f}% decoding speed by the cost model" in gains
    loss = 100 * (row["metric"] / dense["metric"] - 1)
    assert line(lines, "Quality: ") == (
        f"Quality: f1 {dense['metric']:.3f} -> {row['metric']:.3f} ({loss:+.1f}%) on the calibration prompts."
    )


def test_says_what_held_out_prompts_say_of_it(told):
    def verdict(passes, interval=(1.1, 1.4), prompts=4):
        def change(document):
            point = next(p for p in document["held_out"]["points"] if p["skip"] == document["selected"])
            point["passes_gate"] = passes
            ends = {"accept_length_change": [0, 0], "metric_change": [0, 0], "speedup": list(interval)}
            point["intervals"] |= ends
            document["data"]["n_held_out"] = prompts

        return change

    document, lines = told(verdict(True))
    point = next(p for p in document["held_out"]["points"] if p["skip"] == document["selected"])
    low, high = point["intervals"]["speedup"]
    assert line(lines, "Held-out: ").startswith("Held-out: passes, not certain; on 4 held-out prompts")
    figures = line(lines, "Held-out figures ")
    assert figures.startswith("Held-out figures (4 prompts the search never saw): accept length ")
    assert f"{document['held_out']['dense']['metric']:.3f} -> {point['metric']:.3f}" in figures
    assert figures.endswith(
        f"measured speed-up {point['speedup']:.3f}x (95 % interval {low:.3f} to {high:.3f})."
    )
    _, lines = told(verdict(True, (0.9, 1.4), prompts=64))
    assert line(lines, "Held-out: ").startswith("Held-out: confirmed; ")
    assert "which is no sure gain" in line(lines, "Held-out figures ")
    _, lines = told(verdict(False))
    assert line(lines, "Held-out: ").startswith("Held-out: fails; ")
    assert line(lines, "Held-out: ").endswith(" Skip nothing yet.")


def test_point_without_a_held_out_check(told):
    _, lines = told(lambda document: document["held_out"].update(points=[]))
    assert line(lines, "Held-out") == "Held-out: not checked."


def test_nothing_to_skip_says_why(told):
    _, lines = told(
        lambda document: document.update(selected=[], reason="dense: no evaluated configuration fits")
    )
    assert line(lines, "Selected: ") == "Selected: nothing (no evaluated configuration fits)."
    assert not any(text.startswith(("Expected", "Quality", "Held-out")) for text in lines)


def test_zero_has_no_relative_change(told):
    def change(document):
        document["dense"]["metric"] = 0.0

    _, lines = told(change)
    assert "f1 0.000 -> " in line(lines, "Quality: ")
    assert "%" not in line(lines, "Quality: ")


def test_notes_are_told(told):
    _, lines = told(lambda document: document.update(notes=["first", "second"]))
    assert [text for text in lines if text.startswith("Note: ")] == ["Note: First.", "Note: Second."]


def test_never_looks_exhaustive_when_it_was_not(told):
    budget = {"exhaustive": True, "evaluated": 9, "stopped": "all levels done"}
    _, lines = told(lambda document: document["budget"].update(budget))
    assert lines[-1] == "Searched: 9 configurations, nothing was cut (all levels done)."
    cut = budget | {"exhaustive": False, "not_evaluated": {"2": 4}}
    _, lines = told(lambda document: document["budget"].update(cut))
    assert lines[-1] == (
        "Searched: 9 configurations; NOT exhaustive, the bounds cut the search (all levels done)."
    )


def test_other_strategies_are_named_and_told_apart_from_cuts(told):
    def change(document):
        document["strategy"] = {"name": "sleb"}
        document["budget"] |= {"exhaustive": False, "evaluated": 3, "stopped": "all rounds done", "ranked": 6}
        document["budget"] |= {"pool_cut": [], "not_evaluated": {}}

    _, lines = told(change)
    assert line(lines, "Strategy: ").startswith("Strategy: sleb, adds one block a round, ")
    assert lines[-1] == (
        "Searched: 3 configurations and 6 ranking figures; NOT exhaustive, the strategy does not look at every set "
        "(all rounds done)."
    )
    _, lines = told()
    assert not any(text.startswith("Strategy") for text in lines)


def test_no_signal_says_nothing_of_a_search(told):
    _, lines = told(lambda document: document.update(no_signal=True, selected=[], reason="dense: no signal"))
    assert not any(text.startswith("Searched") for text in lines)
