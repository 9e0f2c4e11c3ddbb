from __future__ import annotations

import torch

from skipmap.skipset import SkipSet
from skipmap.training import states as module
from skipmap.training.states import StateFile
from skipmap.training.texts import Text

TEXTS = [
    Text("d", "calibration", (5, 6, 7), (8, 9)),
    Text("d", "invented", (5,), (8, 9, 10, 11, 12, 13)),
    Text("d", "invented", (3, 4), (9,)),
]


def expected(loaded, text: Text) -> torch.Tensor:
    batch = loaded.model.prefill([SkipSet()], [text.tokens], slots=1, keep_hidden=True)
    return batch.prompt_hidden_of(0)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-3)


def test_states_are_the_targets_own(loaded, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "TOKENS_AT_ONCE", 16)
    told: list[tuple[int, int]] = []
    found = StateFile(tmp_path / "states", loaded.model, TEXTS, lambda *done: told.append(done))
    for place, text in enumerate(TEXTS):
        close(found.of(place), expected(loaded, text))
    assert told == [(12, 15), (15, 15)]


def test_a_file_grows_with_its_texts_and_mends_a_cut_one(loaded, tmp_path) -> None:
    file = tmp_path / "states"
    StateFile(file, loaded.model, TEXTS[:2])
    with file.open("r+b") as out:
        out.truncate(file.stat().st_size - 7)
    told: list[tuple[int, int]] = []
    found = StateFile(file, loaded.model, TEXTS, lambda *done: told.append(done))
    assert told == [(15, 15)]
    for place, text in enumerate(TEXTS):
        close(found.of(place), expected(loaded, text))
    told.clear()
    StateFile(file, loaded.model, TEXTS, lambda *done: told.append(done))
    assert told == []
