"""``skipmap anchors``: make the anchors of the draft ``knn_ssd``, and show how held-out prompts fall to them."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from skipmap.calibration.items import Item
from skipmap.calibration.sources import load_source
from skipmap.calibration.split import split
from skipmap.calibration.templates import get_template, render_prompt
from skipmap.cli.console import AnswerConsole
from skipmap.cli.prompt_sources import calibrations_of, named_by
from skipmap.cli.values import pairs, require_writable
from skipmap.drafts.thinned.anchors import Anchors
from skipmap.errors import InvalidInput, choices
from skipmap.profiling.store import write_atomically
from skipmap.serving.anchors import make_anchors, mean_states
from skipmap.skipset import SkipSet
from skipmap.spec import CalibrationSpec
from skipmap.target.detour import SubLayers
from skipmap.target.loaded import LoadedTarget, load_resolved
from skipmap.target.loading import load_config, resolve_target
from skipmap.visible import one_line

_SKIPS = {"blocks": "--draft-skip", "attention": "--draft-skip-attention", "mlp": "--draft-skip-mlp"}
_MOST_HELD_OUT = 50


@dataclass(frozen=True)
class _Domain:
    """Items of a domain; held-out ones are only counted by the anchors that they fall to."""

    calibration: Sequence[Item]
    held_out: Sequence[Item]


def run(arguments: Namespace) -> int:
    """Write the anchors and print which domain's anchors held-out prompts are nearest to."""
    if arguments.centres < 1:
        raise InvalidInput("--centres", f"must be 1 or more (given: {arguments.centres})")
    sources = calibrations_of(arguments.domain, "--domain", arguments.fraction, arguments.seed)
    read = [Path(source.source) for source in sources.values()]
    require_writable(arguments.out, "--out", [path for path in read if path.is_file()])
    if arguments.template is not None:
        get_template(arguments.template)
    resolved = resolve_target(arguments.target, arguments.revision)
    left_out = _left_out(arguments, sources, load_config(resolved).num_hidden_layers)
    domains = {name: _domain(name, source) for name, source in sources.items()}
    _say(f"loading {arguments.target}")
    loaded = load_resolved(resolved, arguments.dtype, arguments.device)
    prompts = {
        name: _tokens(loaded, arguments.template, domain.calibration) for name, domain in domains.items()
    }
    anchors = make_anchors(loaded.model, resolved.fingerprint, prompts, left_out, arguments.centres)
    write_atomically(arguments.out, anchors.to_json())
    held_out = {
        name: _tokens(loaded, arguments.template, domain.held_out[:_MOST_HELD_OUT])
        for name, domain in domains.items()
    }
    _answer(arguments, anchors, prompts, _falls(loaded, anchors, held_out))
    _say(f"anchors: {arguments.out}")
    return 0


def _left_out(
    arguments: Namespace, names: Sequence[str] | Mapping[str, object], num_layers: int
) -> dict[str, SubLayers]:
    """What the draft of each domain leaves out; every domain must be named."""
    given: dict[str, dict[str, SkipSet]] = {}
    for part, option in _SKIPS.items():
        for name, text in pairs(getattr(arguments, option[2:].replace("-", "_")), option).items():
            if name not in names:
                raise InvalidInput(option, f"{name!r} is no --domain; those are {choices(names)}")
            given.setdefault(name, {})[part] = SkipSet.parse(text, option).validate(num_layers, option)
    for name in names:
        if name not in given:
            raise InvalidInput(
                _SKIPS["blocks"], f"{name} is given none; give {name}=3,7, or {name}=dense for none"
            )
    return {name: _sub_layers(given[name]) for name in names}


def _sub_layers(parts: Mapping[str, SkipSet]) -> SubLayers:
    whole = parts.get("blocks", SkipSet())
    attention, mlp = (SkipSet.of([*whole, *parts.get(part, SkipSet())]) for part in ("attention", "mlp"))
    return SubLayers(attention, mlp)


def _domain(name: str, source: CalibrationSpec) -> _Domain:
    with named_by(f"--domain {name}"):
        return _Domain(*split(load_source(source).items, source.calibration_fraction, source.seed))


def _tokens(loaded: LoadedTarget, template: str | None, items: Sequence[Item]) -> list[list[int]]:
    """First turns as a job would put them."""
    usual = "chat" if loaded.tokenizer.chat_template else "plain"
    writer = get_template(template or usual)
    return [render_prompt(writer, item, (), (), loaded.tokenizer) for item in items]


def _falls(
    loaded: LoadedTarget, anchors: Anchors, prompts: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, dict[str, int]]:
    """True domain -> domain of the nearest anchor -> prompts."""
    return {
        name: dict(Counter(anchors.nearest(state) for state in mean_states(loaded.model, tokens)))
        for name, tokens in prompts.items()
        if tokens
    }


def _answer(
    arguments: Namespace,
    anchors: Anchors,
    prompts: Mapping[str, Sequence[object]],
    falls: Mapping[str, Mapping[str, int]],
) -> None:
    count = Counter(anchor.label for anchor in anchors.anchors)
    if arguments.json:
        domains = {
            name: {"prompts": len(tokens), "anchors": count[name], "held_out": falls.get(name, {})}
            for name, tokens in prompts.items()
        }
        print(json.dumps({"out": str(arguments.out), "domains": domains}, ensure_ascii=False))
        return
    table = Table(title="Held-out prompts by true domain (rows) and domain of the nearest anchor (columns)")
    table.add_column("prompts of")
    for name in prompts:
        table.add_column(name, justify="right")
    for name, row in falls.items():
        table.add_row(name, *(str(row.get(other, 0)) for other in prompts))
    console = AnswerConsole()
    console.print(table)
    console.print_lines(
        f"{name}: {count[name]} anchors of {len(tokens)} prompts" for name, tokens in prompts.items()
    )


def _say(text: str) -> None:
    print(f"skipmap: {one_line(text)}", file=sys.stderr)
