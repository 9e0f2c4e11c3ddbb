"""The form for a new job, filled from another."""

from __future__ import annotations

import pytest

from tests.web.pages.job_form import NEW
from tests.web.site import Page

CLONED = [
    {},
    {
        "draft": {"method": "sam", "params": {"growth": 4.0, "max_positions": 20}},
        "search": {
            "max_depth": 1,
            "eps": 0.125,
            "max_seconds": 7.5,
            "gate": "confident",
            "allow_no_signal": True,
        },
        "decoding": {"temperature": 0.5, "stop": ["\n", " a", '"'], "seed": -4, "top_k": 9},
        "calibration": {"calibration_fraction": 0.35, "seed": 3, "limit": 30},
        "name": " two\nlines ",
        "labels": {"a=b": "c", " ": "\t"},
        "priority": 8,
    },
    {
        "target": {"id": "owner/model", "revision": "v1", "dtype": "bfloat16", "device": "cuda:1"},
        "domain": {"name": "own-kind", "metric": "exact_match", "template": "few_shot", "shots": 2},
        "calibration": {
            "source": "owner/data",
            "columns": {"prompt": "q", "reference": "a.text"},
            "dataset_split": "x",
        },
    },
]


@pytest.mark.parametrize("number", range(len(CLONED)))
def test_a_clone_is_the_same_job(site, admin, bench, make_spec, number):
    first = admin.post("/jobs", json=make_spec(**CLONED[number]))
    assert first.status_code == 202, first.get_json()
    page = site.page(f"{NEW}?from={first.get_json()['id']}")
    assert "Unchanged, it finds the same" in page.text
    answer = site.post(NEW, page.form(NEW))
    assert answer.status_code == 303, Page(answer).errors
    rows = bench.sql("SELECT spec_digest, name, labels, priority FROM jobs ORDER BY id")
    assert len(rows) == 2
    assert rows[0] == rows[1]


def test_a_clone_of_another_version_is_told(site, admin, bench, make_spec):
    job = admin.post("/jobs", json=make_spec()).get_json()["id"]
    bench.sql(
        """UPDATE jobs SET spec = jsonb_set(spec::jsonb, '{search,magic}', '1')::json, spec_digest = 'x'"""
    )
    page = site.page(f"{NEW}?from={job}")
    assert "made by another version" in page.text


@pytest.mark.parametrize("given", ["x", "00000000-0000-7000-8000-000000000000", "%00"])
def test_clones_of_nothing(site, given):
    assert site.get(f"{NEW}?from={given}").status_code == 404
