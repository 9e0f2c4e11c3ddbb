"""What heads draft along with a run equals what comes of running everything anew, without any cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.request import Request
from skipmap.decoding.run import Run
from skipmap.decoding.speculative import decode
from skipmap.drafts.heads import memory
from skipmap.drafts.shapes import Shape
from skipmap.skipset import SkipSet
from skipmap.target import steps
from skipmap.tree import ROOT, TokenTree
from tests.drafts.heads import published
from tests.drafts.heads.plain import Oracle, Path, PlainEagle, PlainEagle3

SKIPS = [SkipSet(), SkipSet((0, 2, 3)), SkipSet((1, 4, 5))]
LIMITS = (5, 12, 24)
"""Of the prompts' answers: rows leave one after the other, the last of them get a batch of their own."""


@pytest.fixture(params=["row by row", "on a grid"])
def _attention(request, monkeypatch) -> None:
    if request.param == "on a grid":
        monkeypatch.setattr(steps, "ALONE_ON", frozenset())


def paths(tree: TokenTree) -> list[Path]:
    found: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(() if parent == ROOT else found[parent]), token))
    return found


def child_counts(shape: Shape) -> Mapping[Path, int]:
    """How many children each path of ranks has."""
    counts: dict[Path, int] = {}
    ranks: list[Path] = []
    for parent, rank in zip(shape.parents, shape.ranks, strict=True):
        above = () if parent == ROOT else ranks[parent]
        ranks.append((*above, rank))
        counts[above] = counts.get(above, 0) + 1
    return counts


@pytest.fixture
def oracle_of(tiny_model, without_blocks) -> Callable[..., Oracle]:
    """The oracle of a request, on the plain model without the skipped blocks."""

    def build(family: str, head: PlainEagle | PlainEagle3, taps: tuple[int, ...] | None, context) -> Oracle:
        skip = context.row.skip
        model = without_blocks(tiny_model(family), skip)
        seen: list[Tensor] = []
        modules = [*model.base_model.layers, model.base_model.norm]
        hooks = [
            module.register_forward_pre_hook(lambda _, args: seen.append(args[0][0])) for module in modules
        ]
        final = model.base_model(torch.tensor([context.tokens[:-1]])).last_hidden_state[0]
        for hook in hooks:
            hook.remove()
        states = final
        if taps is not None:
            # Below block b lie those of the kept blocks that come before it.
            states = torch.cat([seen[sum(k not in skip for k in range(b))] for b in taps], -1)
        return Oracle(
            head, model.get_input_embeddings(), model.get_output_embeddings(), states, context.tokens[1:]
        )

    return build


@pytest.fixture
def run(recorded, make_rule, repeating_prompts) -> Callable[..., list]:
    """Proposals of a draft while a run accepts much of other trees."""

    def record(target, draft, temperature: float = 0.0) -> list:
        requests = [
            Request(prompt, make_rule(limit), DecodeOptions(limit, temperature=temperature, seed=1))
            for _ in SKIPS
            for prompt, limit in zip(repeating_prompts, LIMITS, strict=True)
        ]
        options = DecodeOptions(max(LIMITS), temperature=temperature, seed=1)
        plain = decode(target, SKIPS, repeating_prompts, None, make_rule(max(LIMITS)), options)
        texts = {
            skip: [[*p, *a.token_ids] for p, a in zip(repeating_prompts, answers, strict=True)]
            for skip, answers in zip(SKIPS, plain, strict=True)
        }
        wrapper = recorded(draft, texts)
        decoding = Run(target, SKIPS, repeating_prompts, wrapper, requests)
        while decoding.alive:
            decoding.step()
        accepted = [count for answer in decoding.generations() for count in answer.counts.accepted]
        assert set(accepted) == {0, 1, 2, 3}
        return wrapper.proposals

    return record


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3"])
@pytest.mark.usefixtures("_attention")
def test_trees_equal_those_of_whole_sequences(name, family, tiny_target, make, oracle_of, run, monkeypatch):
    # Prompts are read in several forwards.
    monkeypatch.setattr(memory, "FED_AT_ONCE", {"cpu": 40})
    target = tiny_target(family)
    draft = make(name, target)
    proposals = run(target, draft)
    head = PlainEagle3(published.eagle3()) if name == "eagle3" else PlainEagle(published.eagle())
    taps = (2, 3, 3) if name == "eagle3" else None
    assert len(proposals) > 40
    for proposal in proposals:
        context, found = proposal.context, paths(proposal.tree)
        oracle = oracle_of(family, head, taps, context)
        if name == "eagle":
            expected = oracle.fixed(child_counts(draft.levels.shape), 16)
        else:
            expected = oracle.dynamic(9, 2, 3, context.remaining)
        assert {path for path in found if len(path) <= context.remaining} == {
            path for path in expected if len(path) <= context.remaining
        }
        assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("eagle", {"max_nodes": 5, "max_depth": 2}),
        ("eagle2", {"top_k": 1, "depth": 4}),
        ("eagle2", {"depth": 0, "top_k": 4}),
        ("eagle2", {"total_tokens": 40, "depth": 3, "top_k": 4}),
    ],
    ids=["shallow", "chain", "no forward", "wide"],
)
def test_sizes_can_be_chosen(name, params, tiny_target, make, oracle_of, run):
    target = tiny_target("llama")
    draft = make(name, target, **params)
    proposals = run(target, draft)
    sizes = [1 + len(proposal.tree) for proposal in proposals]
    assert max(sizes) == draft.tree_size
    for proposal in proposals[::7]:
        oracle = oracle_of("llama", PlainEagle(published.eagle()), None, proposal.context)
        if name == "eagle":
            expected = oracle.fixed(child_counts(draft.levels.shape), 16)
        else:
            p = draft.params
            expected = oracle.dynamic(p.total_tokens, p.depth, p.top_k, proposal.context.remaining)
        assert set(paths(proposal.tree)) == expected


