"""Small result documents, made by hand, and a reader of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest

Scores = Mapping[tuple[int, ...], tuple[float, float]]
DENSE = (2.0, 0.40)


def prompt(
    name: str, steps: int, emitted: int, stats: Sequence[float], text: str = "an answer"
) -> dict[str, Any]:
    """One held-out row."""
    return {
        "id": name,
        "steps": steps,
        "emitted": emitted,
        "accepted": emitted - steps,
        "new_tokens": emitted + 1,
        "stats": list(stats),
        "text": text,
        "seconds": 0.5,
    }


def make_result(
    scores: Scores,
    *,
    num_layers: int = 4,
    selected: Sequence[int] = (),
    front: Sequence[Sequence[int]] = (),
    pool: Sequence[int] = (),
    dense: tuple[float, float] = DENSE,
    cost: bool = True,
    held_out: Mapping[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A result with (accept length, metric) by skip set; a row is feasible when it keeps both floors."""

    def row(skip: tuple[int, ...], accept: float, metric: float) -> dict[str, Any]:
        return {
            "skip": list(skip),
            "level": len(skip),
            "accept_length": accept,
            "accepted_drafts": accept - 1,
            "steps": 100,
            "idle_prompts": 0,
            "metric": metric,
            "cost_ratio": 1 - 0.2 * len(skip) if cost else None,
            "feasible": not skip or (accept >= 0.95 * dense[0] and metric >= 0.95 * dense[1]),
            "evaluator": "replay",
        }

    point = list(selected) or None
    document: dict[str, Any] = {
        "schema": "skipmap.result/1",
        "spec": {
            "domain": {"name": "qa", "metric": "f1", "template": "chat", "shots": 0},
            "search": {
                "eps": 0.05,
                "tau": 0.05,
                "select": "paper",
                "accept_measure": "tokens_per_step",
                "gate": "point",
            },
        },
        "target": {
            "id": "tiny",
            "revision": None,
            "fingerprint": "f" * 64,
            "num_layers": num_layers,
            "block_types": ["full_attention"] * num_layers,
        },
        "draft": {
            "method": "prompt_lookup",
            "params": {"num_tokens": 4},
            "fingerprint": None,
            "lossy": False,
        },
        "metric": {"name": "f1", "signature": "f1|v:1"},
        "data": {"digest": "d" * 64, "n_calibration": 5, "n_held_out": 20, "left_out": {}, "shots": []},
        "baseline": 0.1,
        "no_signal": False,
        "dense": row((), *dense),
        "pool": list(pool),
        "evaluations": [row(skip, *pair) for skip, pair in scores.items()],
        "front": [list(skip) for skip in front],
        "operating_points": {"paper": point, "cheapest": point, "fastest": point},
        "selected": list(selected),
        "reason": "cheapest of 1 configurations on the Pareto front" if point else "dense: nothing feasible",
        "budget": {
            "exhaustive": True,
            "stopped": "all levels up to 1 were evaluated",
            "evaluated": 1 + len(scores),
            "depth_reached": max(map(len, scores), default=0),
            "max_depth": 3,
            "depth_clamped": False,
            "pool_found": len(pool),
            "pool_cut": [],
            "not_evaluated": {},
        },
        "cost": {
            "fixed": 0.01,
            "per_type": {"full_attention": 0.01},
            "spread": 0.01,
            "tree_size": 5,
            "context_length": 40,
            "device": "cpu",
            "measured": {"{}": 0.05, "{0}": 0.041, "{0,2}": 0.03},
        }
        if cost
        else None,
        "held_out": held_out or {"dense": None, "points": [], "not_checked": []},
        "notes": [],
        "versions": {"skipmap": "0.1.0"},
        "timings": {"wall_seconds": 130.0},
        "search_digest": "a" * 64,
    }
    return document | changes


