"""Somebody at the form for a new job."""

from __future__ import annotations

import pytest

from tests.web.site import Page

NEW = "/jobs/new"


COMPLETE = {
    "target.choice": "smollm2-135m-instruct",
    "draft.method": "sam",
    "domain.choice": "qa",
    "calibration.kind": "sample",
    "calibration.sample": "qa",
}


@pytest.fixture
def untouched(site) -> dict[str, str]:
    """What the form sends that nobody has touched."""
    return site.page(NEW).form(NEW)


@pytest.fixture
def submit(site, untouched, bench):
    """Send the form with some changes; returns the id of the new job."""

    def act(**more: str) -> str:
        answer = site.post(NEW, {**untouched, **COMPLETE, **more})
        assert answer.status_code == 303, Page(answer).errors
        return answer.headers["Location"].rpartition("/")[2]

    return act


def refused(site, typed: dict[str, str], status: int = 422) -> Page:
    answer = site.post(NEW, typed)
    assert answer.status_code == status, answer.get_data(as_text=True)[:500]
    return Page(answer)


def fragment(site, name: str, typed: dict[str, str]) -> Page:
    answer = site.post(f"/jobs/{name}", typed, headers={"X-Fragment": name, "X-Requested-With": "fetch"})
    assert answer.status_code == 200, answer.get_data(as_text=True)[:500]
    return Page(answer)


def spec_of(bench, job_id: str) -> dict:
    (spec,) = bench.sql("SELECT spec FROM jobs WHERE id = :id", id=job_id)
    return spec
