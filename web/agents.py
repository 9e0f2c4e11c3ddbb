"""Browsers: what a session was opened with, in a few words."""

from __future__ import annotations

# The first that occurs counts: many browsers also name those that they look like.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python", "Python"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser(agent: str) -> str:
    """A browser and its system, as in "Firefox on Linux"."""
    name = _first(agent, _BROWSERS) or "an unknown program"
    system = _first(agent, _SYSTEMS)
    return name if system is None else f"{name} on {system}"


def _first(agent: str, names: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for mark, name in names if mark in agent), None)
