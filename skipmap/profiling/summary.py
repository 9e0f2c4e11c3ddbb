"""A result in plain words, for someone who sees Skipmap for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skipmap.maps.gain import expected_speedup


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
    if not selected:
        lines.append(f"Selected: nothing ({document['reason'].removeprefix('dense: ')}).")
    else:
        row = next(r for r in document["evaluations"] if r["skip"] == selected)
        lines += _gain(document, row, layers)
    lines += [f"Note: {note}." for note in document["notes"]]
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
    verdict = "does NOT confirm it, so skip nothing yet"
    if point["passes_gate"]:
        verdict = "confirms it" if low > 1 else "keeps both floors, but shows no sure gain in speed"
    return [
        *lines,
        f"Held-out ({document['data']['n_held_out']} prompts the search never saw) {verdict}: accept length "
        f"{_change(held['accept_length'], point['accept_length'])}, {metric} "
        f"{_change(held['metric'], point['metric'])}, measured speed-up {point['speedup']:.3f}x "
        f"(95 % interval {low:.3f} to {high:.3f}).",
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
    kept = "quality and acceptance kept" if point["passes_gate"] else "NOT confirmed"
    gain = f"measured speed-up {point['speedup']:.2f}x ({low:.2f} to {high:.2f})"
    return f"{domain}: skip {_blocks(selected)}; held-out prompts: {kept}, {gain}"


def _blocks(skip: Sequence[int]) -> str:
    return f"block{'s' * (len(skip) != 1)} {', '.join(map(str, skip))}"


def _change(before: float, after: float) -> str:
    relative = f" ({after / before - 1:+.1%})" if before else ""
    return f"{before:.3f} -> {after:.3f}{relative}"


def _extent(budget: Mapping[str, Any]) -> str:
    if budget["exhaustive"]:
        return f"Searched: {budget['evaluated']} configurations, nothing was cut ({budget['stopped']})."
    return (
        f"Searched: {budget['evaluated']} configurations; NOT exhaustive, the bounds cut the search "
        f"({budget['stopped']})."
    )
