"""The gallery: every macro of the templates on one page, with usual and extreme values, to look at.

python -m web.frontend.gallery.components OUT.html writes it, with the styles that set-up built.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PrefixLoader,
    StrictUndefined,
    select_autoescape,
)

from web.filters import FILTERS

HERE = Path(__file__).resolve().parent
WEB = HERE.parents[1]
TEMPLATES = WEB / "templates"
DIST = WEB / "static" / "dist"
_NAV = ("Jobs", "Compare", "Data", "Maps", "Nodes", "Workers", "Admin")
LONG = "translation-of-very-long-legal-documents-from-German-into-English_" * 3


@dataclass(frozen=True)
class Person:
    """Whoever is signed in, as far as the frame of a page shows it."""

    user_name: str = "Ada Lovelace"
    user_id: str = "01j9z4t2m3e5q8v7c6b1n0k4ra"


def environment(**given: Any) -> Environment:
    """Templates as the pages see them, with stand-ins for what a request gives; each can be given another."""
    made = Environment(
        loader=ChoiceLoader([FileSystemLoader(TEMPLATES), PrefixLoader({"gallery": FileSystemLoader(HERE)})]),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals.update(
        {
            "asset": lambda name: f"/static/{name}",
            "csrf_token": lambda: "a-token",
            "url_for": lambda endpoint, **values: f"#{endpoint}",
            "may": lambda scope: True,
            "leftovers": list,
            "sent_forms": list,
            "toasts": list,
            "me": Person(),
            "request_id": "5f0c1c1e9f0a4b7e",
            "version": "1.2.3",
            "nav": [(label, f"#{label}", label.lower(), True) for label in _NAV],
            "section": "jobs",
            **given,
        }
    )
    return made


def gallery(assets: Mapping[str, str] | None = None, toasts: bool = True) -> str:
    """The page; ``assets``: addresses of built files by their plain names."""
    addresses = assets or {}
    messages = [
        ("good", "The map qa is published as version 4."),
        ("bad", f"Cannot reach the server. {LONG}"),
    ]
    made = environment(
        asset=lambda name: addresses.get(name, name), toasts=lambda: messages if toasts else []
    )
    now = datetime.now(UTC)
    return made.get_template("gallery/components.html").render(
        long=LONG,
        now=now,
        past=now - timedelta(minutes=3),
        rulers=[
            (6, [2]),
            (18, [3, 7]),
            (30, [0, 3, 4, 5, 11, 29]),
            (80, [3, 12, 13, 14, 49, 50, 79]),
            (128, [0, 1, 2, 63, 64, 99, 100, 101, 109, 110, 127]),
        ],
    )


def main() -> None:
    """Write the gallery to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--styles", type=Path, help="use this file instead of the built styles")
    arguments = parser.parse_args()
    built = {
        name: (DIST / file).as_uri()
        for name, file in json.loads((DIST / "manifest.json").read_text()).items()
    }
    if arguments.styles:
        built["app.css"] = arguments.styles.resolve().as_uri()
    arguments.out.write_text(gallery(built), encoding="utf-8")


if __name__ == "__main__":
    main()
