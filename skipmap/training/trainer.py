"""Trainer: teach a head in steps that can be broken off at any time and taken up again.

What comes in which step is a function of (seed, texts, step) alone, so a run that was interrupted ends with the same
head as one that was not, up to the rounding of the machine.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from skipmap.training.claim import damaged
from skipmap.training.lessons import Lesson, Loss, Objective, starts
from skipmap.training.states import StateFile
from skipmap.training.texts import Text

WARM_UP_SHARE = 0.05
LAST_RATE = 0.1
"""Learning rate at the end, as a share of the highest."""

WEIGHT_DECAY = 0.01
GRADIENT_LIMIT = 0.5
RECENT_STEPS = 20
SAVE_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """How long and how fast to teach.

    ``batch_tokens``: taught tokens of a step, about; ``learning_rate``: the highest, after a warm-up and before a
    cosine decay.
    """

    epochs: int = 8
    batch_tokens: int = 512
    learning_rate: float = 2e-3
    seed: int = 0


@dataclass(frozen=True)
class Lap:
    """How the teaching stands. ``loss`` and ``right`` (share of likeliest tokens that are right) over recent steps."""

    step: int
    steps: int
    epoch: int
    loss: float
    right: float
    positions_per_second: float


OnLap = Callable[[Lap], None]


_Recent = deque[tuple[Loss, float]]
"""Losses of the last steps, with the seconds that each step took."""


class Trainer:
    """Teaches ``objective`` the ``texts``; keeps where it stands in ``folder``.

    Raises InvalidInput when what the folder holds is damaged.
    """

    def __init__(
        self, objective: Objective, texts: Sequence[Text], states: StateFile, plan: Plan, folder: Path
    ) -> None:
        self._objective, self._texts, self._states, self._plan = objective, texts, states, plan
        self._starts = starts(texts)
        self._file = folder / "progress.pt"
        self._steps = [batch for epoch in range(plan.epochs) for batch in self._epoch(epoch)]
        taught = [p for p in objective.taught.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(
            taught, lr=plan.learning_rate, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY
        )
        self._identity = asdict(plan) | {
            "texts": len(texts),
            "tokens": sum(len(text.tokens) for text in texts),
            "taught": {name: list(p.shape) for name, p in objective.taught.named_parameters()},
        }
        self.step = 0
        self._saved = time.monotonic()
        self._take_up()

    @property
    def steps(self) -> int:
        """Steps of the whole plan."""
        return len(self._steps)

    def run(self, told: OnLap = lambda lap: None, until: float = math.inf) -> bool:
        """Teach to the end, or until ``time.monotonic()`` passes ``until``; returns whether it came to the end."""
        recent: _Recent = deque(maxlen=RECENT_STEPS)
        device = next(self._objective.taught.parameters()).device
        self._objective.taught.train()
        try:
            while self.step < self.steps and time.monotonic() < until:
                began = time.perf_counter()
                for group in self._optimizer.param_groups:
                    group["lr"] = self._rate()
                lessons = [self._lesson(place, device) for place in self._steps[self.step]]
                generator = torch.Generator().manual_seed(self._plan.seed * 1_000_003 + self.step)
                loss = self._objective.loss(lessons, generator)
                self._optimizer.zero_grad(set_to_none=True)
                loss.value.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(self._objective.taught.parameters(), GRADIENT_LIMIT)
                self._optimizer.step()
                self.step += 1
                recent.append((replace(loss, value=loss.value.detach()), time.perf_counter() - began))
                told(self._lap(recent))
                if time.monotonic() - self._saved > SAVE_SECONDS:
                    self.save()
        finally:
            self.save()
            self._objective.taught.eval()
        return self.step == self.steps

    def save(self) -> None:
        """Write where the teaching stands; a cut write leaves the last one."""
        part = self._file.with_suffix(".part")
        torch.save(
            {
                "identity": self._identity,
                "step": self.step,
                "taught": self._objective.taught.state_dict(),
                "optimizer": self._optimizer.state_dict(),
            },
            part,
        )
        os.replace(part, self._file)
        self._saved = time.monotonic()

    def _take_up(self) -> None:
        if not self._file.exists():
            return
        try:
            stored: dict[str, Any] = torch.load(self._file, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception:
            # A file that is not as it was written fails in many ways.
            raise damaged(self._file, "cannot be read") from None
        if stored["identity"] != self._identity:
            raise damaged(self._file, "is not of the texts beside it")
        self._objective.taught.load_state_dict(stored["taught"])
        self._optimizer.load_state_dict(stored["optimizer"])
        self.step = int(stored["step"])

    def _epoch(self, epoch: int) -> Iterator[list[int]]:
        """Places of the texts of each step; texts of alike length together, so that little is padding."""
        rng = random.Random(f"{self._plan.seed}:{epoch}")
        sizes = [len(text.tokens) - start for text, start in zip(self._texts, self._starts, strict=True)]
        usable = [place for place, size in enumerate(sizes) if size > 1]
        order = sorted(usable, key=lambda place: (len(self._texts[place].tokens) // 32, rng.random()))
        batches: list[list[int]] = [[]]
        room = self._plan.batch_tokens
        for place in order:
            if batches[-1] and sizes[place] > room:
                batches.append([])
                room = self._plan.batch_tokens
            batches[-1].append(place)
            room -= sizes[place]
        rng.shuffle(batches)
        return iter(batch for batch in batches if batch)

    def _lesson(self, place: int, device: torch.device) -> Lesson:
        text = self._texts[place]
        return Lesson(
            torch.tensor(text.tokens, device=device), self._states.of(place).to(device), self._starts[place]
        )

    def _rate(self) -> float:
        warm_up = max(1, round(WARM_UP_SHARE * self.steps))
        if self.step < warm_up:
            return self._plan.learning_rate * (self.step + 1) / warm_up
        done = (self.step - warm_up) / max(1, self.steps - warm_up)
        return self._plan.learning_rate * (LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))

    def _lap(self, recent: _Recent) -> Lap:
        weight = sum(loss.positions for loss, _ in recent)
        return Lap(
            step=self.step,
            steps=self.steps,
            epoch=1 + (self.step - 1) * self._plan.epochs // self.steps,
            loss=sum(float(loss.value) * loss.positions for loss, _ in recent) / weight,
            right=sum(loss.right * loss.positions for loss, _ in recent) / weight,
            positions_per_second=weight / sum(seconds for _, seconds in recent),
        )
