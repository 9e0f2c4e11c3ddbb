"""``skipmap router``: train a router of prompts, and show what it takes for what."""

from __future__ import annotations

import json
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from skipmap.calibration.domains import preset, preset_names
from skipmap.calibration.sources import load_source
from skipmap.canonical import canonical_json
from skipmap.cli.console import AnswerConsole
from skipmap.cli.prompt_sources import calibrations_of, named_by, source_of
from skipmap.cli.values import complete, require_writable
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.router import UNKNOWN, Confusion, RouterDocument, read_router
from skipmap.maps.schema import read_map
from skipmap.profiling.documents import SCHEMA, read_document
from skipmap.profiling.store import write_atomically
from skipmap.serving.embedding import Embedder, make_embedder
from skipmap.serving.router import DomainRouter
from skipmap.serving.training import DomainPrompts, confusion_of, prompts_of, train_router
from skipmap.spec import CalibrationSpec, JobSpec
from skipmap.target.loading import resolve_target
from skipmap.visible import one_line

_FEW_PROMPTS = 20
_TIMED_PROMPTS = 50


def train(arguments: Namespace) -> int:
    """Write a router and print its confusion table."""
    inputs = [*arguments.result, *(Path(text.partition("=")[2]) for text in arguments.domain)]
    require_writable(arguments.out, "--out", [path for path in inputs if path.is_file()])
    domains, strangers = _domains(arguments), _out_of_domain(arguments.out_of_domain)
    for name, prompts in domains.items():
        if len(prompts.calibration) < _FEW_PROMPTS:
            _say(f"note: {name} has {len(prompts.calibration)} calibration prompts; its threshold is rough")
    embedder = _embedder(arguments.embedder, arguments.target, arguments.revision)
    document = train_router(
        domains,
        embedder,
        centroids=arguments.centroids,
        quantile=arguments.quantile,
        out_of_domain=strangers,
    )
    write_atomically(arguments.out, canonical_json(document.to_json()) + "\n")
    assert document.confusion is not None
    held_out = {name: prompts.held_out for name, prompts in domains.items()}
    seconds = _seconds_a_prompt(DomainRouter(document, embedder), held_out | {UNKNOWN: strangers})
    _answer(document, document.confusion, seconds, arguments.json, {"out": str(arguments.out)})
    _say(f"router: {arguments.out}")
    return 0


def evaluate(arguments: Namespace) -> int:
    """Print how a router routes the given prompts."""
    document, target = _read(arguments.router)
    prompts: dict[str, tuple[str, ...]] = {}
    for name, of_domain in _domains(arguments).items():
        parts = {"calibration": of_domain.calibration, "held_out": of_domain.held_out}
        prompts[name] = sum(parts.values(), ()) if arguments.part == "all" else parts[arguments.part]
    prompts[UNKNOWN] = _out_of_domain(arguments.out_of_domain)
    embedder = _embedder(document.embedder, arguments.target or target, arguments.revision)
    router = DomainRouter(document, embedder)
    confusion = confusion_of(router, prompts)
    _answer(document, confusion, _seconds_a_prompt(router, prompts), arguments.json, {"part": arguments.part})
    return 0


def _domains(arguments: Namespace) -> dict[str, DomainPrompts]:
    found: dict[str, DomainPrompts] = {}
    given = calibrations_of(arguments.domain, "--domain", arguments.fraction, arguments.seed)
    for name, source in given.items():
        metric = preset(name).metric if name in preset_names() else None
        with named_by(f"--domain {name}"):
            found[name] = DomainPrompts.of_source(source, metric)
    for path in arguments.result:
        document = read_document(path)
        if document["schema"] != SCHEMA:
            raise InvalidInput("--result", f"{path} is a {document['schema']}, not a {SCHEMA}")
        with complete(str(path)):
            spec_of_job = JobSpec.parse(document["spec"])
        name = spec_of_job.domain.name
        if name in found:
            raise InvalidInput("--result", f"{path} is of the domain {name!r}, which is given twice")
        found[name] = DomainPrompts.of_job(spec_of_job)
    if not found:
        raise InvalidInput("--domain", "no domain is given; give NAME=CALIBRATION, or --result FILE")
    return found


def _out_of_domain(texts: Sequence[str]) -> tuple[str, ...]:
    prompts: tuple[str, ...] = ()
    for text in texts:
        with named_by("--out-of-domain"):
            source, categories = source_of(text)
            for category in categories.split(",") if categories else [None]:
                prompts += prompts_of(load_source(CalibrationSpec(source=source, category=category)).items)
    return prompts


