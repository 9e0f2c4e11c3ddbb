"""What a verification step costs with fewer layers: the fitted cost of the sizes evaluated, beside the timed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models.chunks import skip_key
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from web.views.layers import Address
from web.views.results import Result

_X, _Y = "Layers skipped (share)", "Cost of a step (dense = 1)"
Kind = Literal["fitted", "timed"]


@dataclass(frozen=True)
class CostRow:
    """A configuration's cost relative to dense: from the fitted model, or timed itself.

    ``is_feasible``: None for one that was timed alone, and never evaluated as an operating point.
    """

    skip: SkipSet
    share: float
    ratio: float
    kind: Kind
    is_feasible: bool | None
    is_front: bool
    is_selected: bool

    @property
    def key(self) -> str:
        """Names it in addresses."""
        return skip_key(self.skip)


def cost_rows(result: Result) -> tuple[CostRow, ...]:
    """By the model: dense, named configurations and one of each size; and all that was timed. Empty without a cost."""
    cost = result.view.document["cost"]
    if not cost:
        return ()
    named = sorted({DENSE, *result.view.by_skip}, key=lambda skip: (len(skip), skip))
    fitted = [(skip, ratio) for skip in named if (ratio := result.cost_ratio(skip)) is not None]
    rows = [_row(result, skip, ratio, "fitted") for skip, ratio in fitted]
    return (*rows, *(_row(result, skip, ratio, "timed") for skip, ratio in _timed(cost)))


def cost_chart(rows: Sequence[CostRow], address: Address) -> dict[str, Any]:
    """Data of the chart: configurations that one may choose.

    Of timings medians alone were kept, and the spread of dense, so none has an interval.
    """
    return {
        "x": _X,
        "y": _Y,
        "points": [
            {
                "skip": row.skip.to_list(),
                "x": row.share,
                "y": row.ratio,
                "low": None,
                "high": None,
                "feasible": row.is_feasible,
                "front": row.is_front,
                "selected": row.is_selected,
                "timed": row.kind == "timed",
                "url": address(row.key),
            }
            for row in rows
            if row.is_feasible is not None
        ],
    }


def _timed(cost: Mapping[str, Any]) -> list[tuple[SkipSet, float]]:
    """Cost ratios that were measured: of the probes that the model was fitted to, and of the finalists."""
    seconds = {SkipSet.parse(text, "cost.measured"): value for text, value in cost["measured"].items()}
    dense = seconds.pop(DENSE, None)
    found = {skip: value / dense for skip, value in seconds.items()} if dense else {}
    found |= {
        SkipSet.parse(text, "cost.finalists"): ratio for text, ratio in cost.get("finalists", {}).items()
    }
    return sorted(found.items(), key=lambda entry: (len(entry[0]), entry[0]))


def _row(result: Result, skip: SkipSet, ratio: float, kind: Kind) -> CostRow:
    view = result.view
    known = view.by_skip.get(skip)
    return CostRow(
        skip,
        len(skip) / view.num_layers,
        ratio,
        kind,
        None if known is None else known.feasible,
        skip in view.front,
        bool(skip.blocks) and skip == view.selected,
    )
