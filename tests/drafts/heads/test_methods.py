from __future__ import annotations

import pytest
import torch

from skipmap.drafts.base import DraftContext, Needs, Resources, StepOutcome
from skipmap.drafts.registry import check_params, make_draft
from skipmap.errors import InvalidInput
from skipmap.tree import TokenTree
from tests.drafts.heads.published import H


@pytest.fixture
def made(tiny_target, heads):
    """A draft as it is by default, with its head."""
    target = tiny_target("llama")
    return lambda name, **params: make_draft(name, {"head": heads[name]} | params, Resources(target=target))


@pytest.mark.parametrize(
    ("name", "params", "size"),
    [
        ("eagle", {}, 26),
        ("eagle", {"tree": "medusa_64"}, 64),
        ("eagle2", {}, 60),
        ("eagle2", {"depth": 0}, 11),
        ("eagle2", {"depth": 1, "top_k": 3}, 13),
        ("eagle2", {"depth": 0, "top_k": 32, "total_tokens": 20}, 20),
        ("eagle3", {}, 60),
        ("samd", {"tree": "eagle2"}, 63),
        ("samd", {"tree": "eagle2", "max_positions": 100}, 100),
    ],
)
def test_what_they_are(name, params, size, made):
    draft = made(name, **params)
    assert draft.tree_size == size
    assert (draft.replayable, draft.lossy, draft.remembers) == (False, False, name == "samd")
    if name == "eagle3":
        assert draft.needs == Needs(block_inputs=(2, 3, 3), prompt=True)
    else:
        assert draft.needs == Needs(final_hidden=True, prompt=True)


def test_defaults_are_the_published_ones():
    params = {name: check_params(name, {"head": "h"}) for name in ("eagle", "eagle2", "eagle3", "medusa")}
    assert (params["eagle"].tree, params["eagle"].children) == ("eagle_26", "drawn")
    for name, depth in (("eagle2", 5), ("eagle3", 7)):
        p = params[name]
        assert (p.total_tokens, p.depth, p.top_k) == (60, depth, 10)
    p = params["medusa"]
    assert (p.tree, p.acceptance, p.posterior_threshold, p.posterior_alpha) == (
        "medusa_64",
        "greedy",
        0.09,
        0.3,
    )
    p = check_params("samd", {"tree": "eagle2", "head": "h"})
    assert (p.total_tokens, p.depth, p.top_k, p.max_positions, p.min_match) == (63, 5, 8, 40, 5)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("eagle", {"tree": "oak"}),
        ("eagle", {"children": "some"}),
        ("eagle", {"head": ""}),
        ("eagle", {"revision": "a b"}),
        ("eagle2", {"total_tokens": 1}),
        ("eagle2", {"depth": -1}),
        ("eagle3", {"top_k": 0}),
        ("eagle3", {"tree": "eagle_26"}),
    ],
)
def test_bad_parameters_are_named(name, params):
    with pytest.raises(InvalidInput, match=rf"draft\.params\.{next(iter(params))}"):
        check_params(name, {"head": "h"} | params)


def test_fingerprint_is_that_of_all_files(made, heads, tmp_path, tiny_target):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("1 2 3")
    eagle, eagle2, eagle3 = (made(name).fingerprint for name in ("eagle", "eagle2", "eagle3"))
    assert eagle == eagle2 == made("samd", tree="eagle2").fingerprint
    resources = Resources(
        encode=lambda text: [int(word) for word in text.split()], target=tiny_target("llama")
    )
    both = make_draft("samd", {"tree": "eagle2", "head": heads["eagle"], "corpus": str(corpus)}, resources)
    alone = make_draft("samd", {"corpus": str(corpus)}, resources)
    assert len({eagle, eagle3, both.fingerprint, alone.fingerprint}) == 4
    assert len(both.fingerprint) == 64


@pytest.mark.parametrize("name", ["eagle2", "eagle3", "medusa"])
def test_a_forward_without_hidden_states_is_refused(name, made):
    draft = made(name)
    with pytest.raises(ValueError, match="needs the target's hidden states"):
        draft.observe(draft.fresh(), StepOutcome(TokenTree(), (), (1,), prompt=[1, 2]))


def test_forwards_of_the_head_are_reported_to_the_targets_hook(made, tiny_target, heads):
    reports = []
    target = tiny_target("llama")
    draft = make_draft("eagle2", {"head": heads["eagle2"], "depth": 2}, Resources(target=target))
    target.hook = reports.append
    state = draft.fresh()
    draft.observe(state, StepOutcome(TokenTree(), (), (1,), prompt=[1, 2], final_hidden=torch.randn(2, H)))
    draft.propose(state, DraftContext([1, 2, 1], remaining=9))
    # The prompt, and two levels of the tree.
    assert [(report.kind, report.rows, report.tokens) for report in reports] == [
        ("step", 1, 2),
        ("step", 1, 10),
        ("step", 1, 10),
    ]
