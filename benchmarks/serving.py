"""Requests to the reference node: plain decoding, dense and sparse speculative decoding, per domain.

Held-out prompts of the shipped samples go over HTTP, one after the other and each to all three in turn, so that a slow
spell of the machine hits all alike. Both nodes use the same loaded target; one of them drafts. With all held-out
prompts (the default), served accept length and metric are held against those that the map says. A second part measures
what the controller costs a Hugging Face model.

    python -m benchmarks.serving [--json] [--map runs/demo/map.json] [--skip summarization=6 ...] [--prompts 24]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from benchmarks.controller import measure
from benchmarks.jobs import TARGET, say
from benchmarks.machine import describe_machine, peak_memory_bytes
from skipmap.calibration.domains import preset
from skipmap.calibration.items import Item
from skipmap.calibration.templates import get_template, render_prompt
from skipmap.drafts.base import Resources
from skipmap.errors import InvalidInput, SkipmapError
from skipmap.maps.schema import DomainEntry, MapDocument, read_map
from skipmap.profiling.check import CheckedSpec, check_job
from skipmap.profiling.intervals import RESAMPLES, SEED, interval
from skipmap.serving.node.drafts import PLAIN, Drafts
from skipmap.serving.node.node import Node
from skipmap.serving.node.server import NodeServer, address_of, bind
from skipmap.serving.node.settings import NodeSettings
from skipmap.serving.node.source import FixedMap, FixedSource
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from skipmap.target.loaded import LoadedTarget, load_target
from skipmap.target.loading import load_model, resolve_target

WAYS = ("plain", "dense", "sparse")
NOWHERE = "a-domain-that-no-map-has"
REQUEST_SECONDS = 600.0


@dataclass(frozen=True)
class Served:
    """One answer: its tokens and seconds as the client sees them, and what the node says of it."""

    tokens: int
    seconds: float
    text: str
    facts: Mapping[str, Any]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--map", type=Path, default=Path("runs/demo/map.json"), help="map of the demo model")
    parser.add_argument("--skip", action="append", default=[], help="DOMAIN=BLOCKS instead of the map's")
    parser.add_argument("--prompts", type=int, help="held-out prompts of each domain (default: all)")
    parser.add_argument("--rounds", type=int, default=150, help="of the controller's part")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        found = run(arguments)
    except (SkipmapError, OSError) as error:
        parser.error(f"{error}; `make demo` writes the map")
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All cases."""
    document = _with_skips(read_map(arguments.map.read_bytes()), arguments.skip)
    loaded = load_target(TARGET)
    cases = {}
    with ExitStack() as at_the_end:
        drafting = at_the_end.enter_context(
            _node(loaded, document, document.draft.method, document.draft.params)
        )
        plain = at_the_end.enter_context(_node(loaded, document, PLAIN, {}))
        client = at_the_end.enter_context(httpx2.Client(timeout=REQUEST_SECONDS, trust_env=False))
        for domain, entry in document.domains.items():
            say(f"{domain}: skips {entry.skip_set}")
            checked = _checked(domain)
            items = checked.data.held_out[: arguments.prompts]
            rows = _race(client, loaded, domain, drafting, plain, checked, items)
            cases[domain] = {
                "skip": list(entry.skip),
                "as_calibrated": _as_calibrated(rows, items, checked, entry),
                **_compare(rows),
            }
    say("controller")
    model = load_model(resolve_target(TARGET))
    layers = int(model.config.num_hidden_layers)
    prompt = [3 + i % 1000 for i in range(256)]
    controller = measure(model, prompt, SkipSet.of(range(0, layers, 4)), rounds=arguments.rounds)
    ratios = [case["ratios"]["sparse to dense"]["median"] for case in cases.values() if "ratios" in case]
    return {
        "ratio": statistics.median(ratios) if ratios else None,
        "equal": all(
            case["dense_equals_plain"] and case["as_calibrated"] is not False for case in cases.values()
        ),
        "draft": document.draft.method,
        "cases": cases,
        "controller": controller,
        "peak_memory_bytes": peak_memory_bytes(),
        "machine": describe_machine(),
    }


def _with_skips(document: MapDocument, given: Sequence[str]) -> MapDocument:
    domains = dict(document.domains)
    for text in given:
        domain, _, blocks = text.partition("=")
        if domain not in domains:
            raise InvalidInput("--skip", f"the map has no domain {domain!r}; it has {', '.join(domains)}")
        skip = SkipSet.parse(blocks, "--skip").validate(document.target.num_layers, "--skip")
        domains[domain] = domains[domain].model_copy(update={"skip": skip.blocks, "held_out": None})
    return document.model_copy(update={"domains": domains})


@contextmanager
def _node(
    loaded: LoadedTarget, document: MapDocument, draft: str, params: Mapping[str, Any]
) -> Iterator[str]:
    """A node behind a socket; its address."""
    drafts = Drafts(_resources(loaded), draft, params)
    source = FixedSource(FixedMap(document, "", document.version), fingerprint=loaded.resolved.fingerprint)
    node = Node(loaded, NodeSettings(TARGET), source, drafts)
    listener, ready = bind("127.0.0.1", 0), threading.Event()
    server = NodeServer(node.start(), ready.set)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    if not ready.wait(REQUEST_SECONDS):
        raise InvalidInput("node", "did not begin to serve")
    try:
        yield address_of(listener)
    finally:
        server.should_exit = True
        thread.join()
        node.stop()
        listener.close()


def _resources(loaded: LoadedTarget) -> Resources:
    return Resources(loaded.encode, loaded.model.num_layers)


