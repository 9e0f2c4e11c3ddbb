"""Strategies in words: what they are called, and what their levels do.

A strategy that nothing is written down for here is called by its name, and told of in general words.
"""

from __future__ import annotations

from skipmap.profiling.search import STRATEGIES
from skipmap.profiling.strategies.base import Strategy

_TITLES = {
    "tss": "TSS, all sets",
    "beam": "Beam",
    "greedy": "Greedy by metric",
    "accept_only": "Accept length alone",
    "metric_only": "Metric alone",
    "sleb": "SLEB, by perplexity",
    "shortgpt": "ShortGPT, by influence",
    "random": "Random sets",
}

_OF_POOL = {
    "single": "each layer skipped alone; those that keep a floor form the pool",
    "level": "sets of layers of the pool, skipped together",
}
_LEVELS = {
    "tss": _OF_POOL,
    "accept_only": {
        **_OF_POOL,
        "single": "each layer skipped alone; those that keep accept length form the pool",
    },
    "metric_only": {
        **_OF_POOL,
        "single": "each layer skipped alone; those that keep the metric form the pool",
    },
    "beam": {**_OF_POOL, "level": "the best sets of the level before, each with one more layer of the pool"},
    "greedy": {
        "single": "each layer that is not protected, skipped alone; the one that leaves the best metric is added",
        "level": "the set so far with each layer that may be added; the one that leaves the best metric is added",
    },
    "random": {"single": "single layers that were drawn", "level": "sets of layers that were drawn"},
    "shortgpt": {
        "rank": "how much each layer turns what goes through it, where dense reads prompts and its own answers",
        "single": "the layer of least influence, skipped alone",
        "level": "the layers of least influence, skipped together",
    },
    "sleb": {
        "rank": "how likely prompts and the answers of dense are without each layer that may go next",
        "single": "the layer that is missed least, skipped alone",
        "level": "the set so far with the layer that is missed least",
    },
}
_ANY = {
    "single": "single layers, skipped alone",
    "level": "sets of layers, skipped together",
    "rank": "figures that put layers in order",
}

_KEPT_FIRST = {"greedy": "with the deepest layers", "random": "first drawn"}
_OF_FLOORS = "The search ends sooner where a level has nothing that keeps its floors."
_ENDS = {
    **dict.fromkeys(("tss", "beam", "accept_only", "metric_only"), _OF_FLOORS),
    "greedy": "The search ends sooner where nothing of a level keeps the floor of the metric.",
}


def strategy_title(name: str) -> str:
    """What a strategy is called where there is little room."""
    return _TITLES.get(name, name)


def strategy_summary(name: str) -> str | None:
    """What a strategy does, in one clause; None for one of a later version."""
    found = _named(name)
    # The library speaks of blocks, and pages of layers.
    return None if found is None else found.summary.replace("block", "layer")


def kept_by_front(name: str) -> str:
    """Which floors the sets of its front keep."""
    found = _named(name)
    return "both floors" if found is None or found.sight.is_whole else f"the floor of {found.sight.words}"


def kept_first(name: str) -> str:
    """Which sets of a level are evaluated where a limit leaves no room for all of them."""
    return _KEPT_FIRST.get(name, "most promising")


def ends_sooner(name: str) -> str:
    """What ends a search before its deepest level; empty where nothing that it finds does."""
    return _ENDS.get(name, "")


def _named(name: str) -> Strategy | None:
    return next((strategy for strategy in STRATEGIES.values() if strategy.name == name), None)


def level_of_search(kind: str, strategy: str) -> str:
    """What a level of kind ``single``, ``level`` or ``rank`` does."""
    return _LEVELS.get(strategy, {}).get(kind, _ANY[kind])
