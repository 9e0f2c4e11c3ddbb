"""Previews of the new-job form that are asked for faster than they are made."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue

from tests.web.site import COOKIE, Site
from web import turns
from web.forms.job import defaults
from web.pages import new_job


def test_of_those_that_wait_the_newest_is_made(app, site, make_site, monkeypatch):
    waiting: Queue[Future[bool]] = Queue()

    class Announced(Future[bool]):
        def result(self, timeout=None):
            waiting.put(self)
            return super().result(timeout)

    monkeypatch.setattr(turns, "Future", Announced)
    cookie = site.client.get_cookie(COOKIE).value

    def ask():
        other = Site(app.test_client(), csrf=site.csrf)
        other.client.set_cookie(COOKIE, cookie)
        headers = {"X-Fragment": "preview", "X-Requested-With": "fetch"}
        return other.post("/jobs/preview", dict(defaults()), headers=headers)

    with ThreadPoolExecutor(2) as pool:
        with new_job._previews.of(site.user_id):
            first = pool.submit(ask)
            waiting.get(timeout=20)
            second = pool.submit(ask)
            waiting.get(timeout=20)
            refused = first.result(20)
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
            assert "wait for that answer" in refused.get_json()["detail"]
            # Somebody else is not kept waiting.
            answer = make_site("editor").post(
                "/jobs/preview", dict(defaults()), headers={"X-Fragment": "preview"}
            )
            assert answer.status_code == 200
        assert second.result(20).status_code == 200
