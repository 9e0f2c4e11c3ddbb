"""All commands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path

from skipmap import __version__
from skipmap.cli.anchors_arguments import add_anchors_parser
from skipmap.cli.commands import EXIT_CODES, command
from skipmap.cli.job_arguments import add_jobs, add_sets
from skipmap.cli.keys import add_keys_parser
from skipmap.cli.map_arguments import add_maps, add_nodes
from skipmap.cli.router_arguments import add_router_parser
from skipmap.cli.serve import add_serve_parser
from skipmap.cli.spec_arguments import data_options, decoding_options, spec_options, target_options
from skipmap.cli.train_head_arguments import add_train_head_parser
from skipmap.cli.users_arguments import add_users


def build_parser() -> argparse.ArgumentParser:
    """Parser whose namespace carries ``run``, the command's function."""
    parser = argparse.ArgumentParser(
        prog="skipmap",
        description="Find, per domain, the target layers that speculative verification can skip.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"skipmap {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _profile(commands.add_parser("profile", help="profile a domain and write its map", epilog=EXIT_CODES))
    _compare(
        commands.add_parser(
            "compare",
            help="accept length of several draft methods",
            description="Accept length of draft methods side by side, on calibration prompts alone: those of "
            "--calibration, or of each domain's shipped sample.",
            epilog=EXIT_CODES,
        )
    )
    _generate(commands.add_parser("generate", help="answer one prompt with a skip set", epilog=EXIT_CODES))
    show = commands.add_parser("show", help="print a result or a map")
    show.add_argument("file", type=Path, help="result.json or map.json")
    show.add_argument("--json", action="store_true", help="print the document without per-prompt rows")
    show.set_defaults(run=command("show"))
    report = commands.add_parser("report", help="write one HTML page about results")
    report.add_argument("files", type=Path, nargs="+", help="one or more result.json")
    report.add_argument(
        "--out", type=Path, help="page to write (default: report.html beside the first result)"
    )
    report.set_defaults(run=command("report"))
    for name, text in (
        ("models", "list the known targets"),
        ("drafts", "list draft methods and their parameters"),
        ("strategies", "list search strategies"),
        ("doctor", "check this machine's set-up"),
    ):
        listing = commands.add_parser(name, help=text)
        listing.add_argument("--json", action="store_true", help="print JSON")
        listing.set_defaults(run=command(name))
    add_jobs(commands)
    add_sets(commands)
    add_maps(commands)
    add_nodes(commands)
    add_users(commands)
    add_keys_parser(commands)
    add_router_parser(commands)
    add_anchors_parser(commands)
    add_train_head_parser(commands)
    add_serve_parser(commands)
    return parser


def _profile(parser: argparse.ArgumentParser) -> None:
    spec_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="FILE", help="the (unsigned) domain map")
    output.add_argument("--result", type=Path, metavar="FILE", help="the result with per-prompt rows")
    output.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="run folders (default runs)"
    )
    output.add_argument("--resume", action="store_true", help="take over finished groups of an earlier run")
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=command("profile"))


def _compare(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to compare")
    target_options(what, required=True)
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
    data_options(what)
    decoding_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="FILE", help="a self-contained HTML page")
    output.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(run=command("compare"))


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
    parser.set_defaults(run=command("generate"))
