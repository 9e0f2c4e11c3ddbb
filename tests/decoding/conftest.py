"""Rules, prompts and scripted drafts for decoding with tiny models, whose tokens are their own numbers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from transformers import PreTrainedModel

from skipmap.decoding.options import DecodeOptions, Generation
from skipmap.decoding.speculative import decode
from skipmap.decoding.stopping import StopRule
from skipmap.drafts.base import DraftContext, Needs, StepOutcome
from skipmap.skipset import SkipSet
from skipmap.target.model import TargetModel
from skipmap.tree import TokenTree


@dataclass
class Script:
    """State of one answer: trees to propose in turn, then nothing; and what the draft was shown."""

    trees: list[TokenTree]
    contexts: list[DraftContext] = field(default_factory=list)
    outcomes: list[StepOutcome] = field(default_factory=list)


@dataclass
class Scripted:
    """Draft that follows the script of each answer."""

    needs: Needs = field(default_factory=Needs)
    tree_size: int = 32
    replayable: bool = False

    def script(self, trees: Sequence[TokenTree]) -> Script:
        return Script(list(trees))

    def propose(self, state: Script, context: DraftContext) -> TokenTree:
        state.contexts.append(replace(context, tokens=list(context.tokens)))
        return state.trees.pop(0) if state.trees else TokenTree()

    def observe(self, state: Script, outcome: StepOutcome) -> None:
        state.outcomes.append(outcome)


@dataclass(frozen=True)
class Story:
    """A target, a skip set, a prompt, and the first tokens of its answer, none of which repeats."""

    target: TargetModel
    skip: SkipSet
    prompt: list[int]
    text: list[int]


@pytest.fixture(scope="session")
def make_rule() -> Callable[..., StopRule]:
    """Stop rule over texts such as ``"12 7 30"``."""

    def rule(limit: int = 24, end: Sequence[int] = (), stop: Sequence[str] = ()) -> StopRule:
        return StopRule(lambda tokens: " ".join(map(str, tokens)), frozenset(end), stop, limit)

    return rule


@pytest.fixture(scope="session")
def repeating_prompts() -> list[list[int]]:
    """Prompts in which drafts find something to copy."""
    rng = random.Random(0)
    return [[rng.randrange(97) for _ in range(length)] * 2 for length in (3, 9, 14)]


@pytest.fixture(scope="session")
def random_skips() -> Callable[[int, int], list[SkipSet]]:
    """Random skip sets of six blocks in order, some of them with block 0."""

    def draw(seed: int, count: int) -> list[SkipSet]:
        rng = random.Random(seed)
        drawn = {SkipSet.of(rng.sample(range(6), rng.randrange(6))) for _ in range(count)}
        return sorted(drawn | {SkipSet.of([0]), SkipSet.of([0, 2])})

    return draw


@pytest.fixture(scope="session")
def hugging_face_greedy() -> Callable[[PreTrainedModel, Sequence[int], int], list[int]]:
    """New tokens of plain greedy generation."""

    def generate(model: PreTrainedModel, prompt: Sequence[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=count,
            pad_token_id=0,
        )
        return out[0, len(prompt) :].tolist()

    return generate


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    """The draft that follows scripts."""
    return Scripted


@pytest.fixture(scope="session")
def story(tiny_target, make_rule) -> Story:
    """The first such answer that is found."""
    target, skip = tiny_target("llama"), SkipSet.of([1])
    prompts = [[a, a + 1, a + 2, a + 3] for a in range(60)]
    answers = decode(target, [skip], prompts, None, make_rule(12), DecodeOptions(12))[0]
    for prompt, answer in zip(prompts, answers, strict=True):
        if len(set(answer.token_ids)) == 12:
            return Story(target, skip, prompt, list(answer.token_ids))
    raise AssertionError("every answer repeats itself")


@pytest.fixture(scope="session")
def tell(story, make_rule) -> Callable[..., list[tuple[Generation, Script]]]:
    """Decode the story in a batch, each time with trees of its own."""

    def run(
        *rows: Sequence[TokenTree], limit: int = 12, end: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> list[tuple[Generation, Script]]:
        draft = Scripted()
        scripts = [draft.script(trees) for trees in rows]
        rule, options = make_rule(limit, end, stop), DecodeOptions(max_new_tokens=limit)
        prompts = [story.prompt] * len(rows)
        answers = decode(story.target, [story.skip], prompts, draft, rule, options, scripts)
        return list(zip(answers[0], scripts, strict=True))

    return run


@pytest.fixture(scope="session")
def p_value() -> Callable[[Iterable[Hashable], Mapping[Hashable, float]], float]:
    """How well outcomes fit their exact probabilities: Pearson's chi-square, cells with less than 5 put together."""

    def fit(outcomes: Iterable[Hashable], exact: Mapping[Hashable, float]) -> float:
        found = Counter(outcomes)
        total = sum(found.values())
        assert abs(sum(exact.values()) - 1) < 1e-6
        if any(exact.get(outcome, 0) == 0 for outcome in found):
            return 0.0
        cells: list[tuple[float, int]] = []
        wanted, seen = 0.0, 0
        for outcome, probability in sorted(exact.items(), key=lambda item: item[1]):
            wanted, seen = wanted + total * probability, seen + found[outcome]
            if wanted >= 5:
                cells.append((wanted, seen))
                wanted, seen = 0.0, 0
        cells.append((wanted, seen))
        cells = [cell for cell in cells if cell[0]]
        statistic = sum((seen - wanted) ** 2 / wanted for wanted, seen in cells)
        half = torch.tensor([len(cells) - 1, statistic], dtype=torch.float64) / 2
        return float(torch.special.gammaincc(half[0], half[1]))

    return fit
