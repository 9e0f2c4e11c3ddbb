"""Every strategy there is has words of its own, and what is said to come is what comes."""

from __future__ import annotations

import pytest

from api.views import job_view
from models.plots import cloud_of
from skipmap.profiling.search import STRATEGIES
from skipmap.profiling.select import select
from skipmap.spec import SearchSpec
from tests.models.bench import LAYERS, make_spec, random_table
from tests.models.test_plots import stored_scores
from web.views.layers import has_pool, is_by_layers
from web.views.levels import level_rows
from web.views.strategies import kept_by_front, level_of_search, strategy_summary, strategy_title

ANY = ("single layers, skipped alone", "sets of layers, skipped together", "figures that put layers in order")


def test_a_strategy_of_a_later_version_is_called_by_its_name():
    assert (strategy_title("annealing"), strategy_summary("annealing")) == ("annealing", None)
    assert tuple(level_of_search(kind, "annealing") for kind in ("single", "level", "rank")) == ANY
    assert kept_by_front("annealing") == "both floors"


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_has_words_of_its_own(name):
    assert strategy_title(name) != name
    assert "block" not in strategy_summary(name)
    kinds = ["single", "level"] + ["rank"] * bool(STRATEGIES[name].rank_size(SearchSpec(), LAYERS, 1))
    assert not {level_of_search(kind, name) for kind in kinds} & set(ANY)


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_to_come_is_what_comes(bench, name):
    spec = make_spec(strategy=name, max_depth=3)
    job = bench.submit(spec)

    def rows():
        view, _ = bench.database.read(job_view, job.id, 60.0)
        return level_rows(view, spec.search, LAYERS, None)

    before = rows()
    bench.work_off()
    after = rows()
    assert [row.title for row in before] == [row.title for row in after]
    assert all(row.is_pending for row in before[1:])
    for row, done in zip(before[1:], after[1:], strict=True):
        assert (row.meaning, row.kind, row.depth) == (done.meaning, done.kind, done.depth)
        assert row.total is None or row.total >= done.total
        assert done.has_configurations == (done.kind in ("single", "level"))


@pytest.mark.parametrize(
    ("search", "layers_alone", "pool"),
    [
        ({"strategy": "tss"}, True, True),
        ({"strategy": "beam"}, True, True),
        ({"strategy": "greedy"}, True, False),
        ({"strategy": "random", "draws": 4}, False, False),
        ({"strategy": "random", "draws": LAYERS}, True, False),
        ({"strategy": "shortgpt"}, False, False),
        ({"strategy": "sleb"}, False, False),
    ],
)
def test_which_searches_look_at_each_layer_alone(search, layers_alone, pool):
    spec = SearchSpec.model_validate(search)
    assert (is_by_layers(spec, LAYERS), has_pool(spec)) == (layers_alone, pool)


@pytest.mark.parametrize("name", ["accept_only", "metric_only"])
@pytest.mark.parametrize("seed", range(4))
def test_the_front_is_that_of_the_figure_that_is_looked_at(bench, name, seed):
    bench.table = random_table(seed)
    spec = make_spec(strategy=name, eps=0.1, tau=0.1)
    job = bench.submit(spec)
    bench.work_off()
    cloud = bench.database.read(cloud_of, job.id, spec.search)
    sight = STRATEGIES[name].sight
    scores = stored_scores(bench, job.id)
    admitted = {
        skip: sight.seen(score)
        for skip, score in scores.items()
        if len(skip) and sight.admits(cloud.floors, score)
    }
    front = select(admitted, lambda skip: 1 - len(skip) / LAYERS).front
    assert cloud.front == {",".join(map(str, skip)) for skip in front}
    assert kept_by_front(name) == f"the floor of {sight.words}"
