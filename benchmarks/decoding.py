"""The live runtime at batch 1 with every draft method, beside Hugging Face greedy and prompt lookup decoding.

Same prompts, threads and run; each prompt is answered by all in turn. A second table times verification steps by tree
size: a tree pays only if its accept length is above the break-even value, its step's seconds over those of a one-token
step.

    python -m benchmarks.decoding [--json] [--domain summarization] [--part all] [--prompts 20]
        [--drafts a,b:key=value] [--draft-param eagle.head=DIR ...] [--thinned 5,9,13]

Methods that need a checkpoint take part when they are given one. With --thinned, those that draft with a small model
get a copy of the target without these blocks: no small model with the demo model's vocabulary is published. Tokens per
step: emitted by a verification step, bonus token included; plain decoding has 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel

from benchmarks.jobs import TARGET, make_drafts, open_sample, say
from benchmarks.machine import describe_machine
from benchmarks.pruned import save_thinned
from skipmap.decoding.options import Generation
from skipmap.decoding.speculative import generate
from skipmap.drafts.base import DraftMethod
from skipmap.profiling.cost import ROUNDS, WARM_UP_ROUNDS
from skipmap.profiling.subject import Subject
from skipmap.skipset import SkipSet
from skipmap.target.loading import load_model, resolve_target

DENSE = SkipSet()
TREE_SIZES = (1, 2, 4, 8, 11, 16, 24, 41, 61, 81)
LOOKUP = {"num_tokens": 10, "max_ngram": 3}
"""The same sizes for our prompt lookup and Hugging Face's."""

SMALL = {"bild": "model", "draft_model": "model", "specinfer": "models", "staged": "model"}
"""Methods that draft with a small model, and the parameter that names it."""

Answer = Callable[[Sequence[int]], tuple[list[int], Generation | None]]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", default="summarization")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--part", choices=("all", "calibration", "held_out"), default="all")
    parser.add_argument("--drafts", help="as `skipmap compare` takes them (default: all that need no files)")
    parser.add_argument("--draft-param", nargs="+", action="extend", default=[], metavar="NAME.K=V")
    parser.add_argument("--thinned", type=SkipSet.parse, metavar="BLOCKS")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    job = open_sample(arguments.domain, "prompt_lookup")
    subject = job.subject
    parts = {"calibration": job.data.calibration, "held_out": job.data.held_out}
    chosen = parts.values() if arguments.part == "all" else [parts[arguments.part]]
    items = sorted((item for part in chosen for item in part), key=lambda item: item.id)
    prompts = [subject.prompt(item) for item in items[: arguments.prompts]]
    plain = load_model(resolve_target(TARGET))
    with TemporaryDirectory() as folder:
        if arguments.thinned is not None:
            save_thinned(plain, subject.tokenizer, arguments.thinned, Path(folder))
            compared = {text.partition(":")[0] for text in (arguments.drafts or ",".join(SMALL)).split(",")}
            arguments.draft_param += [
                f"{name}.{key}={folder}" for name, key in SMALL.items() if name in compared
            ]
        drafts = make_drafts(subject, arguments.drafts, arguments.draft_param, {"prompt_lookup": LOOKUP})
    answerers = {
        "hf greedy": _hugging_face(subject, plain, {}),
        "hf prompt lookup": _hugging_face(
            subject,
            plain,
            {
                "prompt_lookup_num_tokens": LOOKUP["num_tokens"],
                "max_matching_ngram_size": LOOKUP["max_ngram"],
            },
        ),
        "none": _ours(subject, None),
        **{name: _ours(subject, draft) for name, draft in drafts.items()},
    }
    lossy = sorted(name for name, draft in drafts.items() if draft.lossy)
    rows = _race(answerers, prompts)
    say("steps by tree size")
    steps = _steps(subject, prompts)
    for row in rows.values():
        if row.get("tree_size"):
            row["break_even"] = _break_even(steps, row["tree_size"])
    seconds = {name: row["seconds"] for name, row in rows.items()}
    ratios = {
        f"{name} to {rival}": seconds[rival] / seconds[name]
        for name, rival in (
            ("prompt_lookup", "hf prompt lookup"),
            ("prompt_lookup", "hf greedy"),
            ("sam", "hf greedy"),
        )
        if name in seconds
    }
    found = {
        "ratio": min(ratios.values(), default=None),
        "ratios": ratios,
        "equal": all(row["differing"] == 0 for name, row in rows.items() if name not in lossy),
        "lossy": lossy,
        "prompts": len(prompts),
        "cases": rows,
        "steps": steps,
        "machine": describe_machine(),
    }
    print(json.dumps(found) if arguments.json else _table(found))
    return 0


def _ours(subject: Subject, draft: DraftMethod | None) -> Answer:
    def run(prompt: Sequence[int]) -> tuple[list[int], Generation]:
        out = generate(subject.target, prompt, DENSE, draft, subject.stop_rule, subject.options)
        return list(out.token_ids), out

    return run


