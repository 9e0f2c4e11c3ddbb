"""Options of ``skipmap anchors``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_CENTRES = 10


def add_anchors_parser(commands: _Commands) -> None:
    """Add ``skipmap anchors``."""
    parser = commands.add_parser(
        "anchors",
        help="make the anchors of the draft knn_ssd",
        description="Make anchors from the calibration prompts of several domains, for the draft knn_ssd: it leaves "
        "out what suits the domain of the anchor that lies nearest to a prompt.",
        epilog=EXIT_CODES,
    )
    what = parser.add_argument_group("what for")
    what.add_argument(
        "--target", required=True, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    what.add_argument("--revision", metavar="R", help="revision of a hub model")
    what.add_argument("--dtype", default="auto", help="auto (default), float32, bfloat16 or float16")
    what.add_argument("--device", default="auto", help="auto (default), cpu or cuda:N")
    domains = parser.add_argument_group("domains")
    domains.add_argument(
        "--domain",
        action="append",
        required=True,
        metavar="NAME=CALIBRATION[:CATEGORY]",
        help="a domain's prompts: JSONL, Spec-Bench, MMLU CSV, hub id, or sample:NAME; repeatable",
    )
    for part, text in (("", "blocks"), ("-attention", "attention"), ("-mlp", "MLP")):
        domains.add_argument(
            f"--draft-skip{part}",
            action="append",
            default=[],
            metavar="NAME=3,7",
            help=f"{text} that the draft of a domain leaves out, or dense; repeatable",
        )
    domains.add_argument(
        "--fraction", type=float, default=0.2, metavar="F", help="calibration part of a domain (default .2)"
    )
    domains.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of a domain's split (default 0)"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--template", metavar="T", help="prompt template (default: chat, plain where the target has none)"
    )
    how.add_argument(
        "--centres",
        type=int,
        default=DEFAULT_CENTRES,
        metavar="K",
        help=f"most anchors of each domain (default {DEFAULT_CENTRES})",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out",
        type=Path,
        default=Path("anchors.json"),
        metavar="FILE",
        help="the anchors (default anchors.json)",
    )
    output.add_argument("--json", action="store_true", help="print what was made as JSON")
    parser.set_defaults(run=command("anchors"))
