"""The sample sets are well formed, and no item is a variation of another."""

from __future__ import annotations

import json
import re
from collections import Counter
from difflib import SequenceMatcher
from importlib.resources import files
from itertools import combinations
from typing import Any

import pytest

SAMPLES = files("skipmap.calibration") / "samples"
NAMES = ("summarization", "qa", "translation", "mmlu")
SUMMARIZE = "Summarize the following text in one or two sentences.\n\n"
TRANSLATE = "Translate German to English: "
QUESTION = "\n\nQuestion: "
ANSWER = "\nAnswer in a few words."


def load(name: str) -> list[dict[str, Any]]:
    """Items of one sample file."""
    text = (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.findall(r"\w+", text.casefold())


def body(prompt: str) -> str:
    """The prompt without the instruction that all items of its file share."""
    return prompt.removeprefix(SUMMARIZE).removeprefix(TRANSLATE).removesuffix(ANSWER).replace(QUESTION, "\n")


def jaccard(a: str, b: str, size: int) -> float:
    """Share of common word n-grams of two texts, in [0, 1]; a text shorter than ``size`` is one n-gram."""
    grams = []
    for text in (words(a), words(b)):
        grams.append({tuple(text[i : i + size]) for i in range(max(1, len(text) - size + 1))})
    return len(grams[0] & grams[1]) / len(grams[0] | grams[1])


def edit_similarity(a: str, b: str) -> float:
    """Larger difflib ratio of the two argument orders, since the ratio is not symmetric."""
    a, b = " ".join(words(a)), " ".join(words(b))
    return max(SequenceMatcher(None, x, y, autojunk=False).ratio() for x, y in ((a, b), (b, a)))


def near_duplicates(bodies: list[str], *, short: bool) -> list[tuple[int, int, str]]:
    """Pairs of indices that are variations of each other, with the reason.

    Long texts: 3-gram Jaccard of at least 0.3. ``short`` ones: 2-gram Jaccard of at least 0.35 or edit
    similarity of at least 0.75. Both: equal first four words.
    """
    found = []
    for i, j in combinations(range(len(bodies)), 2):
        a, b = bodies[i], bodies[j]
        overlap = jaccard(a, b, 2 if short else 3)
        if overlap >= (0.35 if short else 0.3):
            found.append((i, j, f"n-gram overlap {overlap:.2f}"))
        elif short and (ratio := edit_similarity(a, b)) >= 0.75:
            found.append((i, j, f"edit similarity {ratio:.2f}"))
        elif words(a)[:4] == words(b)[:4]:
            found.append((i, j, "same first four words"))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_near_duplicates(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    items = load(name)
    found = near_duplicates([body(item["prompt"]) for item in items], short=name in ("translation", "mmlu"))
    rate = len({index for i, j, _ in found for index in (i, j)}) / len(items)
    with capsys.disabled():
        print(f"\n{name}: near-duplicate rate {rate:.3f} ({len(found)} pairs, {len(items)} items)")
    assert rate == 0, [(items[i]["id"], items[j]["id"], why) for i, j, why in found]


@pytest.mark.parametrize(
    ("name", "swaps"),
    [
        ("summarization", {"Dora Finch": "Paul Meyer", "fog": "rain", "lighthouse": "windmill"}),
        ("qa", {"Tariq Olsen": "Mona Silva", "boat": "canoe", "fifteen": "twelve", "left": "north"}),
        ("translation", {"Der Bus nach Freiburg": "Ein Zug nach Hamburg", "zehn": "fünf"}),
        ("mmlu", {"A shirt": "One coat", "40": "60", "25": "50"}),
    ],
)
def test_planted_clone_is_reported(name: str, swaps: dict[str, str]) -> None:
    bodies = [body(item["prompt"]) for item in load(name)]
    original = next(index for index, text in enumerate(bodies) if next(iter(swaps)) in text)
    clone = bodies[original]
    for old, new in swaps.items():
        assert old in clone
        clone = clone.replace(old, new)
    found = near_duplicates([*bodies, clone], short=name in ("translation", "mmlu"))
    assert [(i, j) for i, j, _ in found] == [(original, len(bodies))]


def test_each_rule_reports_alone() -> None:
    same_start = ["One day in May the river froze.", "One day in May she bought shoes and left him for good."]
    respelled = ["catalogue numbering", "catalog numberings"]
    assert [why for *_, why in near_duplicates(same_start, short=False)] == ["same first four words"]
    assert [why[:4] for *_, why in near_duplicates(respelled, short=True)] == ["edit"]
    assert near_duplicates(respelled, short=False) == []
    assert [why[:6] for *_, why in near_duplicates(["a b c d e f", "x b c d e f"], short=False)] == ["n-gram"]


@pytest.mark.parametrize("name", NAMES)
def test_common_fields(name: str) -> None:
    items = load(name)
    assert len(items) >= 40
    assert [item["id"] for item in items] == [f"{name}-{number:03d}" for number in range(1, len(items) + 1)]
    allowed = {"id", "prompt", "choices", "answer"} if name == "mmlu" else {"id", "prompt", "reference"}
    for item in items:
        assert set(item) == allowed, item["id"]
        assert item["prompt"] == item["prompt"].strip(), item["id"]


def test_summarization_items() -> None:
    for item in load("summarization"):
        assert item["prompt"].startswith(SUMMARIZE)
        text, reference = body(item["prompt"]), item["reference"]
        assert 110 <= len(text.split()) <= 220, item["id"]
        assert 20 <= len(reference.split()) <= 45, item["id"]
        content = {word for word in words(reference) if len(word) > 3}
        assert len(content & set(words(text))) >= 0.55 * len(content), item["id"]


def test_qa_items() -> None:
    positions, questions = [], []
    for item in load("qa"):
        passage, _, question = item["prompt"].partition(QUESTION)
        assert question.endswith("?" + ANSWER), item["id"]
        assert 70 <= len(passage.split()) <= 130, item["id"]
        assert 1 <= len(item["reference"]) <= 4, item["id"]
        for answer in item["reference"]:
            assert answer.casefold() in passage.casefold(), (item["id"], answer)
            assert 1 <= len(answer.split()) <= 6, (item["id"], answer)
        positions.append(passage.casefold().index(item["reference"][0].casefold()) / len(passage))
        questions.append(question)
    assert len(set(questions)) == len(questions)
    thirds = Counter(int(3 * position) for position in positions)
    assert min(thirds[third] for third in range(3)) >= len(positions) / 6
    kinds = Counter(words(question)[0] for question in questions)
    assert {"who", "where", "when", "how", "what", "why"} <= set(kinds)


def test_translation_items() -> None:
    for item in load("translation"):
        assert item["prompt"].startswith(TRANSLATE)
        assert 8 <= len(body(item["prompt"]).split()) <= 28, item["id"]
        assert 5 <= len(item["reference"].split()) <= 40, item["id"]


def test_mmlu_items() -> None:
    items = load("mmlu")
    for item in items:
        assert 4 <= len(item["prompt"].split()) <= 40, item["id"]
        assert len(item["choices"]) == len(set(item["choices"])) == 4, item["id"]
        assert all(choice.strip() == choice != "" for choice in item["choices"]), item["id"]
    answers = [item["answer"] for item in items]
    counts = Counter(answers)
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) <= 1.25 * len(items) / 4
    for period in range(1, 9):
        assert answers[period:] != answers[:-period], period
