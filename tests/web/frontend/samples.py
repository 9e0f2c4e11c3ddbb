"""Data for charts, of the sizes that jobs have: 30 layers, thousands of configurations, six domains."""

from __future__ import annotations

import random
from typing import Any

LAYERS = 30
DRAFTS = ("prompt_lookup", "sam", "token_recycling", "samd")
DOMAINS = ("translation", "summarization", "qa", "rag", "mmlu", "math")
DANGEROUS = '<img src=x onerror="document.title=1"><b>bold</b>'


def heatmap(layers: int = LAYERS, evaluated: int | None = None) -> dict[str, Any]:
    """Single layers: the first and the last ones matter most; not all of them are evaluated yet."""
    chance = random.Random(0)
    evaluated = layers if evaluated is None else evaluated
    rows = []
    for label, base, worst in (("Accept length", 2.1, 0.5), ("BLEU", 0.31, 0.9)):
        cells: list[dict[str, Any] | None] = []
        for layer in range(layers):
            edge = max(0.0, 1 - min(layer, layers - 1 - layer) / 4)
            change = chance.gauss(-0.02, 0.02) - worst * edge * chance.random()
            cells.append(
                {
                    "layer": layer,
                    "change": change,
                    "feasible": change > -0.05,
                    "value": base * (1 + change),
                    "base": base,
                    "url": f"/opened?layer={layer}",
                }
                if layer < evaluated
                else None
            )
        rows.append({"label": label, "cells": cells})
    return {"num_layers": layers, "rows": rows}


def heatmap_of_zero() -> dict[str, Any]:
    """Dense has nothing of the metric, so no change of it can be told."""
    found = heatmap(6)
    for cell in found["rows"][1]["cells"]:
        cell.update(change=None, value=0.04 * cell["layer"], base=0.0, feasible=cell["layer"] != 2)
    return found


def pareto(count: int = 2000, total: int = 20_000) -> dict[str, Any]:
    """Configurations around dense; the front and the selected one are computed from them."""
    chance = random.Random(1)
    points: list[dict[str, Any]] = []
    for _ in range(count):
        size = chance.randint(1, 4)
        loss = abs(chance.gauss(0, 0.06)) * size
        points.append(
            {
                "skip": sorted(chance.sample(range(LAYERS), size)),
                "x": 2.1 * (1 - loss + chance.gauss(0.01, 0.02)),
                "y": max(0.0, 0.31 * (1 - loss * 1.3 + chance.gauss(0.02, 0.03))),
                "level": size,
            }
        )
    for point in points:
        point["feasible"] = point["x"] >= 2.1 * 0.95 and point["y"] >= 0.31 * 0.95
        point["url"] = f"/opened?skip={','.join(map(str, point['skip']))}"
    feasible = [point for point in points if point["feasible"]]
    for point in points:
        point["front"] = point["feasible"] and not any(_dominates(other, point) for other in feasible)
        point["selected"] = False
    front = [point for point in points if point["front"]]
    if front:
        max(front, key=lambda point: point["level"])["selected"] = True
    return {
        "x": "Accept length (tokens a step)",
        "y": "BLEU",
        "dense": {"x": 2.1, "y": 0.31},
        "floors": {"x": 2.1 * 0.95, "y": 0.31 * 0.95},
        "points": points,
        "shown": count,
        "total": total,
    }


def pareto_of_drafts() -> dict[str, Any]:
    """The floor is one of accepted drafts, which are not drawn."""
    found = pareto(40, 40)
    for point in found["points"]:
        point["limited"] = point["x"] - 1
    return found | {"limited": "Accepted drafts", "floors": {"x": None, "y": 0.31 * 0.95}}


def _dominates(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one["x"] >= other["x"] and one["y"] >= other["y"] and (one["x"], one["y"]) != (other["x"], other["y"])
    )


