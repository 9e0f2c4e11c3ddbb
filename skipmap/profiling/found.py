"""What a strategy found on its way, as a table for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SETS_NAMED = 6
_LARGEST_EXPONENT = 700.0
"""Beyond it a number would be infinite."""

Cells = tuple[str, ...]
_Found = Mapping[str, Any]


@dataclass(frozen=True)
class FoundTable:
    """``about``: a sentence on what the figures are."""

    title: str
    about: str
    columns: Cells
    rows: tuple[Cells, ...]


def found_table(document: Mapping[str, Any]) -> FoundTable | None:
    """The table of a result's ``strategy`` section; None where there is nothing to show beside the configurations."""
    found = document.get("strategy") or {}
    make = _TABLES.get(found.get("name", ""))
    return make(found, document) if make else None


def _random(found: _Found, document: Mapping[str, Any]) -> FoundTable:
    metric = document["metric"]["name"]
    key = _accept_key(document)
    accept = key.replace("_", " ")
    parts = ("mean", "standard_deviation", "min", "max")
    columns = (
        "blocks",
        "sets drawn",
        *(f"{name}, {part.replace('_', ' ')}" for name in (accept, metric) for part in parts),
    )
    rows = (
        (
            str(size["size"]),
            f"{size['evaluated']} of {size['possible']:,}",
            *(_decimals(size[key][part], 3) for part in parts),
            *(_decimals(size["metric"][part], 4) for part in parts),
        )
        for size in found.get("sizes", ())
    )
    about = (
        "Sets of each size were drawn uniformly from all blocks; so much a set taken without looking gives."
    )
    return FoundTable("Random sets", about, columns, tuple(rows))


def _shortgpt(found: _Found, document: Mapping[str, Any]) -> FoundTable:
    influence = found.get("influence", ())
    rows = (
        (str(place), str(block), f"{influence[block]:.4f}")
        for place, block in enumerate(found.get("order", ()), 1)
    )
    about = (
        "Block influence: 1 - mean cosine between what enters and what leaves a block. The lowest goes first."
    )
    return FoundTable("Block influence", about, ("rank", "block", "influence"), tuple(rows))


def _sleb(found: _Found, document: Mapping[str, Any]) -> FoundTable:
    rows = (
        (_skip(step["skip"]), f"{step['log_perplexity']:.4f}", _perplexity(step["log_perplexity"]))
        for step in found.get("path", ())
    )
    about = (
        "Over the tokens of the calibration prompts with their dense answers; log perplexity is the mean negative "
        "log-likelihood of a token."
    )
    return FoundTable("Perplexity", about, ("skip", "log perplexity", "perplexity"), tuple(rows))


def _beam(found: _Found, document: Mapping[str, Any]) -> FoundTable:
    rows = (
        (str(level["level"]), f"{level['evaluated']:,}", f"{len(level['kept']):,}", _named(level["kept"]))
        for level in found.get("levels", ())
    )
    about = f"Each level was grown from at most {found.get('width')} sets of the one before."
    return FoundTable("Beam", about, ("level", "evaluated", "built upon", "sets built upon"), tuple(rows))


def _greedy(found: _Found, document: Mapping[str, Any]) -> FoundTable:
    rows_by_skip = {tuple(row["skip"]): row for row in document["evaluations"]}
    key = _accept_key(document)

    def rows() -> Iterator[Cells]:
        for place, skip in enumerate(found.get("path", ()), 1):
            row = rows_by_skip[tuple(skip)]
            yield str(place), _skip(skip), f"{row[key]:.3f}", f"{row['metric']:.4f}"

    columns = ("round", "skip", key.replace("_", " "), document["metric"]["name"])
    return FoundTable(
        "Rounds", "Each round took the block that left the best metric.", columns, tuple(rows())
    )


_TABLES: Mapping[str, Callable[[_Found, Mapping[str, Any]], FoundTable]] = {
    "random": _random,
    "shortgpt": _shortgpt,
    "sleb": _sleb,
    "beam": _beam,
    "greedy": _greedy,
}


def _accept_key(document: Mapping[str, Any]) -> str:
    measure = document["spec"]["search"]["accept_measure"]
    return "accept_length" if measure == "tokens_per_step" else "accepted_drafts"


def _skip(skip: Sequence[int]) -> str:
    return ",".join(map(str, skip)) or "dense"


def _named(skips: Sequence[Sequence[int]]) -> str:
    more = len(skips) - _SETS_NAMED
    return " ".join(f"{{{_skip(skip)}}}" for skip in skips[:_SETS_NAMED]) + (
        f" and {more:,} more" if more > 0 else ""
    )


def _decimals(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:.{places}f}"


def _perplexity(logarithm: float) -> str:
    return (
        f"{math.exp(logarithm):.3f}" if logarithm < _LARGEST_EXPONENT else f"over e^{_LARGEST_EXPONENT:.0f}"
    )
