"""Options of every command that asks a service."""

from __future__ import annotations

import argparse
from pathlib import Path


def server_options() -> argparse.ArgumentParser:
    """Address and token, as a parent of the command's parser."""
    common = argparse.ArgumentParser(add_help=False)
    server = common.add_argument_group("which service")
    server.add_argument(
        "--server",
        metavar="URL",
        help="address (default: SKIPMAP_SERVER, else the service of SKIPMAP_HOME, else http://127.0.0.1:8765)",
    )
    server.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with a token (default: SKIPMAP_TOKEN, else admin-token in SKIPMAP_HOME for a service of this "
        "machine)",
    )
    server.add_argument(
        "--insecure", action="store_true", help="send the token over plain http to another machine too"
    )
    return common
