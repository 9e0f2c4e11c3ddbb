"""``skipmap compare``: accept length of several draft methods, by domain."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from skipmap.calibration.domains import preset
from skipmap.calibration.sources import SAMPLE_PREFIX, sample_names
from skipmap.cli.console import AnswerConsole
from skipmap.cli.display import progress_display
from skipmap.cli.places import fill, named_by_option, section
from skipmap.cli.values import require_writable
from skipmap.cli.variants import Variant, read_variants
from skipmap.drafts.base import DraftMethod, Resources
from skipmap.drafts.registry import make_draft
from skipmap.errors import InvalidInput, choices
from skipmap.profiling.check import CheckedSpec, check_job
from skipmap.profiling.compare import Row, compare
from skipmap.profiling.comparison import build_comparison
from skipmap.profiling.job import Job, job_on
from skipmap.profiling.progress import Listener, PassProgress
from skipmap.profiling.report import render_comparison
from skipmap.profiling.store import write_atomically
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from skipmap.target.loaded import load_resolved
from skipmap.target.loading import load_config, resolve_target

_DETAILS = ("accepted drafts", "positions a step", "steps", "evaluator")
"""Further columns where a single domain leaves room for them."""


def run(arguments: Namespace) -> int:
    """Print the table, or the document as JSON; ``--out`` writes the page."""
    domains = _domains(arguments)
    variants, notes = read_variants(arguments.drafts, arguments.draft_param)
    with named_by_option():
        checked = {domain: _check(arguments, domain, variants[0]) for domain in domains}
    if arguments.out:
        sources = {Path(domain.spec.calibration.source) for domain in checked.values()}
        require_writable(arguments.out, "--out", sources)
    for note in notes:
        _say(f"note: {note}")
    jobs, drafts, skip = _open(arguments.skip, checked, variants)
    with progress_display() as listener:
        rows = {domain: _compare(job, drafts, skip, domain, listener) for domain, job in jobs.items()}
    document = build_comparison(jobs, drafts, skip, rows, notes)
    if arguments.out:
        write_atomically(arguments.out, render_comparison(document))
    if arguments.json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        _show(document)
    if arguments.out:
        _say(f"page: {arguments.out}")
    return 0


def _domains(arguments: Namespace) -> list[str]:
    names = [name.strip() for name in arguments.domain.split(",")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput("--domain", f"{twice!r} is given twice; name each domain once")
    if len(names) > 1 and arguments.calibration is not None:
        raise InvalidInput(
            "--calibration",
            f"belongs to one domain, and --domain names {len(names)}; leave it out, so that each uses its sample, "
            "or compare one domain at a time",
        )
    return names


def _check(arguments: Namespace, domain: str, variant: Variant) -> CheckedSpec:
    """The job of a domain, checked as far as that needs no model."""
    spec: dict[str, Any] = {"draft": {"method": variant.method, "params": dict(variant.params)}}
    fill(spec, arguments)
    section(spec, "domain")["name"] = domain
    if arguments.calibration is None:
        section(spec, "calibration")["source"] = _sample(domain, arguments.metric)
    return check_job(JobSpec.parse(spec))


def _sample(domain: str, metric: str | None) -> str:
    if domain in sample_names():
        return f"{SAMPLE_PREFIX}{domain}"
    if metric is None:
        # Unless it is no domain at all, which is the first thing to say.
        preset(domain)
    raise InvalidInput(
        "--calibration",
        f"no sample is shipped for {domain!r} (there are {choices(sample_names())}); compare this domain alone and "
        "give its prompts",
    )


def _open(
    skip_text: str, checked: Mapping[str, CheckedSpec], variants: Sequence[Variant]
) -> tuple[dict[str, Job], dict[str, DraftMethod], SkipSet]:
    """Jobs of all domains on one target, loaded once, and the drafts for it."""
    target = next(iter(checked.values())).spec.target
    resolved = resolve_target(target.id, target.revision)
    skip = SkipSet.parse(skip_text, "--skip").validate(load_config(resolved).num_hidden_layers, "--skip")
    _say(f"loading {target.id}")
    loaded = load_resolved(resolved, target.dtype, target.device)
    resources = Resources.of(loaded)
    drafts = {variant.name: make_draft(variant.method, variant.params, resources) for variant in variants}
    return {domain: job_on(loaded, spec) for domain, spec in checked.items()}, drafts, skip


def _compare(
    job: Job, drafts: Mapping[str, DraftMethod], skip: SkipSet, domain: str, listener: Listener
) -> list[Row]:
    def on_pass(done: int, total: int) -> None:
        listener(PassProgress(domain, done, total))

    return compare(job.subject, drafts, skip, job.data.calibration, job.spec.search.batch_tokens, on_pass)


def _show(document: Mapping[str, Any]) -> None:
    """Drafts as rows, domains as columns; of a single domain, more figures."""
    console = AnswerConsole()
    domains, target = document["domains"], document["target"]
    skip = SkipSet.of(document["skip"])
    prompts = ", ".join(f"{part['data']['n_calibration']} of {name}" for name, part in domains.items())
    console.print(
        f"{target['id']}, {f'skip {skip}' if skip.blocks else 'dense'}; calibration prompts: {prompts}; held-out "
        "prompts took no part",
        soft_wrap=True,
    )
    caption = f"accept length A = {document['accept_length']}; in brackets: 95 % interval over prompts"
    table = Table(title="Accept length", caption=caption)
    table.add_column("draft", overflow="fold")
    for name in domains:
        table.add_column(f"A, {name}", justify="right")
    alone = len(domains) == 1
    for heading in _DETAILS if alone else ():
        table.add_column(heading, justify="right")
    for place, draft in enumerate(document["drafts"]):
        found = [part["rows"][place] for part in domains.values()]
        table.add_row(draft, *map(_accept, found), *(_details(found[0]) if alone else ()))
    console.print(table)


def _accept(row: Mapping[str, Any]) -> str:
    if not row["steps"]:
        return "no step"
    low, high = row["interval"]
    return f"{row['accept_length']:.3f} ({low:.2f} to {high:.2f})"


def _details(row: Mapping[str, Any]) -> tuple[str, ...]:
    steps = row["steps"]
    if not steps:
        return "-", "-", "0", row["evaluator"]
    return f"{row['accepted_drafts']:.3f}", f"{row['tree_size']:.1f}", str(steps), row["evaluator"]


def _say(text: str) -> None:
    print(f"skipmap: {text}", file=sys.stderr)
