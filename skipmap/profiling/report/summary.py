"""The result in plain words: what may be skipped, what it gains and costs, what the search left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipmap.maps.verdict import Tone
from skipmap.profiling.report import figures
from skipmap.profiling.report.view import HeldOut, Row, View
from skipmap.prose import sentence


@dataclass(frozen=True)
class Tile:
    """A key figure: large value, what it is, and its context."""

    label: str
    value: str
    context: str


@dataclass(frozen=True)
class Verdict:
    """What held-out prompts say of the selected point."""

    tone: Tone
    short: str
    text: str


@dataclass(frozen=True)
class Summary:
    """What stands at the top of a section."""

    headline: str
    lead: str
    tiles: tuple[Tile, ...]
    verdict: Verdict
    coverage: str
    complete: bool
    warnings: tuple[str, ...]


def summarise(view: View) -> Summary:
    """Plain words and key figures of a result."""
    chosen = view.by_skip.get(view.selected) if view.selected.blocks else None
    point = view.held_out_of(view.selected) if chosen else None
    coverage, complete = _coverage(view)
    return Summary(
        _headline(view),
        _lead(view, chosen),
        _tiles(view, chosen, point) if chosen else _dense_tiles(view),
        _verdict(view, point) if chosen else _dense_verdict(view),
        coverage,
        complete,
        tuple(map(sentence, (*view.document["notes"], *_cautions(view, chosen, point)))),
    )


def _headline(view: View) -> str:
    if view.selected.blocks:
        noun = "block" if len(view.selected) == 1 else "blocks"
        named = f"{noun} {figures.blocks(view.selected)}"
        return {
            "confirmed": f"May skip {named}",
            "passes, not certain": f"May skip {named}, but that is not certain",
            "fails": f"Skip nothing yet: skipping {named} fails on held-out prompts",
            "not checked": f"May skip {named}, not checked on held-out prompts",
        }[view.verdict(view.selected).word]
    return "No answer: the metric shows no signal" if view.document["no_signal"] else "Keep the target dense"


def _lead(view: View, chosen: Row | None) -> str:
    target, draft = view.target["id"], view.draft["method"]
    asked = f"{view.num_layers} blocks of {target} when it verifies {draft} drafts of {view.domain} traffic"
    if chosen is None:
        if view.document["no_signal"]:
            searched = "" if view.rows else ", so nothing was searched"
            return (
                f"Asked: which of the {asked} need not run. The dense target scores no better than a trivial "
                f"answer on these prompts{searched}."
            )
        return (
            f"Asked: which of the {asked} need not run. Of {figures.count(len(view.rows), 'configuration')} "
            f"evaluated, none {_kept_floors(view)}."
        )
    kept = _kept(view)
    doubt = (
        " But dense itself scores no better than a trivial answer here, so the metric says little."
        if view.document["no_signal"]
        else ""
    )
    return (
        f"On {figures.count(view.document['data']['n_calibration'], 'calibration prompt')}, {chosen.level} of the "
        f"{asked} need not run: {kept}. "
        f"Chosen as the {view.document['reason']}.{doubt}"
    )


def _kept(view: View) -> str:
    """What the chosen set keeps of dense by the strategy's own test."""
    eps, tau = view.search["eps"], view.search["tau"]
    sight = view.strategy.sight
    if not sight.metric:
        return f"{view.accept_name} keeps {figures.share(1 - eps)} of dense or more; {view.metric_name} was not asked"
    if not sight.accept:
        return f"{view.metric_name} keeps {figures.share(1 - tau)} of dense or more; {view.accept_name} was not asked"
    if eps == tau:
        return (
            f"both {view.accept_name} and {view.metric_name} keep {figures.share(1 - eps)} of dense or more"
        )
    return (
        f"{view.accept_name} keeps {figures.share(1 - eps)} and {view.metric_name} {figures.share(1 - tau)} of dense "
        "or more"
    )


def _kept_floors(view: View) -> str:
    sight = view.strategy.sight
    if sight.is_whole:
        return f"keeps both {view.accept_name} and {view.metric_name} above their floors"
    return f"keeps {view.accept_name if sight.accept else view.metric_name} above its floor"


def _tiles(view: View, chosen: Row, point: HeldOut | None) -> tuple[Tile, ...]:
    dense, checked = view.dense, view.held_out_dense
    held_out = ("", "")
    if point and checked:
        held_out = (
            f"; held-out {_step(checked.accept, point.accept, figures.accept)}",
            f"; held-out {_step(checked.metric, point.metric, figures.metric)}",
        )
    speedup = point.speedup if point else None
    return (
        Tile(
            f"{view.accept_name.capitalize()}, calibration",
            _step(dense.accept, chosen.accept, figures.accept),
            f"{figures.signed_percent(view.accept_change(chosen))}{held_out[0]}; tokens a verification step",
        ),
        Tile(
            f"{view.metric_name}, calibration",
            _step(dense.metric, chosen.metric, figures.metric),
            f"{figures.signed_percent(view.metric_change(chosen))}{held_out[1]}; 0 to 1, higher is better",
        ),
        Tile(
            "Cost of a verification step",
            figures.ratio(chosen.cost_ratio),
            "of dense, one request at a time" if chosen.cost_ratio is not None else "not measured",
        ),
        Tile(
            "Speed-up, held-out",
            figures.speedup(speedup),
            f"over dense speculation{_range(point, 'speedup', figures.speedup)}"
            if point and speedup is not None
            else "not measured",
        ),
    )


