"""All commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from skipmap import __version__

_EPILOG = "Exit codes: 0 done, 2 bad input, 3 not found, 4 refused, 5 model or disk failure, 130 interrupted."


def build_parser() -> argparse.ArgumentParser:
    """Parser whose namespace carries ``run``, the command's function."""
    parser = argparse.ArgumentParser(
        prog="skipmap",
        description="Find, per domain, the target layers that speculative verification can skip.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"skipmap {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _profile(commands.add_parser("profile", help="profile a domain and write its map", epilog=_EPILOG))
    _compare(
        commands.add_parser(
            "compare",
            help="accept length of several draft methods",
            description="Accept length of draft methods side by side, on calibration prompts alone: those of "
            "--calibration, or of each domain's shipped sample.",
            epilog=_EPILOG,
        )
    )
    _generate(commands.add_parser("generate", help="answer one prompt with a skip set", epilog=_EPILOG))
    show = commands.add_parser("show", help="print a result or a map")
    show.add_argument("file", type=Path, help="result.json or map.json")
    show.add_argument("--json", action="store_true", help="print the document without per-prompt rows")
    show.set_defaults(run=_command("show"))
    report = commands.add_parser("report", help="write one HTML page about results")
    report.add_argument("files", type=Path, nargs="+", help="one or more result.json")
    report.add_argument(
        "--out", type=Path, help="page to write (default: report.html beside the first result)"
    )
    report.set_defaults(run=_command("report"))
    for name, text in (
        ("models", "list the known targets"),
        ("drafts", "list draft methods and their parameters"),
        ("doctor", "check this machine's set-up"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=_command(name))
    return parser


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        code: int = import_module(f"skipmap.cli.{name}").run(arguments)
        return code

    return run


def _profile(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to profile")
    what.add_argument("--spec", type=Path, metavar="FILE", help="job spec as JSON; options below override it")
    _target(what)
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
    _data(what)
    search = parser.add_argument_group("how far to search")
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
    _decoding(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="FILE", help="the (unsigned) domain map")
    output.add_argument("--result", type=Path, metavar="FILE", help="the result with per-prompt rows")
    output.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="run folders (default runs)"
    )
    output.add_argument("--resume", action="store_true", help="take over finished groups of an earlier run")
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=_command("profile"))


def _target(group: argparse._ArgumentGroup, required: bool = False) -> None:
    group.add_argument(
        "--target", required=required, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    group.add_argument("--revision", help="revision of a hub model")


def _data(group: argparse._ArgumentGroup) -> None:
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


def _decoding(parser: argparse.ArgumentParser) -> None:
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


def _compare(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to compare")
    _target(what, required=True)
    what.add_argument(
        "--drafts",
        metavar="A,B",
        help="draft methods with commas between them, NAME:key=value:key=value for one with parameters (default: all)",
    )
    what.add_argument(
        "--draft-param",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME.K=V",
        help="parameters for every variant of a method that does not set them itself",
    )
    what.add_argument("--skip", default="", metavar="3,7", help="blocks to skip (default: none)")
    what.add_argument(
        "--domain",
        required=True,
        metavar="A,B",
        help="domains with commas between them; one of your own, alone",
    )
    _data(what)
    _decoding(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="FILE", help="a self-contained HTML page")
    output.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(run=_command("compare"))


def _generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", required=True, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    parser.add_argument(
        "--prompt",
        required=True,
        action="append",
        metavar="P",
        help="the user's message, - reads standard input; repeated: the turns of a talk",
    )
    parser.add_argument("--raw", action="store_true", help="no chat template: continue the text itself")
    skip = parser.add_mutually_exclusive_group()
    skip.add_argument("--map", type=Path, metavar="FILE", help="domain map; needs --domain")
    skip.add_argument("--skip", default="", metavar="3,7", help="blocks to skip (default: none)")
    parser.add_argument("--domain", metavar="D", help="domain of the map")
    parser.add_argument("--draft", metavar="D", help="draft method, or none (default: the map's, else sam)")
    parser.add_argument(
        "--draft-param", action="append", default=[], metavar="K=V", help="parameter of the draft"
    )
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 (default) is greedy")
    parser.add_argument(
        "--top-k", type=int, default=0, metavar="K", help="sample from the K likeliest (0: all)"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="P", help="... whose probability reaches P"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of sampled answers")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="stop string, repeatable")
    parser.add_argument("--prefill", default="sparse", choices=("sparse", "dense"))
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true", help="print tokens, counts and timings as JSON")
    parser.set_defaults(run=_command("generate"))
