from __future__ import annotations

import pytest

from models.plots import Cloud, Point, cloud_of, singles_of
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import floors
from skipmap.spec import SearchSpec
from tests.models.bench import LAYERS, Bench, make_spec, random_table
from web.views.clouds import MOST_POINTS, front_of, scatter
from web.views.layers import heat_map, layer_map, pool_of

SEARCH = SearchSpec(max_depth=2, max_pool=2, group_size=2)


def point(key, accept, metric, limits):
    return Point(key, 1, accept, accept, metric, limits.admits(Score(accept, metric)))


def cloud(singles, dense=(2.0, 0.5)):
    limits = floors(Score(*dense), SEARCH.eps, SEARCH.tau)
    found = [point(str(layer), *figures, limits) for layer, figures in singles.items()]
    return Cloud(Point("dense", 0, dense[0], dense[0], dense[1], True), limits, found, frozenset())


def address(key):
    return f"/c/{key}"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("max_pool", [1, 3, 5])
def test_the_pool_is_that_of_the_search(bench: Bench, seed, max_pool):
    bench.table = random_table(seed)
    spec = make_spec(max_pool=max_pool)
    job = bench.submit(spec)
    bench.work_off()
    found = bench.database.read(singles_of, job.id, spec.search)
    assert found is not None
    outcome = bench.job(job.id).outcome
    assert outcome is not None
    assert list(pool_of(found, spec.search, LAYERS) or ()) == outcome["pool"]


def test_the_pool_is_not_known_before_all_singles_are_there():
    found = layer_map(cloud({0: (2.0, 0.5), 2: (1.0, 0.1)}), SEARCH, 4)
    assert found.pool is None
    assert [layer.in_pool for layer in found.layers] == [None] * 4
    assert (found.evaluated, [layer.point is None for layer in found.layers]) == (
        2,
        [False, True, False, True],
    )


def test_the_searchs_own_pool_is_believed():
    found = layer_map(cloud({0: (2.0, 0.5)}), SEARCH, 3, [0])
    assert [layer.in_pool for layer in found.layers] == [True, False, False]


def test_cells_hold_the_changes_to_dense_and_their_floors():
    found = layer_map(cloud({0: (1.8, 0.5), 1: (2.0, 0.4), 2: (2.2, 0.6)}), SEARCH, 4)
    data = heat_map(found, SEARCH, "f1", address)
    assert (data["num_layers"], data["pool"]) == (4, None)
    accept, metric = data["rows"]
    assert (accept["label"], metric["label"]) == ("Accept length", "f1")
    assert accept["cells"][3] is metric["cells"][3] is None
    first = accept["cells"][0]
    assert first["change"] == pytest.approx(-0.1)
    assert (first["layer"], first["feasible"], first["value"], first["base"], first["url"]) == (
        0,
        False,
        1.8,
        2.0,
        "/c/0",
    )
    # Each row looks at its own floor.
    assert [cell["feasible"] for cell in accept["cells"][:3]] == [False, True, True]
    assert [cell["feasible"] for cell in metric["cells"][:3]] == [True, False, True]
    assert metric["cells"][2]["change"] == pytest.approx(0.2)


def test_nothing_is_relative_to_a_dense_of_zero():
    data = heat_map(layer_map(cloud({0: (2.0, 0.25)}, (2.0, 0.0)), SEARCH, 1), SEARCH, "f1", address)
    cell = data["rows"][1]["cells"][0]
    assert (cell["change"], cell["value"], cell["base"]) == (None, 0.25, 0.0)


def finished(bench, seed=2, **search):
    bench.table = random_table(seed)
    spec = make_spec(eps=0.1, tau=0.1, **search)
    job = bench.submit(spec)
    bench.work_off()
    found = bench.database.read(cloud_of, job.id, spec.search)
    assert found is not None
    return found, spec.search


