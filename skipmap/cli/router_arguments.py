"""Options of ``skipmap router``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_router_parser(commands: _Commands) -> None:
    """Add ``skipmap router``."""
    parser = commands.add_parser("router", help="tell domains apart by their prompts", epilog=EXIT_CODES)
    routers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train = routers.add_parser(
        "train",
        help="make a router from calibration prompts",
        description="Make a router from calibration prompts, and show how it routes held-out and out-of-domain ones.",
        epilog=EXIT_CODES,
    )
    _target(train, "known name, directory, GGUF file or hub id")
    _prompts(train)
    how = train.add_argument_group("how")
    how.add_argument(
        "--embedder", default="target", metavar="E", help="target (default) or sentence-transformers:MODEL"
    )
    how.add_argument(
        "--centroids", type=int, default=1, metavar="K", help="centroids of each domain (default 1)"
    )
    how.add_argument(
        "--quantile",
        type=float,
        default=0.95,
        metavar="Q",
        help="share of a domain's calibration prompts that its threshold lets in (default .95)",
    )
    output = train.add_argument_group("output")
    output.add_argument(
        "--out",
        type=Path,
        default=Path("router.json"),
        metavar="FILE",
        help="the router (default router.json)",
    )
    output.add_argument("--json", action="store_true", help="print thresholds and confusion table as JSON")
    train.set_defaults(run=command("router", "train"))
    evaluate = routers.add_parser(
        "evaluate",
        help="show how a router routes prompts",
        description="Show how the router of a file or of a map routes prompts of known domains.",
        epilog=EXIT_CODES,
    )
    evaluate.add_argument(
        "--router", type=Path, required=True, metavar="FILE", help="router.json, or a map with a router"
    )
    _target(evaluate, "model whose embeddings it uses (default: the map's target)")
    _prompts(evaluate)
    evaluate.add_argument(
        "--part",
        choices=("held_out", "calibration", "all"),
        default="held_out",
        help="prompts to route (default held_out)",
    )
    evaluate.add_argument("--json", action="store_true", help="print the confusion table as JSON")
    evaluate.set_defaults(run=command("router", "evaluate"))


def _target(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--target", metavar="T", help=text)
    parser.add_argument("--revision", help="revision of a hub model")


def _prompts(parser: argparse.ArgumentParser) -> None:
    prompts = parser.add_argument_group("prompts")
    prompts.add_argument(
        "--domain",
        action="append",
        default=[],
        metavar="NAME=CALIBRATION[:CATEGORY]",
        help="a domain's prompts: JSONL, Spec-Bench, MMLU CSV, hub id, or sample:NAME; repeatable",
    )
    prompts.add_argument(
        "--result",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a domain's prompts are those of a result.json, with its split; repeatable",
    )
    prompts.add_argument(
        "--out-of-domain",
        action="append",
        default=[],
        metavar="FILE[:CATEGORY,...]",
        help="prompts of no domain, which only fill the table; repeatable",
    )
    prompts.add_argument(
        "--fraction", type=float, default=0.2, metavar="F", help="calibration part of a --domain (default .2)"
    )
    prompts.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of a --domain's split (default 0)"
    )
