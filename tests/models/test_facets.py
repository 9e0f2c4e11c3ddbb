from __future__ import annotations

from models.facets import Facets, facets
from tests.models.bench import make_spec


def test_no_job_has_no_facet(bench):
    assert bench.database.read(facets) == Facets((), (), (), ())


def test_each_value_once_and_in_order(bench):
    for method in ("sam", "prompt_lookup", "sam"):
        bench.submit(make_spec(draft={"method": method}))
    found = bench.database.read(facets)
    assert found == Facets(("tiny",), ("prompt_lookup", "sam"), ("words",), ("tss",))
    bench.submit(make_spec(strategy="sleb"))
    assert bench.database.read(facets).strategies == ("sleb", "tss")


def test_no_more_than_a_list_can_show(bench):
    bench.submit()
    bench.sql(
        "INSERT INTO jobs (id, state, spec, spec_digest, labels, target, draft, domain, priority) "
        "SELECT gen_random_uuid()::text, 'paused', spec, spec_digest, labels, 'target ' || n, draft, domain, 5 "
        "FROM jobs, generate_series(1, 150) AS n"
    )
    assert len(bench.database.read(facets).targets) == 100
    bench.sql("DELETE FROM jobs WHERE state = 'paused'")
