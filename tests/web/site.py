"""A browser without a screen: asks for pages, fills in forms, reads what they show."""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup, Tag
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from web.guard import CSRF, CSRF_FIELD
from web.mask import masked

COOKIE = "skipmap_session"


class Page:
    """What an answer shows."""

    def __init__(self, answer: TestResponse) -> None:
        self.answer = answer
        self.status = answer.status_code
        self.soup = BeautifulSoup(answer.get_data(as_text=True), "html.parser")

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(self.soup.get_text(" ").split())

    @property
    def heading(self) -> str:
        (found,) = self.soup.find_all("h1")
        return " ".join(found.get_text(" ").split())

    @property
    def links(self) -> dict[str, str]:
        """Address by text."""
        return {
            " ".join(link.get_text(" ").split()): str(link["href"])
            for link in self.soup.find_all("a", href=True)
        }

    @property
    def errors(self) -> dict[str, str]:
        """What is said about fields that are wrong, by the field's name."""
        found = {}
        for control in self.soup.find_all(attrs={"aria-invalid": "true"}):
            about = str(control.get("aria-describedby", "")).split()
            texts = [self.soup.find(id=name) for name in about if name.endswith("-error")]
            found[str(control["name"])] = " ".join(
                " ".join(text.get_text(" ").split()) for text in texts if text is not None
            )
        return found

    def one(self, selector: str) -> Tag:
        """The one element that a CSS selector finds."""
        found = self.soup.select(selector)
        assert len(found) == 1, f"{len(found)} elements fit {selector!r}"
        return found[0]

    def all(self, selector: str) -> list[Tag]:
        return list(self.soup.select(selector))

    def table(self, name: str) -> list[list[str]]:
        """Texts of the cells of a table's body, by its id."""
        return [
            [" ".join(cell.get_text(" ").split()) for cell in row.find_all(["td", "th"])]
            for row in self.soup.select(f"table#{name} tbody tr")
        ]

    def form(self, action: str) -> dict[str, Any]:
        """What a form that goes to this address would send as it is."""
        form = self.one(f'form[action="{action}"]')
        sent: dict[str, Any] = {}
        for control in form.find_all(["input", "select", "textarea"]):
            name, kind = control.get("name"), control.get("type")
            if not name or control.has_attr("disabled"):
                continue
            if control.name == "select":
                options = control.find_all("option")
                chosen = [option for option in options if option.has_attr("selected")] or options[:1]
                sent[str(name)] = str(chosen[0].get("value", "")) if chosen else ""
            elif control.name == "textarea":
                sent[str(name)] = control.get_text().removeprefix("\n")
            elif kind in ("checkbox", "radio"):
                if control.has_attr("checked"):
                    sent[str(name)] = str(control.get("value", "on"))
            elif kind not in ("submit", "file", "button"):
                sent[str(name)] = str(control.get("value", ""))
        return sent


def with_cookie(app: Flask, user_id: str | None = None, **values: Any) -> Site:
    """Somebody whose cookie holds these values, signed as it should be."""
    client = app.test_client()
    front = app.extensions["skipmap-pages"]
    client.set_cookie(COOKIE, front.session_interface.get_signing_serializer(front).dumps(values))
    return Site(client, user_id, masked(values.get(CSRF, "")))


class Site:
    """Somebody at the pages; ``user_id`` when signed in, ``csrf``: the session's token as a page holds it."""

    def __init__(self, client: FlaskClient, user_id: str | None = None, csrf: str = "") -> None:
        self.client, self.user_id, self.csrf = client, user_id, csrf

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(path, **more)

    def page(self, path: str, status: int = 200, **more: Any) -> Page:
        """A page, which must come with this status."""
        answer = self.get(path, **more)
        assert answer.status_code == status, f"{path}: {answer.status_code} {Page(answer).text[:500]}"
        return Page(answer)

    def fragment(self, path: str, name: str) -> Page:
        """One part of a page."""
        return self.page(path, headers={"X-Fragment": name})

    def post(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> TestResponse:
        """Send a form, with the token of this session."""
        return self.client.post(path, data={CSRF_FIELD: self.csrf, **(data or {})}, **more)

    def follow(self, path: str, data: dict[str, Any] | None = None, **more: Any) -> Page:
        """Send a form and go on to the page that it leads to."""
        answer = self.post(path, data, **more)
        assert answer.status_code == 303, f"{path}: {answer.status_code} {Page(answer).text[:800]}"
        return self.page(answer.headers["Location"])
