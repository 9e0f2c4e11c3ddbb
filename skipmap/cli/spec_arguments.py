"""Options that make up a job spec."""

from __future__ import annotations

import argparse
from pathlib import Path

from skipmap.profiling.search import STRATEGIES


def spec_options(parser: argparse.ArgumentParser) -> None:
    """All options that ``skipmap.cli.places`` puts into a spec."""
    what = parser.add_argument_group("what to profile")
    what.add_argument("--spec", type=Path, metavar="FILE", help="job spec as JSON; options below override it")
    target_options(what)
    what.add_argument("--draft", metavar="D", help="draft method (see `skipmap drafts`)")
    what.add_argument(
        "--draft-param",
        nargs="+",
        action="extend",
        default=[],
        metavar="K=V",
        help="parameters of the draft",
    )
    what.add_argument(
        "--draft-state", metavar="WHEN", help="prompt: fresh for each (default); run: carried on"
    )
    what.add_argument(
        "--domain", metavar="NAME", help="summarization, translation, qa, rag, mmlu, math or your own"
    )
    data_options(what)
    search = parser.add_argument_group("how to search, and how far")
    strategy_options(search)
    search.add_argument("--max-depth", type=int, metavar="K", help="most blocks skipped together (default 3)")
    search.add_argument(
        "--max-pool", type=int, metavar="P", help="most single blocks to combine (default 12)"
    )
    search.add_argument("--max-evaluations", type=int, metavar="N", help="stop after N configurations")
    search.add_argument("--max-seconds", type=float, metavar="S", help="stop after S seconds of evaluation")
    search.add_argument(
        "--max-held-out-points",
        type=int,
        metavar="N",
        help="most points checked on held-out prompts (default 4)",
    )
    search.add_argument("--eps", type=float, help="tolerated relative loss of accept length (default .05)")
    search.add_argument("--tau", type=float, help="tolerated relative loss of the metric (default .05)")
    search.add_argument("--select", metavar="RULE", help="paper, cheapest or fastest (default paper)")
    search.add_argument("--accept-measure", metavar="A", help="tokens_per_step (default) or accepted_drafts")
    search.add_argument(
        "--force-no-signal", action="store_true", help="search even when dense scores no signal"
    )
    decoding_options(parser)


def strategy_options(group: argparse._ArgumentGroup) -> None:
    """Which strategy, and what it alone reads."""
    group.add_argument(
        "--strategy", metavar="NAME", help=f"{', '.join(STRATEGIES)} (default tss); see `skipmap strategies`"
    )
    group.add_argument(
        "--beam-width", type=int, metavar="N", help="beam: sets of a level to build upon (default 8)"
    )
    group.add_argument("--draws", type=int, metavar="N", help="random: sets of each size (default 8)")
    group.add_argument("--search-seed", type=int, metavar="N", help="random: of the draws (default 0)")
    group.add_argument(
        "--protect-first", type=int, metavar="N", help="greedy: first blocks never skipped (default 1)"
    )
    group.add_argument(
        "--protect-last", type=int, metavar="N", help="greedy: last blocks never skipped (default 0)"
    )


def target_options(group: argparse._ArgumentGroup, required: bool = False) -> None:
    """Which model."""
    group.add_argument(
        "--target", required=required, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    group.add_argument("--revision", help="revision of a hub model")


def data_options(group: argparse._ArgumentGroup) -> None:
    """Which prompts, and how answers to them are scored."""
    group.add_argument(
        "--calibration", metavar="FILE", help="JSONL, Spec-Bench, MMLU CSV, hub id, or sample:NAME"
    )
    group.add_argument("--category", metavar="C", help="category of a file that has several")
    group.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="column of a data set, repeatable",
    )
    group.add_argument("--dataset-config", metavar="NAME", help="configuration of a hub data set")
    group.add_argument("--dataset-split", metavar="NAME", help="split of a data set")
    group.add_argument("--metric", metavar="M", help="task metric (default: the domain's)")
    group.add_argument("--template", metavar="T", help="chat, vicuna, llama-2, few_shot or plain")
    group.add_argument("--shots", type=int, metavar="N", help="examples shown before each prompt")
    group.add_argument("--limit", type=int, metavar="N", help="use at most N items")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the split (default 0)")


def decoding_options(parser: argparse.ArgumentParser) -> None:
    """How answers are decoded."""
    decoding = parser.add_argument_group("how to decode")
    decoding.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="longest answer (default: the domain's)"
    )
    decoding.add_argument("--temperature", type=float, metavar="T", help="0 (default) is greedy")
    decoding.add_argument("--sampling-seed", type=int, metavar="N", help="of sampled answers (default 0)")
    decoding.add_argument(
        "--top-k", type=int, metavar="K", help="sample from the K likeliest tokens (0: all)"
    )
    decoding.add_argument("--top-p", type=float, metavar="P", help="sample from the likeliest that reach P")
    decoding.add_argument("--prefill", metavar="POLICY", help="sparse (default) or dense prompt")
    decoding.add_argument("--dtype", help="auto (default), float32, bfloat16 or float16")
    decoding.add_argument("--device", help="auto (default), cpu, cuda or cuda:N")
