"""``skipmap users``: who may sign in to a service, and what they may do then. It takes a token with the scope admin."""

from __future__ import annotations

import getpass
import sys
from argparse import Namespace
from collections.abc import Callable

from pydantic import ValidationError
from rich.table import Table

from skipmap.cli.console import AnswerConsole
from skipmap.cli.job_text import moment
from skipmap.cli.service import checked_limit, connect, print_json, say
from skipmap.client.accounts import UserChange, UserRequest, UserView
from skipmap.errors import InvalidInput

_LONGEST_LINE = 8192


def list_users(arguments: Namespace) -> int:
    """Print the users there are."""
    limit = checked_limit(arguments.limit)
    with connect(arguments) as client:
        found = list(client.users.all(limit))
    if arguments.json:
        print_json(found)
        return 0
    table = Table()
    table.add_column("id", no_wrap=True, min_width=max((len(user.id) for user in found), default=0))
    for name in ("name", "role", "password", "created", "disabled"):
        table.add_column(name)
    for user in found:
        disabled = "-" if user.disabled_at is None else moment(user.disabled_at)
        password = "yes" if user.has_password else "no"
        table.add_row(user.id, user.name, user.role, password, moment(user.created_at), disabled)
    AnswerConsole().print(table)
    return 0


def add(arguments: Namespace) -> int:
    """Add a user and print the id."""
    password = _read_password(arguments) if arguments.password or arguments.password_stdin else None
    try:
        request = UserRequest(name=arguments.name, role=arguments.role, password=password)
    except ValidationError as error:
        # What was given stays out of it: it may be a password.
        problem = error.errors(include_url=False)[0]
        raise InvalidInput(str(problem["loc"][0]), problem["msg"]) from None
    with connect(arguments) as client:
        user = client.users.add(request)
    if arguments.json:
        print_json(user)
        return 0
    print(user.id)
    if not user.has_password:
        say(f"{user.name} has no password yet; set one with: skipmap users password {user.name}")
    return 0


def password(arguments: Namespace) -> int:
    """Set a user's password, or take it away; the user's sessions end."""
    change = UserChange(password=None if arguments.remove else _read_password(arguments))
    said = "password removed" if arguments.remove else "password set"
    return _change(arguments, change, lambda _: said)


def role(arguments: Namespace) -> int:
    """Change what a user may do once signed in."""
    return _change(arguments, UserChange(role=arguments.role), lambda user: f"role {user.role}")


def disable(arguments: Namespace) -> int:
    """Refuse a user's tokens and sign-ins from now on."""
    return _change(arguments, UserChange(disabled=True), lambda _: "disabled")


def enable(arguments: Namespace) -> int:
    """Take a user's tokens and sign-ins again."""
    return _change(arguments, UserChange(disabled=False), lambda _: "enabled")


def _change(arguments: Namespace, change: UserChange, said: Callable[[UserView], str]) -> int:
    with connect(arguments) as client:
        user = client.users.change(client.users.named(arguments.name).id, change)
    if arguments.json:
        print_json(user)
    else:
        AnswerConsole().print_lines([f"user {user.name}: {said(user)}"])
    return 0


def _read_password(arguments: Namespace) -> str:
    """A password from standard input or, twice, from the terminal: arguments are seen by everybody on the machine."""
    if arguments.password_stdin:
        return _first_line()
    if not sys.stdin.isatty():
        raise InvalidInput("password", "there is no terminal to ask for it; send it with --password-stdin")
    first = getpass.getpass("New password: ")
    if getpass.getpass("Again: ") != first:
        raise InvalidInput("password", "the two are not the same; try again")
    return first


def _first_line() -> str:
    try:
        line = sys.stdin.readline(_LONGEST_LINE).rstrip("\r\n")
        line.encode("utf-8")
    except UnicodeError:
        raise InvalidInput("--password-stdin", "standard input is no text in UTF-8") from None
    if not line:
        raise InvalidInput("--password-stdin", "standard input is empty; send the password as its first line")
    return line
