"""Options of ``skipmap users``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command
from skipmap.cli.server_arguments import server_options

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ROLES = ("viewer", "editor", "publisher", "admin")
_STDIN_HELP = "read the password from the first line of standard input"


def add_users(commands: _Commands) -> None:
    """Add ``skipmap users``."""
    parser = commands.add_parser("users", help="users of a Skipmap service", epilog=EXIT_CODES)
    users = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = server_options()
    listing = users.add_parser("list", help="list users", parents=[common], epilog=EXIT_CODES)
    listing.add_argument("--limit", type=int, metavar="N", help="at most N")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=command("users", "list_users"))
    adding = _of_one(users, common, "add", "add a user")
    adding.add_argument(
        "--role", choices=_ROLES, default="viewer", help="what the user may do (default viewer)"
    )
    secret = adding.add_mutually_exclusive_group()
    secret.add_argument("--password", action="store_true", help="ask for a password on the terminal")
    secret.add_argument("--password-stdin", action="store_true", help=_STDIN_HELP)
    password = _of_one(users, common, "password", "set a user's password; sessions end")
    secret = password.add_mutually_exclusive_group()
    secret.add_argument("--password-stdin", action="store_true", help=f"{_STDIN_HELP} (default: ask for it)")
    secret.add_argument("--remove", action="store_true", help="take the password away")
    role = _of_one(users, common, "role", "change what a user may do; tokens keep their scopes")
    role.add_argument("role", choices=_ROLES, metavar="ROLE", help=", ".join(_ROLES))
    _of_one(users, common, "disable", "refuse a user's tokens, sessions and sign-ins")
    _of_one(users, common, "enable", "take a user's tokens and sign-ins again")


def _of_one(
    users: _Commands, common: argparse.ArgumentParser, name: str, text: str
) -> argparse.ArgumentParser:
    parser = users.add_parser(name, help=text, parents=[common], epilog=EXIT_CODES)
    parser.add_argument("name", metavar="NAME", help="name of the user")
    parser.add_argument("--json", action="store_true", help="print the user as JSON")
    parser.set_defaults(run=command("users", name))
    return parser
