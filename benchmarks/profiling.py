"""A level of single blocks: batched with replay against one configuration and one prompt at a time.

Rivals, on the same prompts, threads and run: (a) Hugging Face ``generate`` (greedy) of the model with the block
removed, the way published code profiles; (b) our own live speculative runtime. Rivals are timed on a few blocks
spread over the model, ours on the whole level; figures are seconds a configuration.

    python -m benchmarks.profiling [--json] [--domains summarization,qa,...] [--blocks 4,14,24]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from benchmarks.jobs import TARGET, open_sample, say
from benchmarks.machine import describe_machine, peak_memory_bytes
from benchmarks.pruned import pruned
from skipmap.calibration.items import Item
from skipmap.profiling.evaluate import evaluate
from skipmap.profiling.job import Job
from skipmap.profiling.records import Evaluation, PromptRecord, corpus_metric
from skipmap.profiling.replay import replay
from skipmap.skipset import SkipSet
from skipmap.target.loading import load_model, resolve_target

DOMAINS = ("summarization", "qa", "translation", "mmlu")
GIB = 1024**3


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domains", default=",".join(DOMAINS))
    parser.add_argument("--blocks", default="4,14,24", help="blocks that the rivals are timed on")
    parser.add_argument("--draft", default="prompt_lookup")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    skips = [SkipSet((int(block),)) for block in arguments.blocks.split(",")]
    domains = arguments.domains.split(",")
    cases: dict[str, Any] = {}
    plain, peak = None, 0
    for domain in domains:
        say(f"{domain}: ours")
        job = open_sample(domain, arguments.draft)
        rows, seconds = _ours(job)
        # Before the first rival is loaded this process holds one model and one job, as a user's does.
        peak = peak or peak_memory_bytes()
        plain = plain or load_model(resolve_target(TARGET))
        say(f"{domain}: rivals")
        cases[domain] = _case(job, plain, skips, rows, seconds)
    ratios = [case["ratio"] for case in cases.values()]
    found = {
        "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "lowest_ratio": min(ratios),
        "equal": all(case["equal"] for case in cases.values()),
        "peak_memory_gib": {"domain": domains[0], "ours": peak / GIB},
        "cases": cases,
        "machine": describe_machine(),
    }
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def _ours(job: Job) -> tuple[dict[SkipSet, Evaluation], float]:
    search = job.spec.search
    singles = [SkipSet((block,)) for block in range(job.subject.target.num_layers)]
    _warm_up(job)
    began = time.perf_counter()
    rows: dict[SkipSet, Evaluation] = {}
    for start in range(0, len(singles), search.group_size):
        group = singles[start : start + search.group_size]
        rows |= {e.skip: e for e in evaluate(job.subject, group, job.data.calibration, search.batch_tokens)}
    return rows, (time.perf_counter() - began) / len(singles)


def _warm_up(job: Job) -> None:
    evaluate(job.subject, [SkipSet((3,))], job.data.calibration[:1], job.spec.search.batch_tokens)


def _case(
    job: Job, plain: PreTrainedModel, skips: list[SkipSet], rows: dict[SkipSet, Evaluation], ours: float
) -> dict[str, Any]:
    began = time.perf_counter()
    live = {s: evaluate(job.subject, [s], job.data.calibration, 1, "live")[0] for s in skips}
    live_seconds = (time.perf_counter() - began) / len(skips)
    began = time.perf_counter()
    greedy = {s: _greedy(job, plain, s) for s in skips}
    greedy_seconds = (time.perf_counter() - began) / len(skips)
    differing = [
        (name, str(s), p.id)
        for name, rival in (("live", live), ("greedy", greedy))
        for s in skips
        for p, q in zip(rows[s].prompts, rival[s].prompts, strict=True)
        if (p.text, p.steps, p.emitted, p.accepted) != (q.text, q.steps, q.emitted, q.accepted)
    ]
    faster = min(live_seconds, greedy_seconds)
    return {
        "prompts": len(job.data.calibration),
        "seconds_a_configuration": {"ours": ours, "greedy": greedy_seconds, "live": live_seconds},
        "ratio": faster / ours,
        "ratio_to_greedy": greedy_seconds / ours,
        "ratio_to_live": live_seconds / ours,
        "equal": not differing,
        "compared_answers": 2 * len(skips) * len(job.data.calibration),
        "differing_answers": differing,
    }


def _greedy(job: Job, plain: PreTrainedModel, skip: SkipSet) -> Evaluation:
    """Greedy texts one prompt at a time; accept counts by replay, as they need no model."""
    records = tuple(_greedy_record(job, plain, skip, item) for item in job.data.calibration)
    return Evaluation(skip, "replay", records, corpus_metric(job.subject.metric, records))


def _greedy_record(job: Job, plain: PreTrainedModel, skip: SkipSet, item: Item) -> PromptRecord:
    subject = job.subject
    prompt = subject.prompt(item)
    settings = GenerationConfig(
        max_new_tokens=subject.options.max_new_tokens,
        do_sample=False,
        eos_token_id=sorted(subject.end_tokens),
        pad_token_id=min(subject.end_tokens),
    )
    ids = torch.tensor([prompt])
    with torch.inference_mode(), pruned(plain, skip) as model:
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    new = out[0, len(prompt) :].tolist()
    counts = replay(subject.draft, prompt, new, subject.options)
    text = subject.stop_rule.text(new)
    return PromptRecord(
        item.id,
        counts.steps,
        sum(counts.emitted),
        sum(counts.accepted),
        len(new),
        tuple(subject.metric.stats(text, item)),
        text,
    )


def _table(found: dict[str, Any]) -> str:
    lines = ["domain          ours s  greedy s  live s  ratio  equal answers"]
    for domain, case in found["cases"].items():
        s = case["seconds_a_configuration"]
        same = case["compared_answers"] - len(case["differing_answers"])
        lines.append(
            f"{domain:14} {s['ours']:7.2f} {s['greedy']:9.2f} {s['live']:7.2f} {case['ratio']:6.2f}  "
            f"{same} of {case['compared_answers']}"
        )
    lines.append(f"geometric mean of the ratio to the faster rival: {found['ratio']:.2f}")
    memory = found["peak_memory_gib"]
    lines.append(
        f"peak memory of ours: {memory['ours']:.2f} GiB ({memory['domain']}); machine: {found['machine']}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