def _embedder(name: str, target: str | None, revision: str | None) -> Embedder:
    if target is None:
        return make_embedder(name)
    return make_embedder(name, resolve_target(target, revision))


def _read(path: Path) -> tuple[RouterDocument, str | None]:
    """The router of a file, and the id of the target where it is in a map."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"--router: no file {str(path)!r}") from None
    except OSError as error:
        raise InvalidInput("--router", f"cannot read {path}: {error.strerror}") from None
    try:
        is_map = "schema" in json.loads(data)
    except (ValueError, TypeError, RecursionError):
        is_map = False
    if not is_map:
        return read_router(data, str(path)), None
    document = read_map(data, str(path))
    if document.router is None:
        raise InvalidInput("--router", f"the map {path} has no router; train one, or give a map with one")
    return document.router, document.target.id


def _seconds_a_prompt(router: DomainRouter, prompts: Mapping[str, Sequence[str]]) -> float | None:
    """Median time to route one prompt, taken from every domain in turn."""
    rounds = range(max((len(texts) for texts in prompts.values()), default=0))
    mixed = [texts[place] for place in rounds for texts in prompts.values() if place < len(texts)]
    taken = []
    for text in mixed[:_TIMED_PROMPTS]:
        start = time.perf_counter()
        router.route(text)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) if taken else None


def _answer(
    document: RouterDocument,
    confusion: Confusion,
    seconds: float | None,
    as_json: bool,
    more: Mapping[str, Any],
) -> None:
    figures = _figures(confusion)
    domains = {
        name: {"centroids": len(domain.centroids), "threshold": domain.threshold, "n": domain.n}
        for name, domain in document.domains.items()
    }
    if as_json:
        answer = {
            **more,
            "embedder": document.embedder,
            "target_fingerprint": document.target_fingerprint,
            "dimension": document.dimension,
            "domains": domains,
            "confusion": confusion.model_dump(mode="json"),
            "figures": figures,
            "seconds_a_prompt": seconds,
        }
        print(json.dumps(answer, ensure_ascii=False))
        return
    console = AnswerConsole()
    console.print(_table(confusion))
    console.print_lines(
        f"{name}: threshold {domain.threshold:.4g} from {domain.n} prompts, {len(domain.centroids)} centroids"
        for name, domain in document.domains.items()
    )
    console.print_lines(_sentences(figures, seconds))


def _figures(confusion: Confusion) -> dict[str, int]:
    known = {name: row for name, row in confusion.counts.items() if name != UNKNOWN}
    strangers = confusion.counts.get(UNKNOWN, {})
    total = sum(sum(row.values()) for row in known.values())
    right = sum(row.get(name, 0) for name, row in known.items())
    unknown = sum(row.get(UNKNOWN, 0) for row in known.values())
    return {
        "prompts": total,
        "right": right,
        "wrong": total - right - unknown,
        "unknown": unknown,
        "out_of_domain": sum(strangers.values()),
        "out_of_domain_taken": sum(strangers.values()) - strangers.get(UNKNOWN, 0),
    }


def _table(confusion: Confusion) -> Table:
    table = Table(title="Prompts by true domain (rows) and routed domain (columns)")
    table.add_column("prompts of")
    for label in confusion.labels:
        table.add_column(label, justify="right")
    for label in confusion.labels:
        row = confusion.counts.get(label)
        if row is not None:
            shown = "no domain" if label == UNKNOWN else label
            table.add_row(shown, *(str(row.get(other, 0)) for other in confusion.labels))
    return table


def _sentences(figures: Mapping[str, int], seconds: float | None) -> list[str]:
    lines = []
    if figures["prompts"]:
        lines.append(
            f"of {figures['prompts']} prompts: {figures['right']} right, {figures['wrong']} in a wrong domain, "
            f"{figures['unknown']} unknown (dense)"
        )
    if figures["out_of_domain"]:
        lines.append(
            f"of {figures['out_of_domain']} prompts of no domain: {figures['out_of_domain_taken']} taken for one"
        )
    if seconds is not None:
        lines.append(f"routing takes {seconds * 1e6:.0f} microseconds a prompt (median)")
    return lines


def _say(text: str) -> None:
    print(f"skipmap: {one_line(text)}", file=sys.stderr)