def _hugging_face(subject: Subject, model: PreTrainedModel, more: dict[str, Any]) -> Answer:
    settings = GenerationConfig(
        max_new_tokens=subject.options.max_new_tokens,
        do_sample=False,
        eos_token_id=sorted(subject.end_tokens),
        pad_token_id=min(subject.end_tokens),
        **more,
    )

    def run(prompt: Sequence[int]) -> tuple[list[int], None]:
        ids = torch.tensor([list(prompt)])
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        return out[0, len(prompt) :].tolist(), None

    return run


def _race(answerers: dict[str, Answer], prompts: Sequence[Sequence[int]]) -> dict[str, dict[str, Any]]:
    """Every method on every prompt, in turn with another one first each time; texts against greedy's."""
    names = list(answerers)
    seconds = dict.fromkeys(names, 0.0)
    texts: dict[str, list[list[int]]] = {name: [] for name in names}
    outs: dict[str, list[Generation]] = {name: [] for name in names}
    for name in names:
        answerers[name](prompts[0])
    for turn, prompt in enumerate(prompts):
        say(f"prompt {turn + 1} of {len(prompts)}")
        shift = turn % len(names)
        for name in (*names[shift:], *names[:shift]):
            began = time.perf_counter()
            tokens, out = answerers[name](prompt)
            seconds[name] += time.perf_counter() - began
            texts[name].append(tokens)
            if out:
                outs[name].append(out)
    rows = {}
    for name in names:
        pairs = zip(texts[name], texts["hf greedy"], strict=True)
        rows[name] = {
            "seconds": seconds[name],
            "tokens_per_second": sum(map(len, texts[name])) / seconds[name],
            "differing": sum(a != b for a, b in pairs),
            **_counted(outs[name]),
        }
    return rows


def _counted(outs: Sequence[Generation]) -> dict[str, Any]:
    steps = sum(out.counts.steps for out in outs)
    if not steps:
        return {}
    timings = [out.timings for out in outs if out.timings]
    return {
        "steps": steps,
        "tokens_per_step": sum(sum(out.counts.emitted) for out in outs) / steps,
        "tree_size": sum(sum(out.counts.scored) for out in outs) / steps,
        "draft_seconds": sum(t.draft for t in timings) / steps,
        "verify_seconds": sum(t.verify for t in timings) / steps,
    }


def _steps(subject: Subject, prompts: Sequence[Sequence[int]]) -> dict[int, dict[str, float]]:
    """Median seconds of a dense verification step after the median prompt, and the break-even accept length."""
    prompt = sorted(prompts, key=len)[len(prompts) // 2]
    target = subject.target
    batch = target.prefill([DENSE], [prompt], slots=max(TREE_SIZES))
    seconds: dict[int, list[float]] = {size: [] for size in TREE_SIZES}
    # In turn, so that a slow spell of the machine hits all sizes alike.
    for _ in range(WARM_UP_ROUNDS + ROUNDS):
        for size, values in seconds.items():
            tokens = torch.tensor([list(prompt[:1]) * size])
            began = time.perf_counter()
            target.logits(target.step(batch, tokens).hidden[0]).argmax(-1)
            values.append(time.perf_counter() - began)
    medians = {size: statistics.median(values[WARM_UP_ROUNDS:]) for size, values in seconds.items()}
    return {
        size: {"seconds": value, "break_even": value / medians[1], "context": len(prompt)}
        for size, value in medians.items()
    }


def _break_even(steps: dict[int, dict[str, float]], tree_size: float) -> float:
    """Break-even accept length at a mean tree size, linear between the measured ones."""
    sizes = sorted(steps)
    upper = next((size for size in sizes if size >= tree_size), sizes[-1])
    lower = max((size for size in sizes if size <= tree_size), default=sizes[0])
    if upper == lower:
        return steps[upper]["break_even"]
    share = (tree_size - lower) / (upper - lower)
    return (1 - share) * steps[lower]["break_even"] + share * steps[upper]["break_even"]


def _table(found: dict[str, Any]) -> str:
    width = max(map(len, found["cases"]))
    lines = [
        f"{'method':{width}}  tokens/s  to plain  tokens/step  positions  break-even A  draft ms  verify ms"
    ]
    plain = found["cases"]["none"]["tokens_per_second"]
    for name, row in found["cases"].items():
        rate = row["tokens_per_second"]
        line = f"{name:{width}} {rate:9.1f} {rate / plain:9.2f}"
        if "steps" in row:
            line += (
                f" {row['tokens_per_step']:12.2f} {row['tree_size']:10.1f} {row['break_even']:13.2f}"
                f" {1000 * row['draft_seconds']:9.1f} {1000 * row['verify_seconds']:10.1f}"
            )
        lines.append(line)
    lines += ["", "positions of a step  ms  break-even A"]
    lines += [
        f"{size:19} {1000 * step['seconds']:5.1f} {step['break_even']:8.2f}"
        for size, step in found["steps"].items()
    ]
    lines.append("")
    lines += [f"{name}: {ratio:.2f} times as fast" for name, ratio in found["ratios"].items()]
    lines.append(
        f"texts of exact methods equal to greedy: {'all' if found['equal'] else 'NOT all'}; machine: {found['machine']}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
