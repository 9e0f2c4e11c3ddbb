"""Help: what an engineer needs to know to use the pages, one topic a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from flask import Response

from models.roles import ROLES, SCOPES, scopes_of
from skipmap.calibration.domains import preset, preset_names
from skipmap.drafts.registry import draft_names, draft_type
from skipmap.errors import NotFound, choices
from skipmap.maps.verdict import FEW_PROMPTS
from web.accounts import ROLE_TEXTS, SCOPE_TEXTS
from web.entrance import place_of_first_token
from web.rendering import render
from web.routes import Pages

pages = Pages()


@dataclass(frozen=True)
class Topic:
    """A page of help: ``name`` in its address, what it is about."""

    name: str
    title: str
    about: str


TOPICS = (
    Topic("first-job", "Your first job", "From nothing to a map that a serving node follows"),
    Topic(
        "reading-results",
        "Reading results",
        "Floors, the front, held-out figures, and when not to trust them",
    ),
    Topic("drafts", "Draft methods", "What proposes tokens, and which one to take"),
    Topic("calibration-sets", "Calibration sets", "The prompts that steer a search: formats, size, split"),
    Topic("publishing", "Publishing a map", "What can be published, and what the held-out check refuses"),
    Topic("channels", "Channels", "Promote a version, roll it back"),
    Topic("nodes", "Serving nodes", "What the states mean, served figures beside calibrated ones"),
    Topic("routing", "Routing requests", "How a node finds the domain of a request"),
    Topic("accounts", "Accounts and tokens", "Signing in, roles, access tokens"),
    Topic("keyboard", "Keyboard and screen readers", "Working without a mouse"),
    Topic("glossary", "Glossary", "The words that these pages use"),
)
_BY_NAME = {topic.name: topic for topic in TOPICS}


@pages.get("/help", access="public")
def show_help() -> Response:
    """All topics."""
    return render("help/index.html", topics=TOPICS)


@pages.get("/help/<name:topic>", access="public")
def show_help_topic(topic: str) -> Response:
    """One topic."""
    found = _BY_NAME.get(topic)
    if found is None:
        raise NotFound(f"no help on {topic!r}; there is {choices(_BY_NAME)}")
    place = TOPICS.index(found)
    return render(
        f"help/{topic.replace('-', '_')}.html",
        topic=found,
        topics=TOPICS,
        later=TOPICS[place + 1] if place + 1 < len(TOPICS) else None,
        first_token=place_of_first_token(),
        **_facts(topic),
    )


@cache
def _facts(topic: str) -> dict[str, Any]:
    """What a topic tells of the code, so that it stays true."""
    if topic == "drafts":
        return {"drafts": [(name, draft_type(name)) for name in draft_names()]}
    if topic == "calibration-sets":
        return {"presets": [(name, preset(name)) for name in preset_names()]}
    if topic == "reading-results":
        return {"few_prompts": FEW_PROMPTS}
    if topic == "accounts":
        return {
            "roles": [(role, ROLE_TEXTS[role], scopes_of(role)) for role in ROLES],
            "scopes": [(scope, SCOPE_TEXTS[scope]) for scope in SCOPES],
        }
    return {}
