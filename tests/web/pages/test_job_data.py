from __future__ import annotations

import pytest

from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE
from tests.models.bench import LAYERS

KINDS = ("layers", "pareto", "cost", "speedup", "metric")


def data(site, job, kind):
    answer = site.get(f"/jobs/{job.id}/data/{kind}.json")
    assert answer.status_code == 200, answer.text
    return answer.get_json()


def test_the_heat_map_is_what_is_stored(site, story):
    job = story.tell()
    stored = story.stored(job.id)
    found = data(site, job, "layers")
    assert (found["num_layers"], found["pool"]) == (LAYERS, job.outcome["pool"])
    for row, figure in zip(found["rows"], ("accept", "metric"), strict=True):
        base = getattr(stored[DENSE], figure)
        for layer, cell in enumerate(row["cells"]):
            score = next(score for skip, score in stored.items() if skip.blocks == (layer,))
            assert cell["value"] == getattr(score, figure)
            assert cell["base"] == base
            assert cell["change"] == pytest.approx(getattr(score, figure) / base - 1)
            assert cell["url"] == f"/jobs/{job.id}/configurations/{layer}"


def test_the_scatter_is_what_is_stored(site, story):
    job = story.tell()
    stored, limits = story.stored(job.id), story.limits(job.id)
    found = data(site, job, "pareto")
    drawn = {tuple(point["skip"]): point for point in found["points"]}
    assert {skip: Score(point["x"], point["y"]) for skip, point in drawn.items()} == {
        skip.blocks: score for skip, score in stored.items() if skip != DENSE
    }
    feasible = {s: score for s, score in stored.items() if s != DENSE and limits.admits(score)}
    assert {skip for skip, point in drawn.items() if point["feasible"]} == {s.blocks for s in feasible}
    assert {skip for skip, point in drawn.items() if point["front"]} == {
        s.blocks for s in pareto_front(feasible)
    }
    assert [skip for skip, point in drawn.items() if point["selected"]] == [tuple(job.best["skip"])]
    assert (found["shown"], found["total"]) == (len(stored) - 1, len(stored) - 1)


def test_every_link_of_a_point_leads_to_its_configuration(site, story):
    job = story.tell()
    for kind in KINDS:
        found = data(site, job, kind)
        points = found.get("points", [])
        points += [cell for row in found.get("rows", []) for cell in row["cells"]]
        points += [value for series in found.get("series", []) for value in series["values"]]
        assert points
        for point in points:
            assert site.get(point["url"]).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_new_is_304(site, story, kind):
    job = story.tell()
    address = f"/jobs/{job.id}/data/{kind}.json"
    first = site.get(address)
    assert site.get(address, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


def test_data_follow_a_job_that_goes_on(site, story):
    job = story.submit(story.spec())
    address = f"/jobs/{job.id}/data/layers.json"
    assert site.get(address).status_code == 404
    story.store(claimed := story.reach("dense"))
    story.finish(claimed)
    first = site.get(address)
    assert [cell for row in first.get_json()["rows"] for cell in row["cells"]] == [None] * 2 * LAYERS
    story.work_off()
    again = site.get(address, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 200
    assert None not in again.get_json()["rows"][0]["cells"]


def test_what_is_not_there_is_not_found(site, story):
    job = story.submit(story.spec())
    for kind in (*KINDS, "unknown"):
        assert site.get(f"/jobs/{job.id}/data/{kind}.json").status_code == 404
    assert site.get("/jobs/00000000-0000-7000-8000-000000000000/data/pareto.json").status_code == 404


def test_a_visitor_sees_no_data(visitor, story):
    job = story.tell()
    assert visitor.get(f"/jobs/{job.id}/data/pareto.json").status_code == 303