def cost() -> dict[str, Any]:
    """Sizes one to four; some were measured directly and have an interval."""
    chance = random.Random(2)
    points = []
    for number in range(60):
        size = 1 + number % 4
        value = 1 - 0.027 * size + (chance.gauss(0, 0.004) if number % 5 == 0 else 0)
        measured = number % 5 == 0
        points.append(
            {
                "skip": sorted(chance.sample(range(LAYERS), size)),
                "x": size / LAYERS,
                "y": value,
                "low": value - 0.012 if measured else None,
                "high": value + 0.015 if measured else None,
                "feasible": number % 3 != 0,
                "front": number in (7, 18, 29),
                "selected": number == 35,
                "timed": measured,
                "url": f"/opened?point={number}",
            }
        )
    return {"x": "Layers skipped (share)", "y": "Cost of a step (dense = 1)", "points": points}


def by_domain(
    unit: str = "\N{MULTIPLICATION SIGN}", reference: float | None = 1.0, middle: float = 1.08
) -> dict[str, Any]:
    """Figures by domain and draft method; one is missing, one has no interval."""
    chance = random.Random(3)
    series = []
    for place, draft in enumerate(DRAFTS):
        values: list[dict[str, Any]] = []
        for domain in DOMAINS:
            value = middle * (1 + chance.gauss(0, 0.05) + 0.04 * place)
            values.append(
                {
                    "category": domain,
                    "value": value,
                    "low": value * 0.93,
                    "high": value * 1.09,
                    "url": f"/opened?domain={domain}&draft={draft}",
                }
            )
        series.append({"name": draft, "values": values})
    series[1]["values"][2].update(value=None, low=None, high=None)  # type: ignore[index]
    series[2]["values"][3].update(low=None, high=None)  # type: ignore[index]
    return {"unit": unit, "reference": reference, "categories": list(DOMAINS), "series": series}


def judged() -> dict[str, Any]:
    """Two figures, of which the second fails the held-out check."""
    values = [
        {"category": "qa", "value": 1.1, "low": 1.0, "high": 1.2, "gate": "confirmed", "fails": False},
        {"category": "rag", "value": 1.2, "low": 1.1, "high": 1.3, "gate": "fails", "fails": True},
    ]
    series = [{"name": "Speed-up", "values": values}]
    return {
        "unit": "\N{MULTIPLICATION SIGN}",
        "reference": 1.0,
        "categories": ["qa", "rag"],
        "series": series,
    }


def rollout() -> dict[str, Any]:
    """A version on its way to all nodes."""
    return {
        "channel_version": 4,
        "versions": [
            {"version": 4, "nodes": 120, "label": "4 (current)"},
            {"version": 3, "nodes": 14, "label": "3"},
            {"version": 2, "nodes": 1, "label": "2"},
            {"version": None, "nodes": 5, "label": "none"},
        ],
        "states": {"FRESH": 117, "STALE": 13, "EXPIRED": 2, "NONE": 8},
    }


def all_samples() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Name, kind, label and data of every chart of the gallery."""
    named = by_domain()
    named["series"][0]["name"] = DANGEROUS
    named["categories"] = named["categories"][:2]
    one = by_domain()
    one["categories"], one["series"] = ["qa"], one["series"][:1]
    return [
        ("heatmap", "layer-heatmap", "What skipping one layer changes", heatmap()),
        ("deep", "layer-heatmap", "A target of 128 layers, half done", heatmap(128, 70)),
        ("zero", "layer-heatmap", "Dense has nothing of the metric", heatmap_of_zero()),
        ("pareto", "pareto", "Accept length against BLEU", pareto()),
        ("drafts", "pareto", "A floor on another figure", pareto_of_drafts()),
        ("few", "pareto", "Few configurations", pareto(8, 8)),
        ("cost", "cost", "Cost against what is skipped", cost()),
        ("intervals", "intervals", "Speed-up on held-out prompts", by_domain()),
        ("one", "intervals", "One figure", one),
        ("judged", "intervals", "What the held-out check says", judged()),
        ("bars", "bars", "Accept length by domain and draft method", by_domain("tokens a step", 1.0, 2.1)),
        ("names", "bars", "Names that look like markup", named),
        ("rollout", "rollout", "Nodes of production", rollout()),
        (
            "nothing",
            "pareto",
            "Nothing yet",
            {"x": "A", "y": "M", "dense": None, "floors": None, "points": []},
        ),
    ]
