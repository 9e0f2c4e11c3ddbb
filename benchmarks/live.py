"""Live evaluation of a group of configurations: one batch of trees against one answer at a time, equal results.

Live evaluation is what drafts need that learn from rejected tokens. The rival is the same runtime at batch 1.

    python -m benchmarks.live [--json] [--domains summarization,qa] [--draft token_recycling] [--nodes 24] [--rivals 2]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import replace
from typing import Any

from benchmarks.jobs import open_sample, say
from benchmarks.machine import describe_machine, peak_memory_bytes
from skipmap.profiling.evaluate import answer, evaluate
from skipmap.profiling.job import Job
from skipmap.skipset import SkipSet

FIRST_BLOCK = 8


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domains", default="summarization,qa,translation")
    parser.add_argument("--draft", default="token_recycling")
    parser.add_argument("--nodes", type=int, default=24, help="largest tree, root included")
    parser.add_argument("--rivals", type=int, default=2, help="configurations that batch 1 is timed on")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = {}
    for domain in arguments.domains.split(","):
        job = open_sample(domain, arguments.draft, {"max_nodes": arguments.nodes})
        cases[domain] = _case(job, arguments.rivals)
        say(f"{domain}: {cases[domain]['ratio']:.2f}")
    ratios = [case["ratio"] for case in cases.values()]
    found = {
        "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "lowest_ratio": min(ratios),
        "equal": all(case["equal"] for case in cases.values()),
        "cases": cases,
        "peak_memory_gib": peak_memory_bytes() / 1024**3,
        "machine": describe_machine(),
    }
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def _case(job: Job, rivals: int) -> dict[str, Any]:
    subject, items, search = job.subject, job.data.calibration, job.spec.search
    group = [SkipSet((FIRST_BLOCK + i,)) for i in range(search.group_size)]
    evaluate(subject, group[:1], items[:1], search.batch_tokens, "live")
    began = time.perf_counter()
    together = evaluate(subject, group, items, search.batch_tokens, "live")
    ours = (time.perf_counter() - began) / len(group)
    # Spread over the group, whose later members share more of their history.
    picked = [group[(2 * i + 1) * len(group) // (2 * rivals)] for i in range(rivals)]
    began = time.perf_counter()
    alone = {skip: [answer(subject, skip, item) for item in items] for skip in picked}
    rival = (time.perf_counter() - began) / rivals
    same = [
        replace(record, seconds=None, draft_seconds=None, verify_seconds=None) == other
        for skip in picked
        for record, other in zip(alone[skip], together[group.index(skip)].prompts, strict=True)
    ]
    steps = sum(e.steps for e in together)
    return {
        "prompts": len(items),
        "configurations": len(group),
        "tokens_per_step": sum(p.emitted for e in together for p in e.prompts) / steps,
        "tree_size": sum(p.scored for e in together for p in e.prompts) / steps,
        "seconds_a_configuration": {"ours": ours, "batch 1": rival},
        "ratio": rival / ours,
        "equal": all(same),
        "equal_answers": sum(same),
        "compared_answers": len(same),
    }


def _table(found: dict[str, Any]) -> str:
    lines = ["domain          ours s  batch 1 s  ratio  tokens/step  tree size  equal answers"]
    for domain, case in found["cases"].items():
        s = case["seconds_a_configuration"]
        lines.append(
            f"{domain:14} {s['ours']:7.2f} {s['batch 1']:10.2f} {case['ratio']:6.2f} {case['tokens_per_step']:12.2f}"
            f" {case['tree_size']:10.1f}  {case['equal_answers']} of {case['compared_answers']}"
        )
    lines.append(f"geometric mean: {found['ratio']:.2f}; peak memory {found['peak_memory_gib']:.2f} GiB")
    lines.append(f"machine: {found['machine']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