def _step(before: float, after: float, written: Callable[[float | None], str]) -> str:
    return f"{written(before)} \u2192 {written(after)}"


def _dense_tiles(view: View) -> tuple[Tile, ...]:
    baseline = view.document.get("baseline")
    trivial = "" if baseline is None else f"; a trivial answer reaches {figures.metric(baseline)}"
    return (
        Tile(
            f"{view.accept_name.capitalize()}, dense",
            figures.accept(view.dense.accept),
            view.accept_definition,
        ),
        Tile(
            f"{view.metric_name}, dense",
            figures.metric(view.dense.metric),
            f"0 to 1, higher is better{trivial}",
        ),
    )


def _verdict(view: View, point: HeldOut | None) -> Verdict:
    found, dense = view.verdict(view.selected), view.held_out_dense
    short = f"Held-out check: {found.word}"
    if point is None or dense is None:
        return Verdict(found.tone, short, sentence(found.why))
    change = (
        f"{view.accept_name.capitalize()} goes from {figures.accept(dense.accept)} to "
        f"{figures.accept(point.accept)} and {view.metric_name} from {figures.metric(dense.metric)} to "
        f"{figures.metric(point.metric)} (difference {figures.metric_change(point.metric - dense.metric)}"
        f"{_range(point, 'metric_change', figures.metric_change)})."
    )
    advice = "" if found.passes else " Do not roll it out as it is."
    return Verdict(found.tone, short, f"{sentence(found.why)} {change}{advice}")


def _dense_verdict(view: View) -> Verdict:
    if view.document["no_signal"]:
        return Verdict(
            "neutral", "Nothing to check", "Held-out prompts were not run: no configuration was selected."
        )
    return Verdict(
        "neutral", "Dense stays", "Dense needs no held-out check: it is what every floor refers to."
    )


def _coverage(view: View) -> tuple[str, bool]:
    """How much of the method's search was done, and whether all of it was."""
    text, complete = _extent(view)
    if view.strategy.name == "tss":
        return text, complete
    return f"Strategy {view.strategy.name}: {view.strategy.summary}. {text}", complete


def _extent(view: View) -> tuple[str, bool]:
    budget = view.document["budget"]
    evaluated = f"{figures.count(budget['evaluated'], 'configuration')} evaluated, dense included"
    if budget.get("ranked"):
        evaluated += f"; {figures.count(budget['ranked'], 'ranking figure')} taken"
    if view.document["no_signal"] and not view.rows:
        return f"The search stopped after dense: {budget['stopped']}.", False
    cuts = []
    if budget["pool_cut"]:
        found, kept = budget["pool_found"], len(view.pool)
        cuts.append(f"only {kept} of {found} blocks that passed a floor were combined (max_pool)")
    skipped = {int(level): number for level, number in budget["not_evaluated"].items() if number}
    if skipped:
        told = ", ".join(f"{number:,} of level {level}" for level, number in sorted(skipped.items()))
        cuts.append(f"{figures.count(sum(skipped.values()), 'configuration')} not evaluated ({told})")
    depth = _depth(view)
    if cuts or not budget["exhaustive"]:
        why = "; ".join(cuts) or f"strategy {view.strategy.name} does not look at every set"
        return f"This search was not exhaustive: {why}. {evaluated[0].upper()}{evaluated[1:]}.{depth}", False
    return f"Within its depth the search was exhaustive: {evaluated}; no budget cut anything.{depth}", True


def _depth(view: View) -> str:
    """A sentence about larger sets that nobody looked at; empty when there are none."""
    budget = view.document["budget"]
    reached = budget["depth_reached"]
    if not view.pool and not view.pool_cut:
        return " No block passed a floor alone, so none were combined."
    if reached >= len(view.pool):
        return ""
    bound = f"max_depth is {budget['max_depth']}; " if reached >= budget["max_depth"] else ""
    return f" Sets of more than {figures.count(reached, 'block')} were not tried: {bound}{budget['stopped']}."


def _cautions(view: View, chosen: Row | None, point: HeldOut | None) -> tuple[str, ...]:
    """What the figures themselves warn of."""
    found = []
    if view.draft["lossy"]:
        found.append(
            f"the draft method {view.draft['method']} is lossy: its acceptance rule changes the target's output"
        )
    left_out = view.document["data"]["left_out"]
    if left_out:
        told = "; ".join(f"{number} ({reason})" for reason, number in left_out.items())
        found.append(f"prompts left out of the data: {told}")
    cost = view.document["cost"]
    if chosen and cost and chosen.cost_ratio is not None and 0 < 1 - chosen.cost_ratio < cost["spread"]:
        found.append(
            f"the step's saving of {figures.percent(1 - chosen.cost_ratio)} is smaller than the spread of its timing "
            f"({figures.percent(cost['spread'])} between quartiles): take the cost as a rough figure"
        )
    interval = point.intervals.get("speedup") if point else None
    if interval and interval[0] <= 1 <= interval[1]:
        found.append(
            "the interval of the held-out speed-up includes 1: these prompts do not show a gain for sure"
        )
    split = sum(row.batch_split for row in (view.dense, *view.rows))
    if split:
        found.append(
            f"{figures.count(split, 'evaluation')} ran in halved batches after running out of memory"
        )
    return tuple(found)


def _range(point: HeldOut, name: str, written: Callable[[float | None], str]) -> str:
    ends = point.intervals.get(name)
    if ends is None:
        return ""
    return f", 95 % interval {written(ends[0])} to {written(ends[1])}"