def _checked(domain: str) -> CheckedSpec:
    spec = {
        "target": {"id": TARGET},
        "draft": {"method": "prompt_lookup"},
        "domain": {"name": domain},
        "calibration": {"source": f"sample:{domain}"},
    }
    return check_job(JobSpec.parse(spec))


def _race(
    client: httpx2.Client,
    loaded: LoadedTarget,
    domain: str,
    drafting: str,
    plain: str,
    checked: CheckedSpec,
    items: Sequence[Item],
) -> list[dict[str, Served]]:
    """Each prompt answered in every way."""
    template = get_template(checked.spec.domain.template or preset(domain).template)
    bounds = checked.spec.decoding
    ways = {"plain": (plain, NOWHERE), "dense": (drafting, NOWHERE), "sparse": (drafting, domain)}
    rows: list[dict[str, Served]] = []
    for turn, item in enumerate((items[0], *items)):
        prompt = render_prompt(template, item, (), checked.data.shots, loaded.tokenizer)
        body = {
            "prompt": prompt,
            "max_tokens": bounds.max_new_tokens,
            "stop": list(bounds.stop or ()),
            "temperature": 0,
        }
        shift = turn % len(WAYS)
        row = {
            way: _ask(client, ways[way][0], body | {"domain": ways[way][1]})
            for way in (*WAYS[shift:], *WAYS[:shift])
        }
        # The first round warms up.
        if turn:
            rows.append(row)
    return rows


def _ask(client: httpx2.Client, url: str, body: Mapping[str, Any]) -> Served:
    began = time.perf_counter()
    answer = client.post(f"{url}/v1/completions", json=body)
    seconds = time.perf_counter() - began
    answer.raise_for_status()
    document = answer.json()
    text = document["choices"][0]["text"]
    return Served(document["usage"]["completion_tokens"], seconds, text, document["skipmap"])


def _as_calibrated(
    rows: Sequence[Mapping[str, Served]], items: Sequence[Item], checked: CheckedSpec, entry: DomainEntry
) -> bool | None:
    """Whether served accept length and metric are the map's held-out ones, to the last digit; None if it cannot tell.

    It can where all held-out prompts were served with the set that the map was checked with.
    """
    held_out = entry.held_out
    if held_out is None or held_out.n != len(rows):
        return None
    for way, accept, metric in (
        ("dense", held_out.accept_length.dense, held_out.metric.dense),
        ("sparse", held_out.accept_length.sparse, held_out.metric.sparse),
    ):
        stats = [
            checked.metric.stats(row[way].text.strip(), item) for row, item in zip(rows, items, strict=True)
        ]
        served = checked.metric.corpus(np.array(stats).sum(axis=0), len(stats))
        if (_accept_length(row[way] for row in rows), served) != (accept, metric):
            return False
    return True


def _compare(rows: Sequence[Mapping[str, Served]]) -> dict[str, Any]:
    """Tokens per second of each way, and their ratios with intervals (paired bootstrap over prompts)."""
    picks = np.random.default_rng(SEED).integers(0, len(rows), (RESAMPLES, len(rows)))
    drawn, whole = {}, {}
    for way in WAYS:
        tokens = np.array([row[way].tokens for row in rows], dtype=float)
        seconds = np.array([row[way].seconds for row in rows])
        drawn[way] = tokens[picks].sum(1) / seconds[picks].sum(1)
        whole[way] = float(tokens.sum() / seconds.sum())
    ratios = {}
    for ours, rival in (("sparse", "dense"), ("sparse", "plain"), ("dense", "plain")):
        low, high = interval(drawn[ours] / drawn[rival])
        ratios[f"{ours} to {rival}"] = {"median": whole[ours] / whole[rival], "interval": [low, high]}
    return {
        "prompts": len(rows),
        "tokens_per_second": whole,
        "ratios": ratios,
        "accept_length": {way: _accept_length(row[way] for row in rows) for way in WAYS},
        "blocks_a_step": {way: statistics.mean(_blocks(rows, way)) for way in WAYS},
        "dense_equals_plain": all(row["dense"].text == row["plain"].text for row in rows),
    }


def _accept_length(served: Iterator[Served]) -> float | None:
    steps = emitted = 0.0
    for one in served:
        steps += one.facts["verification_steps"]
        emitted += round(one.facts["verification_steps"] * (one.facts["accept_length"] or 0.0))
    return emitted / steps if steps else None


def _blocks(rows: Sequence[Mapping[str, Served]], way: str) -> list[float]:
    found = [row[way].facts["blocks_run_per_step"] for row in rows]
    return [value for value in found if value is not None] or [0.0]


def _table(found: Mapping[str, Any]) -> str:
    lines = [f"draft {found['draft']}; dense text equals plain text: {found['equal']}"]
    for domain, case in found["cases"].items():
        lines.append(f"{domain}, skipping {case['skip'] or 'nothing'}, {case['prompts']} held-out prompts")
        lines.append(f"  as calibrated: {case['as_calibrated']}")
        for way in WAYS:
            lines.append(
                f"  {way:7} {case['tokens_per_second'][way]:7.2f} tokens/s  accept length "
                f"{case['accept_length'][way] or 0:.3f}  {case['blocks_a_step'][way]:.1f} blocks a step"
            )
        for name, ratio in case["ratios"].items():
            low, high = ratio["interval"]
            lines.append(f"  {name:16} {ratio['median']:.3f}  [{low:.3f}, {high:.3f}]")
    for name in ("overhead", "switch", "first"):
        share = found["controller"][name]
        low, high = share["interval"]
        lines.append(f"controller {name:9} {share['median']:+.3%} of a forward  [{low:+.3%}, {high:+.3%}]")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
