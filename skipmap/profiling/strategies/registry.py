"""Which strategies there are."""

from __future__ import annotations

from collections.abc import Mapping

from skipmap.profiling.strategies.base import Strategy
from skipmap.profiling.strategies.beam import Beam
from skipmap.profiling.strategies.draws import Random
from skipmap.profiling.strategies.greedy import Greedy
from skipmap.profiling.strategies.shortgpt import ShortGpt
from skipmap.profiling.strategies.sleb import Sleb
from skipmap.profiling.strategies.tss import AcceptOnly, MetricOnly, Tss
from skipmap.spec import StrategyName

_ALL: tuple[Strategy, ...] = (
    Tss(),
    Beam(),
    Greedy(),
    AcceptOnly(),
    MetricOnly(),
    Sleb(),
    ShortGpt(),
    Random(),
)

STRATEGIES: Mapping[StrategyName, Strategy] = {strategy.name: strategy for strategy in _ALL}
"""Name -> strategy, in the order of lists and forms."""


def strategy_of(name: StrategyName) -> Strategy:
    """The strategy of a name."""
    return STRATEGIES[name]
