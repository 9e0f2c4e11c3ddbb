from __future__ import annotations

import torch

from skipmap.training import output as module
from skipmap.training.output import FrozenOutput
from skipmap.training.texts import Text

TEXTS = [Text("qa", "calibration", (9, 2, 4), (4, 30))]


def test_scores_are_the_targets_logits(loaded) -> None:
    output = FrozenOutput(loaded.model, TEXTS)
    hidden = torch.randn(3, 5, output.weight.shape[1], generator=torch.Generator().manual_seed(0))
    expected = loaded.model.logits(hidden)[..., output.occurring]
    scores = output.scores(hidden, output.weight[output.occurring])
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


def test_tokens_that_occur_and_others(loaded, monkeypatch) -> None:
    output = FrozenOutput(loaded.model, TEXTS)
    assert output.occurring.tolist() == [2, 4, 9, 30]
    assert output.places(torch.tensor([30, 4])).tolist() == [3, 1]
    generator = torch.Generator().manual_seed(0)
    rest = set(range(loaded.model.vocabulary_size)) - {2, 4, 9, 30}
    assert set(output.others(generator).tolist()) == rest, "a small vocabulary is seen whole"
    monkeypatch.setattr(module, "OTHERS", 8)
    first, second = output.others(generator).tolist(), output.others(generator).tolist()
    assert first != second
    assert set(first + second) <= rest
    assert len(first) <= 8
