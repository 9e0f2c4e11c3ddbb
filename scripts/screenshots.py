"""``make screenshots``: pictures of every page of the dashboard, from what the demo found, in docs/screenshots.

It uses the Skipmap of this home as the demo does, and runs the demo first where that has not been done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from demo import DOMAINS, FOLDER, ROOT, job_name, rollout_of, run, running_skipmap
from pictures import small
from playwright.sync_api import Browser, Page, sync_playwright
from rollout import CHANNEL, MAP, NODE, Node

from deploy.standalone.errors import FolderInUse
from deploy.standalone.locks import FileLock
from skipmap.client.client import Client
from skipmap.client.server import Server
from skipmap.errors import Interrupted, InvalidInput, ModelFailure, NotFound, SkipmapError
from tests.browser import find_chromium
from tests.web.browser.entrance import sign_in
from tests.web.browser.looks import settle

FOLDER_OF_PICTURES = ROOT / "docs" / "screenshots"
SET = ROOT / "skipmap" / "calibration" / "samples" / "qa.jsonl"
WIDE, NARROW, HEIGHT, TALLEST = 1280, 360, 900, 4500
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ANSWERS = 3
"""That the node gives for each domain, so that it has something to report."""
REPORT_SECONDS, LOOK_SECONDS = 30.0, 0.2

PAGES = {
    "jobs": "/jobs",
    "new-job": "/jobs/new?from={job}",
    "job": "/jobs/{job}",
    "configurations": "/jobs/{job}/configurations",
    "configuration": "/jobs/{job}/configurations/{skip}?part=held-out&differing=true",
    "compare": "/compare?job={job}&job={other}",
    "calibration-sets": "/calibration-sets",
    "calibration-set": "/calibration-sets/{set}",
    "maps": "/maps",
    "map": f"/maps/{MAP}",
    "version": f"/maps/{MAP}/versions/{{version}}",
    "diff": f"/maps/{MAP}/diff?from={{before}}&to={{version}}",
    "publish": "/publish?job={job}&job={other}",
    "channel": f"/maps/{MAP}/channels/{CHANNEL}",
    "promote": f"/maps/{MAP}/channels/{CHANNEL}/move?version={{version}}",
    "nodes": "/nodes",
    "node": f"/nodes/{NODE}",
    "workers": "/workers",
    "tokens": "/admin/tokens",
    "users": "/admin/users",
    "audit": "/admin/audit",
    "account": "/account",
    "help": "/help",
    "api": "/docs",
}
ON_A_PHONE = ("jobs", "job", "new-job", "channel")


def main() -> int:
    """Take the pictures; returns an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with FileLock(FOLDER / "lock") as lock:
            if not lock.try_acquire():
                raise FolderInUse(f"a demo runs in {FOLDER} (process {lock.holder()}): wait for it")
            with running_skipmap(lock) as server, Client(server) as client:
                _all(server, client, lock)
    except (KeyboardInterrupt, Interrupted):
        print("\nInterrupted.", file=sys.stderr)
        return 130
    except SkipmapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _all(server: Server, client: Client, lock: FileLock) -> None:
    jobs = _jobs(client)
    if jobs is None:
        run(server, lock)
        jobs = _jobs(client)
        assert jobs is not None
    results = {domain: client.result(job) for domain, job in jobs.items()}
    with rollout_of(client, jobs, results).node(lock) as node, _browser() as browser:
        _serve(node, client)
        taken = _pictures(browser, server, _places(client, jobs, results))
    print(f"{taken} pictures in {FOLDER_OF_PICTURES.relative_to(ROOT)}")


def _jobs(client: Client) -> dict[str, str] | None:
    """The demo's jobs by domain, None where it has not been run to its end."""
    found = {}
    for domain in DOMAINS:
        jobs = client.jobs(state="succeeded", domain=domain)
        found[domain] = next((job.id for job in jobs if job.name == job_name(domain)), "")
    try:
        is_rolled_out = client.maps.sequence(MAP, CHANNEL) is not None
    except NotFound:
        return None
    return found if is_rolled_out and all(found.values()) else None


def _serve(node: Node, client: Client) -> None:
    """Let the node answer, and wait until the service knows of it."""
    asked = 0
    for domain in DOMAINS:
        for _ in range(ANSWERS):
            node.ask(domain)
            asked += 1
    limit = time.monotonic() + REPORT_SECONDS
    while sum(counters.requests for counters in client.nodes.get(NODE).domains.values()) < asked:
        if time.monotonic() > limit:
            raise ModelFailure(f"the node at {node.url} does not report")
        time.sleep(LOOK_SECONDS)


def _places(
    client: Client, jobs: Mapping[str, str], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """What stands in the addresses of ``PAGES``."""
    first = max(DOMAINS, key=lambda domain: len(results[domain]["selected"]))
    other = next(domain for domain in DOMAINS if domain != first)
    newest, before = (version.version for version in client.maps.versions(MAP, limit=2))
    stored = next(client.sets(limit=1), None) or client.upload_set(SET, "questions about short texts")
    return {
        "job": jobs[first],
        "other": jobs[other],
        "skip": ",".join(map(str, results[first]["selected"])) or "dense",
        "set": stored.id,
        "version": str(newest),
        "before": str(before),
    }


def _pictures(browser: Browser, server: Server, places: Mapping[str, str]) -> int:
    """Take all pictures; returns how many."""
    FOLDER_OF_PICTURES.mkdir(parents=True, exist_ok=True)
    desk = browser.new_page()
    wanted = ((WIDE, "", tuple(PAGES)), (NARROW, "-phone", ON_A_PHONE))
    taken = 0
    for theme in THEMES:
        visitor = browser.new_context(base_url=server.url, color_scheme=theme, reduced_motion="reduce")
        page = visitor.new_page()
        page.set_viewport_size({"width": WIDE, "height": HEIGHT})
        _take(page, desk, "sign-in", theme, "/sign-in")
        sign_in(page, server.token)
        taken += 1
        for width, mark, names in wanted:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            for name in names:
                _take(page, desk, f"{name}{mark}", theme, PAGES[name].format(**places))
                taken += 1
        visitor.close()
    return taken


def _take(page: Page, desk: Page, name: str, theme: str, address: str) -> None:
    answer = page.goto(address)
    if answer is None or not answer.ok:
        raise ModelFailure(f"{page.url} cannot be shown: {page.locator('main').inner_text()[:300]}")
    page.wait_for_function("() => !document.querySelector('figure[data-chart] .chart-wait')")
    settle(page)
    # A page of many answers would be taller than anybody looks.
    width, height = page.evaluate("() => [innerWidth, document.documentElement.scrollHeight]")
    picture = page.screenshot(
        full_page=True, clip={"x": 0, "y": 0, "width": width, "height": min(height, TALLEST)}
    )
    (FOLDER_OF_PICTURES / f"{name}-{theme}.png").write_bytes(small(desk, picture))


@contextmanager
def _browser() -> Iterator[Browser]:
    chromium = find_chromium()
    if chromium is None:
        raise InvalidInput("SKIPMAP_CHROMIUM", "there is no Chromium; install one, or say here where it is")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
