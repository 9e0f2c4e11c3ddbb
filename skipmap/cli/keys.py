"""``skipmap keys``: the keys that sign channels. What it imports at once is its options alone."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command

if TYPE_CHECKING:
    from skipmap.maps.keys import SigningKeys

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

KEY_FILE_VARIABLE = "SKIPMAP_SIGNING_KEY_FILE"


def add_keys_parser(commands: _Commands) -> None:
    """Add ``skipmap keys``."""
    parser = commands.add_parser("keys", help="keys that sign maps for serving nodes", epilog=EXIT_CODES)
    keys = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    new = keys.add_parser("new", help="make a key; never replaces one", epilog=EXIT_CODES)
    new.add_argument("--if-missing", action="store_true", help="leave a key that is there as it is")
    rotate = keys.add_parser(
        "rotate",
        help="add a second key, or end its time beside the old one",
        description="Add a second key: old and new sign at the same time, so that nodes accept both while the new "
        "public keys are handed out. When all nodes have them, --finish drops the old key.",
        epilog=EXIT_CODES,
    )
    rotate.add_argument("--finish", action="store_true", help="drop the old key")
    show = keys.add_parser("show", help="print ids and public keys of a key file", epilog=EXIT_CODES)
    for name, one in (("new", new), ("rotate", rotate), ("show", show)):
        one.add_argument(
            "file",
            type=Path,
            nargs="?",
            metavar="FILE",
            help=f"key file (default: {KEY_FILE_VARIABLE}, else signing-key.pem in SKIPMAP_HOME)",
        )
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=command("keys", name))


def new(arguments: argparse.Namespace) -> int:
    """Make a key file and print where it is and the key's id."""
    from skipmap.maps.keys import ensure_key_file, new_key_file

    path = _file(arguments)
    _tell(arguments, path, ensure_key_file(path) if arguments.if_missing else new_key_file(path))
    print(f"skipmap: nodes need {path}.pub; keep {path} to yourself", file=sys.stderr)
    return 0


def rotate(arguments: argparse.Namespace) -> int:
    """Add a second key, or drop the old one."""
    from skipmap.maps.keys import finish_rotation
    from skipmap.maps.keys import rotate as add_key

    path = _file(arguments)
    _tell(arguments, path, finish_rotation(path) if arguments.finish else add_key(path))
    step = "the old key signs no more" if arguments.finish else "both keys sign; give nodes the new file"
    print(f"skipmap: {step} ({path}.pub)", file=sys.stderr)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print key ids and public keys of a private or a public file."""
    from skipmap.maps.keys import SigningKeys, TrustedKeys, is_private

    path = _file(arguments)
    if is_private(path):
        _tell(arguments, path, SigningKeys.read(path))
        return 0
    trusted = TrustedKeys.read(path)
    _print(arguments, path, trusted.key_ids, trusted.public_pem(), private=False)
    return 0


def _file(arguments: argparse.Namespace) -> Path:
    if arguments.file is not None:
        return Path(arguments.file)
    named = os.environ.get(KEY_FILE_VARIABLE)
    if named:
        return Path(named)
    from skipmap.maps.keys import DEFAULT_KEY_FILE
    from skipmap.settings import get_settings

    return get_settings().home / DEFAULT_KEY_FILE


def _tell(arguments: argparse.Namespace, path: Path, keys: SigningKeys) -> None:
    _print(arguments, path, keys.key_ids, keys.public_pem(), private=True)


def _print(
    arguments: argparse.Namespace, path: Path, key_ids: tuple[str, ...], public_pem: str, *, private: bool
) -> None:
    if arguments.json:
        document = {"file": str(path), "private": private, "key_ids": list(key_ids), "public_pem": public_pem}
        print(json.dumps(document, ensure_ascii=False))
        return
    print("\n".join(key_ids))
    print(public_pem, end="")
