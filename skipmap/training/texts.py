"""Texts that heads learn from: prompts of a domain with the target's own answers.

Prompts are the calibration part's; of held-out items nothing is seen. Few prompts make a poor head, so the target may
invent more in their style: it continues lists of them, and answers what it has written.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from skipmap.calibration.items import Item
from skipmap.calibration.shots import render_user
from skipmap.decoding.options import DecodeOptions
from skipmap.decoding.speculative import decode
from skipmap.decoding.stopping import StopRule
from skipmap.errors import InvalidInput
from skipmap.profiling.job import Job
from skipmap.profiling.store import write_atomically
from skipmap.skipset import SkipSet
from skipmap.training.claim import damaged

SHOWN_PROMPTS = 3
"""Prompts of a list that the target continues."""

SEPARATOR = "\n\n---\n\n"
AT_ONCE = 48
"""Answers that are decoded together; a text never depends on it but for rounding."""

INVENTION_TOKENS = 320
WARM = 0.8
"""Temperature at which prompts are invented."""

Origin = Literal["calibration", "invented"]
OnText = Callable[[int], None]


@dataclass(frozen=True)
class Text:
    """A prompt and its answer as tokens, [prompt tokens] and [answer tokens], EOS included where it was emitted."""

    domain: str
    origin: Origin
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and answer."""
        return self.prompt + self.answer


def write_texts(
    file: Path, jobs: Sequence[Job], wanted: int, seed: int, told: OnText = lambda done: None
) -> list[Text]:
    """``wanted`` texts of each job's domain, more where it has more calibration prompts, in a JSON Lines file.

    What the file holds already is kept. ``told`` hears how many texts there are after each batch. Raises InvalidInput
    when the target, asked over and over, writes no usable prompt, or when the file is damaged.
    """
    texts = read_texts(file)
    for job in jobs:
        mine = sum(text.domain == job.spec.domain.name for text in texts)
        for batch in _batches(job, mine, wanted, seed):
            with file.open("a", encoding="utf-8") as out:
                # How many of the batch follow, to tell a batch that was cut off: what comes next depends on whole ones.
                left = range(len(batch) - 1, -1, -1)
                rows = (asdict(text) | {"left": n} for text, n in zip(batch, left, strict=True))
                out.writelines(json.dumps(row) + "\n" for row in rows)
            texts += batch
            told(len(texts))
    return texts


def read_texts(file: Path) -> list[Text]:
    """Texts of a file up to the last batch that was written whole, to which it is cut; none where there is no file.

    Raises InvalidInput naming a line that is no text.
    """
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        del lines[-1]
    found, whole = [], 0
    for number, line in enumerate(lines, start=1):
        try:
            r = json.loads(line)
            found.append(Text(r["domain"], r["origin"], tuple(r["prompt"]), tuple(r["answer"])))
            whole = whole if r["left"] else number
        except (ValueError, LookupError, TypeError):
            raise damaged(file, f"has no text in line {number}") from None
    kept = "".join(lines[:whole])
    if len(kept.encode()) != file.stat().st_size:
        write_atomically(file, kept)
    return found[:whole]


def _batches(job: Job, done: int, wanted: int, seed: int) -> Iterator[list[Text]]:
    """Batches of new texts: each calibration prompt greedily, then invented ones; a pure function of what is done."""
    subject, items = job.subject, job.data.calibration
    own = [subject.prompt(item) for item in items]
    while done < len(own):
        part = own[done : done + AT_ONCE]
        yield _answered(job, "calibration", part, 0)
        done += len(part)
    fruitless = 0
    while done < wanted:
        prompts = _invent(job, seed, done + fruitless)[: wanted - done]
        fruitless = 0 if prompts else fruitless + AT_ONCE
        if fruitless > 8 * AT_ONCE:
            raise InvalidInput(
                "--texts",
                f"{job.target.id} invents no prompts for {job.spec.domain.name}; give more of your own",
            )
        if prompts:
            batch = _answered(job, "invented", prompts, seed + done)
            yield batch
            done += len(batch)


def _answered(job: Job, origin: Origin, prompts: Sequence[Sequence[int]], seed: int) -> list[Text]:
    subject = job.subject
    # As the domain is served: greedy unless its spec says otherwise.
    options = replace(subject.options, seed=seed)
    answers = decode(
        subject.target, [SkipSet()], [list(p) for p in prompts], None, subject.stop_rule, options
    )[0]
    return [
        Text(job.spec.domain.name, origin, tuple(prompt), answer.token_ids)
        for prompt, answer in zip(prompts, answers, strict=True)
    ]


def _invent(job: Job, seed: int, place: int) -> list[list[int]]:
    """Prompts in the style of the calibration prompts, rendered; what all of those begin and end with stays."""
    subject, items = job.subject, job.data.calibration
    rng = random.Random(f"{seed}:{job.spec.domain.name}:{place}")
    told = [render_user(item, 0) for item in items]
    start, end = common_frame(told)
    lists = [rng.sample(told, min(SHOWN_PROMPTS, len(told))) for _ in range(AT_ONCE)]
    asked = [_encode(job, SEPARATOR.join([*shown, start])) for shown in lists]
    longest = max(len(_encode(job, text)) for text in told)
    room = min(INVENTION_TOKENS, longest + 16)
    rule = StopRule(subject.decode, subject.end_tokens, (SEPARATOR.strip(),), room)
    options = DecodeOptions(room, temperature=WARM, seed=seed + place)
    fitting = [tokens for tokens in asked if len(tokens) + room <= subject.target.context_length]
    if not fitting:
        return []
    written = decode(subject.target, [SkipSet()], fitting, None, rule, options)[0]
    bodies = [whole_sentences(out.text) if out.finish == "length" else out.text for out in written]
    found = [
        f"{start}{body.strip().removesuffix(end.strip()).rstrip()}{end}" for body in bodies if body.strip()
    ]
    usable = [text for text in dict.fromkeys(found) if text not in told]
    return [subject.prompt(Item(f"invented-{place}-{i}", (text,))) for i, text in enumerate(usable)]


def common_frame(texts: Sequence[str]) -> tuple[str, str]:
    """What all texts begin and end with, up to a space or line break; both empty for fewer than two."""
    if len(texts) < 2:
        return "", ""
    start = _common_start(texts)
    end = _common_start([text[::-1] for text in texts])[::-1]
    shortest = min(map(len, texts))
    if len(start) + len(end) >= shortest:
        return "", ""
    # Cut inside of a word, a start would favour the words that go on like it.
    start = re.sub(r"\S*$", "", start)
    return start, re.sub(r"^\S*", "", end)


def _common_start(texts: Sequence[str]) -> str:
    # What the first and the last in order share, all between them share too.
    first, last = min(texts), max(texts)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:same]


def whole_sentences(text: str) -> str:
    """The text up to its last full stop, question or exclamation mark; as it is without any."""
    last = max(text.rfind(mark) for mark in ".?!")
    return text[: last + 1] if last >= 0 else text


def _encode(job: Job, text: str) -> list[int]:
    return list(job.subject.tokenizer(text)["input_ids"])