def test_a_drawn_tree_says_what_its_children_were_drawn_from(tiny_target, make, oracle_of, run):
    target = tiny_target("llama")
    draft = make("eagle", target)
    proposals = run(target, draft, 0.7)
    found = set()
    for proposal in proposals[::3]:
        oracle = oracle_of("llama", PlainEagle(published.eagle()), None, proposal.context)
        nodes = {ROOT: ()} | dict(enumerate(paths(proposal.tree)))
        assert set(proposal.tree.drawn_from) == set(proposal.tree.children)
        for node, q in proposal.tree.drawn_from.items():
            scores = oracle.head.scores(oracle.feature(nodes[node]), oracle.output)
            expected = (torch.tensor([scores[token] for token in range(97)]) / 0.7).softmax(-1)
            torch.testing.assert_close(q, expected, rtol=1e-3, atol=1e-5)
        found.add(proposal.tree.tokens)
    assert len(found) > 10


def test_normed_residual(tmp_path, tiny_target, make, oracle_of, run):
    target, tensors = tiny_target("llama"), published.eagle3(3)
    config = {"draft_vocab_size": 40, "norm_before_residual": True}
    draft = make("eagle3", target, head=published.write(tmp_path, tensors, config))
    proposals = run(target, draft)
    for proposal in proposals[::9]:
        oracle = oracle_of("llama", PlainEagle3(tensors, True), (2, 3, 3), proposal.context)
        assert set(paths(proposal.tree)) == oracle.dynamic(9, 2, 3, proposal.context.remaining)


def test_a_head_that_was_not_asked_for_a_while_catches_up(tiny_target, make, oracle_of, run):
    target = tiny_target("llama")
    draft = make("samd", target, min_match=1, max_positions=4)
    proposals = run(target, draft)
    chains = trees = 0
    for proposal in proposals:
        if proposal.tree.is_chain:
            chains += 1
            continue
        trees += 1
        oracle = oracle_of("llama", PlainEagle(published.eagle()), None, proposal.context)
        assert set(paths(proposal.tree)) == oracle.dynamic(9, 2, 3, proposal.context.remaining)
    assert min(chains, trees) > 5


@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3", "medusa"])
def test_asked_twice_it_answers_the_same(name, tiny_target, make, make_rule, repeating_prompts):
    target = tiny_target("llama")
    draft = make(name, target)
    requests = [Request(prompt, make_rule(8), DecodeOptions(8)) for prompt in repeating_prompts]
    decoding = Run(target, [SkipSet()], repeating_prompts, draft, requests)
    places = torch.tensor(range(3))
    for _ in range(3):
        rows = decoding.rows
        assert decoding._propose(rows, places) == decoding._propose(rows, places)
        decoding.step()
        if decoding.alive < 3:
            break


def test_requests_that_rest_stay_with_the_others(tiny_target, make, make_rule, monkeypatch):
    target, limits = tiny_target("llama"), [5, 5, 40, 40, 40, 40, 40]
    draft, states = make("samd", target), [make("samd", target).fresh() for _ in limits]
    prompts = [[place, 20, 30] for place in range(7)]
    requests = [
        Request(prompt, make_rule(limit), DecodeOptions(limit), state)
        for prompt, limit, state in zip(prompts, limits, states, strict=True)
    ]
    decoding, turn = Run(target, [SkipSet()], prompts, draft, requests), [0]
    # One request after the other drafts a tree, and all others meanwhile chains.
    monkeypatch.setattr(
        draft, "_chain", lambda state, _: None if state is states[turn[0] % 7] else TokenTree.chain([1])
    )
    for step in range(12):
        turn[0] = step
        decoding.step()
        going = [state for state, row in zip(states, decoding.rows, strict=True) if row.finish is None]
        assert len({id(state.tree.batch) for state in going}) == 1
    assert len(going) == 5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3"])
def test_a_head_that_overflows_does_no_harm(
    name, temperature, tiny_target, make, make_rule, repeating_prompts, monkeypatch
):
    target, options = tiny_target("llama"), DecodeOptions(12, temperature=temperature)
    draft = make(name, target, **({"children": "likeliest"} if name == "eagle" else {}))
    whole = draft.engine.logits

    def broken(features: Tensor) -> Tensor:
        scores = whole(features)
        scores[1::2] = torch.nan
        return scores

    monkeypatch.setattr(draft.engine, "logits", broken)
    plain = decode(target, SKIPS, repeating_prompts, None, make_rule(12), options)
    found = decode(target, SKIPS, repeating_prompts, draft, make_rule(12), options)
    assert [[a.token_ids for a in row] for row in found] == [[a.token_ids for a in row] for row in plain]
