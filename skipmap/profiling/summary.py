"""A result in plain words, for someone who sees Skipmap for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skipmap.maps.gain import expected_speedup
from skipmap.maps.verdict import verdict_of_result
from skipmap.profiling.search import STRATEGIES
from skipmap.prose import sentence
from skipmap.skipset import SkipSet


def summary(document: Mapping[str, Any]) -> list[str]:
    """What may be skipped, what it gains, what it costs, whether held-out confirms it, and what was cut."""
    domain, layers = document["spec"]["domain"]["name"], document["target"]["num_layers"]
    dense, selected = document["dense"], document["selected"]
    metric = document["metric"]["name"]
    head = f"{domain} on {document['target']['id']} with draft {document['draft']['method']}"
    lines = [head, "=" * len(head)]
    lines.append(
        f"Dense: accept length {dense['accept_length']:.2f} tokens per step, {metric} {dense['metric']:.3f} "
        f"({_prompts(document)})."
    )
    found = document.get("strategy")
    if found:
        lines.append(f"Strategy: {found['name']}, {_summary_of(found['name'])}.")
    if not selected:
        lines.append(f"Selected: nothing ({document['reason'].removeprefix('dense: ')}).")
    else:
        row = next(r for r in document["evaluations"] if r["skip"] == selected)
        lines += _gain(document, row, layers)
    lines += [f"Note: {sentence(note)}" for note in document["notes"]]
    if not document["no_signal"]:
        lines.append(_extent(document["budget"]))
    return lines


def _gain(document: Mapping[str, Any], row: Mapping[str, Any], layers: int) -> list[str]:
    dense, metric = document["dense"], document["metric"]["name"]
    speedup = expected_speedup(dense["accept_length"], row["accept_length"], row["cost_ratio"])
    gain = "" if speedup is None else f"; {speedup - 1:+.1%} decoding speed by the cost model"
    lines = [
        f"Selected: {_blocks(row['skip'])} of {layers} ({document['reason']}).",
        f"Expected: a verification step costs {row['cost_ratio']:.3f} of dense and accepts "
        f"{_change(dense['accept_length'], row['accept_length'])}{gain}.",
        f"Quality: {metric} {_change(dense['metric'], row['metric'])} on the calibration prompts.",
    ]
    points, held = document["held_out"]["points"], document["held_out"]["dense"]
    point = next((p for p in points if p["skip"] == row["skip"]), None)
    if point is None or held is None:
        return [*lines, "Held-out: not checked."]
    low, high = point["intervals"]["speedup"]
    found = verdict_of_result(document, SkipSet.of(row["skip"]))
    advice = "" if found.passes else " Skip nothing yet."
    gain = "" if low > 1 else ", which is no sure gain"
    return [
        *lines,
        f"Held-out: {found.word}; {found.why}.{advice}",
        f"Held-out figures ({document['data']['n_held_out']} prompts the search never saw): accept length "
        f"{_change(held['accept_length'], point['accept_length'])}, {metric} "
        f"{_change(held['metric'], point['metric'])}, measured speed-up {point['speedup']:.3f}x "
        f"(95 % interval {low:.3f} to {high:.3f}{gain}).",
    ]


def _prompts(document: Mapping[str, Any]) -> str:
    count = document["data"]["n_calibration"]
    return f"{count} calibration prompt{'s' * (count != 1)}"


def verdict(document: Mapping[str, Any]) -> str:
    """One line a domain, for a closing list."""
    domain, selected = document["spec"]["domain"]["name"], document["selected"]
    if not selected:
        return f"{domain}: skip nothing"
    point = next((p for p in document["held_out"]["points"] if p["skip"] == selected), None)
    if point is None:
        return f"{domain}: skip {_blocks(selected)}, not checked on held-out prompts"
    low, high = point["intervals"]["speedup"]
    word = verdict_of_result(document, SkipSet.of(selected)).word
    gain = f"measured speed-up {point['speedup']:.2f}x ({low:.2f} to {high:.2f})"
    return f"{domain}: skip {_blocks(selected)}; held-out prompts: {word}; {gain}"


def _blocks(skip: Sequence[int]) -> str:
    return f"block{'s' * (len(skip) != 1)} {', '.join(map(str, skip))}"


def _change(before: float, after: float) -> str:
    relative = f" ({after / before - 1:+.1%})" if before else ""
    return f"{before:.3f} -> {after:.3f}{relative}"


def _extent(budget: Mapping[str, Any]) -> str:
    searched = f"Searched: {budget['evaluated']} configurations"
    if budget.get("ranked"):
        searched += f" and {budget['ranked']} ranking figures"
    if budget["exhaustive"]:
        return f"{searched}, nothing was cut ({budget['stopped']})."
    cut = budget["pool_cut"] or any(budget["not_evaluated"].values())
    why = "the bounds cut the search" if cut else "the strategy does not look at every set"
    return f"{searched}; NOT exhaustive, {why} ({budget['stopped']})."


def _summary_of(name: str) -> str:
    return next(
        (s.summary for s in STRATEGIES.values() if s.name == name), "which this version does not know"
    )