def test_the_scatter_holds_what_is_stored(bench):
    found, search = finished(bench)
    selected = next(iter(sorted(found.front)))
    data = scatter(found, search, "f1", selected, address)
    assert (data["x"], data["y"]) == ("Accept length (tokens a step)", "f1")
    assert data["dense"] == {"x": 2.0, "y": 0.5}
    assert data["floors"] == {"x": pytest.approx(1.8), "y": pytest.approx(0.45)}
    assert (data["shown"], data["total"]) == (len(found.points), len(found.points))
    by_key = {",".join(map(str, drawn["skip"])): drawn for drawn in data["points"]}
    for stored in found.points:
        drawn = by_key[stored.key]
        assert (drawn["x"], drawn["y"], drawn["level"]) == (stored.accept, stored.metric, stored.depth)
        assert drawn["feasible"] == stored.feasible
        assert drawn["front"] == (stored.key in found.front)
        assert drawn["selected"] == (stored.key == selected)
        assert drawn["url"] == f"/c/{stored.key}"


def test_of_very_many_the_scatter_says_how_many_it_shows():
    limits = floors(Score(2.0, 0.5), 0.05, 0.05)
    many = [point(f"{n},1000", 1 + n / 9000, 0.3 + n / 9000, limits) for n in range(MOST_POINTS + 500)]
    found = Cloud(Point("dense", 0, 2.0, 2.0, 0.5, True), limits, many, frozenset({"7,1000"}))
    data = scatter(found, SEARCH, "f1", "9,1000", address)
    assert (data["shown"], len(data["points"]), data["total"]) == (
        MOST_POINTS,
        MOST_POINTS,
        MOST_POINTS + 500,
    )
    drawn = {tuple(item["skip"]) for item in data["points"]}
    assert {(7, 1000), (9, 1000), (0, 1000), (MOST_POINTS + 499, 1000)} <= drawn


def test_the_front_is_drawn_in_the_figures_that_it_is_one_of(bench):
    """Of the selection's scores, whatever the floor looks at: nothing feasible lies up and to the right of it."""
    found, search = finished(bench, accept_measure="accepted_drafts")
    data = scatter(found, search, "f1", None, address)
    assert (data["x"], data["limited"]) == ("Accept length (tokens a step)", "Accepted drafts")
    assert data["dense"] == {"x": found.dense.accept_length, "y": found.dense.metric}
    assert data["floors"] == {"x": None, "y": pytest.approx(0.45)}
    by_key = {",".join(map(str, drawn["skip"])): drawn for drawn in data["points"]}
    for stored in found.points:
        drawn = by_key[stored.key]
        assert (drawn["x"], drawn["limited"]) == (stored.accept_length, stored.accept)
    drawn_front = {key: drawn for key, drawn in by_key.items() if drawn["front"]}
    scores = {key: Score(drawn["x"], drawn["y"]) for key, drawn in by_key.items() if drawn["feasible"]}
    assert drawn_front
    assert set(drawn_front) == set(pareto_front(scores))
    rows = front_of(found, None).rows
    assert [row.point.accept_length for row in rows] == sorted(
        (drawn["x"] for drawn in drawn_front.values()), reverse=True
    )
    assert rows[0].accept_change == pytest.approx(rows[0].point.accept_length / found.dense.accept_length - 1)


def test_the_other_measure_has_its_name():
    search = SEARCH.model_copy(update={"accept_measure": "accepted_drafts"})
    assert (
        heat_map(layer_map(cloud({}), search, 1), search, "f1", address)["rows"][0]["label"]
        == "Accepted drafts"
    )


def test_the_front_is_listed_by_accept_length_with_the_selected_one(bench):
    found, _ = finished(bench)
    outside = next(stored for stored in found.points if stored.key not in found.front)
    front = front_of(found, outside.key)
    assert {row.point.key for row in front.rows} == found.front | {outside.key}
    assert [row.point.accept for row in front.rows] == sorted(
        (row.point.accept for row in front.rows), reverse=True
    )
    assert [row.is_selected for row in front.rows].count(True) == 1
    (chosen,) = [row for row in front.rows if row.is_selected]
    assert not chosen.is_front
    assert chosen.accept_change == pytest.approx(outside.accept / 2.0 - 1)
