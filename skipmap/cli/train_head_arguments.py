"""Options of ``skipmap train-head``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_train_head_parser(commands: _Commands) -> None:
    """Add ``skipmap train-head``."""
    parser = commands.add_parser(
        "train-head",
        help="train an EAGLE or Medusa head for a target",
        description="Train a draft head on the target's own answers to calibration prompts and to prompts that it "
        "invents in their style. The same command goes on where it was interrupted. Held-out prompts take no part "
        "but in the figure at the end.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("kind", choices=("eagle", "medusa"), help="what to train")
    what = parser.add_argument_group("what for")
    what.add_argument(
        "--target", required=True, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    what.add_argument("--revision", metavar="R", help="commit of a hub model")
    what.add_argument("--dtype", default="auto", help="auto (default), float32, bfloat16 or float16")
    what.add_argument("--device", default="auto", help="auto (default), cpu or cuda:N")
    what.add_argument(
        "--data",
        required=True,
        action="append",
        metavar="DOMAIN[=SOURCE]",
        help="a domain and its prompts as `skipmap profile --calibration` takes them (default: the shipped sample); "
        "repeat for more; references are not needed",
    )
    what.add_argument(
        "--template", metavar="T", help="prompt template of all domains (default: the domain's own)"
    )
    what.add_argument(
        "--calibration-fraction",
        type=float,
        default=0.2,
        metavar="F",
        help="share of each domain's prompts that is trained on, the rest is held out (default .2)",
    )
    what.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="longest answer (default: the domain's own)"
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--texts", type=int, default=1000, metavar="N", help="texts of each domain (default 1000)"
    )
    how.add_argument("--epochs", type=int, default=8, metavar="N", help="times each text is seen (default 8)")
    how.add_argument(
        "--batch-tokens", type=int, default=512, metavar="N", help="tokens of a step (default 512)"
    )
    how.add_argument(
        "--learning-rate", type=float, default=2e-3, metavar="R", help="the highest (default .002)"
    )
    how.add_argument("--heads", type=int, metavar="N", help="heads of Medusa (default 3)")
    how.add_argument("--blocks", type=int, metavar="N", help="blocks of each Medusa head (default 1)")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="of data and training (default 0)")
    how.add_argument(
        "--max-seconds", type=float, metavar="S", help="stop teaching after S seconds; run again to go on"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the head")
    output.add_argument("--restart", action="store_true", help="forget an earlier run in the folder")
    output.add_argument(
        "--measure",
        type=int,
        default=20,
        metavar="N",
        help="held-out prompts a domain to measure on (default 20)",
    )
    output.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=command("train_head"))
