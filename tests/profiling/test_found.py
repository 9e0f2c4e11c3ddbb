from __future__ import annotations

import pytest

from skipmap.profiling.found import found_table


def document(found, measure="tokens_per_step"):
    rows = [{"skip": [4], "accept_length": 2.0, "accepted_drafts": 1.0, "metric": 0.5}]
    return {
        "strategy": found,
        "spec": {"search": {"accept_measure": measure}},
        "metric": {"name": "bleu"},
        "evaluations": rows,
    }


def test_greedy_tells_what_each_round_took():
    table = found_table(document({"name": "greedy", "path": [[4]]}))
    assert table.columns == ("round", "skip", "accept length", "bleu")
    assert table.rows == (("1", "4", "2.000", "0.5000"),)
    drafts = found_table(document({"name": "greedy", "path": [[4]]}, "accepted_drafts"))
    assert (drafts.columns[2], drafts.rows[0][2]) == ("accepted drafts", "1.000")


def test_random_tells_mean_and_spread_of_each_size():
    figures = {"mean": 1.5, "standard_deviation": None, "min": 1.5, "max": 1.5}
    size = {"size": 2, "evaluated": 1, "possible": 4060, "accept_length": figures, "metric": figures}
    table = found_table(document({"name": "random", "draws": 1, "seed": 0, "sizes": [size]}))
    assert table.rows == (
        ("2", "1 of 4,060", "1.500", "-", "1.500", "1.500", "1.5000", "-", "1.5000", "1.5000"),
    )
    assert len(table.columns) == len(table.rows[0])


def test_shortgpt_lists_blocks_from_the_least_influential():
    table = found_table(document({"name": "shortgpt", "influence": [0.5, 0.25], "order": [1, 0]}))
    assert table.rows == (("1", "1", "0.2500"), ("2", "0", "0.5000"))


def test_sleb_begins_with_dense_and_writes_no_infinite_perplexity():
    path = [{"skip": [], "log_perplexity": 0.0}, {"skip": [3], "log_perplexity": 1e4}]
    table = found_table(document({"name": "sleb", "path": path}))
    assert table.rows == (("dense", "0.0000", "1.000"), ("3", "10000.0000", "over e^700"))


def test_beam_names_a_few_of_many_sets():
    levels = [{"level": 2, "evaluated": 60, "kept": [[1, b] for b in range(2, 10)]}]
    table = found_table(document({"name": "beam", "width": 8, "levels": levels}))
    assert table.rows == (("2", "60", "8", "{1,2} {1,3} {1,4} {1,5} {1,6} {1,7} and 2 more"),)


@pytest.mark.parametrize("name", ["shortgpt", "sleb", "random", "beam", "greedy"])
def test_job_that_ended_before_anything_was_found_has_an_empty_table(name):
    assert found_table(document({"name": name})).rows == ()


@pytest.mark.parametrize("found", [None, {}, {"name": "accept_only", "looks_at": "accept length"}])
def test_others_have_no_table(found):
    assert found_table(document(found)) is None