def make_held_out(
    skip: Sequence[int],
    dense: Sequence[Mapping[str, Any]],
    sparse: Sequence[Mapping[str, Any]],
    *,
    passes_gate: bool = True,
) -> dict[str, Any]:
    """Held-out part with one point; figures follow from the rows."""

    def part(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        steps = sum(r["steps"] for r in rows)
        return {
            "accept_length": sum(r["emitted"] for r in rows) / steps,
            "accepted_drafts": sum(r["accepted"] for r in rows) / steps,
            "metric": sum(r["stats"][0] for r in rows) / len(rows),
            "tokens_per_second": 30.0,
            "per_prompt": list(rows),
        }

    point = part(sparse) | {
        "skip": list(skip),
        "speedup": 1.2,
        "intervals": {
            "accept_length_change": [-0.1, 0.4],
            "metric_change": [-0.02, 0.03],
            "speedup": [1.1, 1.3],
        },
        "passes_gate": passes_gate,
    }
    return {"dense": part(dense) | {"skip": []}, "points": [point], "not_checked": []}


def count(row: dict[str, Any], accepted: Sequence[int], proposed: Sequence[int]) -> None:
    """Give a row drafting counters; a held-out one times, too: 2 ms drafting and 30 ms verifying a step."""
    row |= {"accepted_histogram": list(accepted), "proposed_histogram": list(proposed)}
    row["steps"] = sum(accepted)
    if "tokens_per_second" in row:
        row |= {"draft_seconds": 0.002 * row["steps"], "verify_seconds": 0.03 * row["steps"]}
    else:
        row["tree_size"] = 3.5


def make_comparison(scores: Mapping[str, Mapping[str, float | None]], **changes: Any) -> dict[str, Any]:
    """A comparison with accept lengths by domain and draft; None: no step. Intervals reach 0.2 down and 0.5 up."""

    def compared(name: str, accept: float | None) -> dict[str, Any]:
        stepped = accept is not None
        return {
            "draft": name,
            "accept_length": accept or 0.0,
            "interval": [accept - 0.2, accept + 0.5] if accept is not None else [0.0, 0.0],
            "accepted_drafts": accept - 1 if accept is not None else 0.0,
            "steps": 10 * stepped,
            "tree_size": 3.5 * stepped,
            "accepted_histogram": [6, 3, 1] if stepped else [],
            "proposed_histogram": [2, 0, 8] if stepped else [],
            "position_acceptance": [0.5, 0.125] if stepped else [],
            "idle_prompts": 0 if stepped else 4,
            "metric": 0.4,
            "evaluator": "replay",
        }

    names = next(iter(scores.values()))
    document: dict[str, Any] = {
        "schema": "skipmap.comparison/1",
        "target": {
            "id": "tiny",
            "revision": None,
            "fingerprint": "f" * 64,
            "num_layers": 4,
            "block_types": ["full_attention"] * 4,
            "dtype": "float32",
            "device": "cpu",
        },
        "skip": [],
        "accept_length": "tokens emitted per verification step, bonus token included; plain decoding = 1",
        "part": "calibration",
        "drafts": {
            name: {
                "method": name.split(":")[0],
                "params": {"num_tokens": 4},
                "fingerprint": None,
                "lossy": False,
                "summary": "copies what came before",
                "replayable": True,
            }
            for name in names
        },
        "domains": {
            domain: {
                "spec": {"domain": {"name": domain}},
                "template": {"name": "chat"},
                "metric": {"name": "f1", "signature": "f1|v:1"},
                "data": {
                    "digest": "d" * 64,
                    "n_calibration": 4,
                    "n_held_out": 16,
                    "left_out": {},
                    "shots": [],
                },
                "rows": [compared(name, accept) for name, accept in found.items()],
            }
            for domain, found in scores.items()
        },
        "notes": [],
        "versions": {"skipmap": "0.1.0"},
    }
    return document | changes


class Page(HTMLParser):
    """Elements of a page as (tag, attributes, text until its end), in order of their ends."""

    _VOID = frozenset({"meta", "br", "link"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str], str]] = []
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(html)
        assert not self._open, f"never closed: {self._open[-1][0]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        entry = (tag, {name: value or "" for name, value in attrs}, [])
        if tag in self._VOID:
            self.elements.append((tag, entry[1], ""))
        else:
            self._open.append(entry)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, ""))

    def handle_endtag(self, tag: str) -> None:
        opened, attrs, text = self._open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"
        whole = "".join(text)
        self.elements.append((tag, attrs, whole))
        if self._open:
            self._open[-1][2].append(whole)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][2].append(data)

    def all(self, tag: str, kind: str | None = None) -> list[tuple[dict[str, str], str]]:
        """Attributes and text of the elements with a tag and a class."""
        return [
            (attrs, text)
            for name, attrs, text in self.elements
            if name == tag and (kind is None or kind in attrs.get("class", "").split())
        ]

    @property
    def text(self) -> str:
        """All text with single spaces."""
        return " ".join(next(text for tag, _, text in self.elements if tag == "main").split())


@pytest.fixture
def result() -> Callable[..., dict[str, Any]]:
    return make_result


@pytest.fixture
def held_out() -> Callable[..., dict[str, Any]]:
    return make_held_out


@pytest.fixture
def row() -> Callable[..., dict[str, Any]]:
    return prompt


@pytest.fixture
def counted() -> Callable[..., None]:
    return count


@pytest.fixture
def comparison() -> Callable[..., dict[str, Any]]:
    return make_comparison


@pytest.fixture
def page() -> Callable[[str], Page]:
    return Page
