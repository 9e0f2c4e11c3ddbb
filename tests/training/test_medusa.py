from __future__ import annotations

import torch

from skipmap.training.lessons import Lesson
from skipmap.training.medusa import MedusaObjective
from skipmap.training.output import FrozenOutput
from skipmap.training.texts import Text

TEXT = Text("qa", "calibration", (9, 2, 4, 7), (4, 30, 11))


def test_the_published_heads_do_what_was_taught(loaded) -> None:
    output = FrozenOutput(loaded.model, [TEXT])
    objective = MedusaObjective(loaded.model, output, heads=2, blocks=2)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in objective.taught.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    hidden = torch.randn(5, output.weight.shape[1], generator=generator)
    scores = objective.head()(hidden)
    untaught = torch.ones(len(output.weight), dtype=torch.bool)
    untaught[output.occurring] = False
    for head, taught in zip(scores, objective.taught, strict=True):
        expected = taught.scores(hidden, output.weight[untaught])
        found = torch.cat([head[:, output.occurring], head[:, untaught]], dim=-1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_each_head_is_asked_for_its_own_token(loaded) -> None:
    output = FrozenOutput(loaded.model, [TEXT])
    objective = MedusaObjective(loaded.model, output, heads=2, blocks=1)
    states = torch.randn(7, output.weight.shape[1], generator=torch.Generator().manual_seed(0))
    lesson = Lesson(torch.tensor(TEXT.tokens), states, 4)
    loss = objective.loss([lesson], torch.Generator().manual_seed(0))
    assert loss.positions == 2, "tokens 5 and 6 are two places further on than the state at 3 says"
    logits = torch.log_softmax(states @ output.weight.T, dim=-1)
    wanted = torch.tensor(TEXT.tokens)
    # New heads are the target's own layer, over all of a small vocabulary.
    first = -(logits[3, wanted[5]] + logits[4, wanted[6]]) / 2
    second = -logits[3, wanted[6]]
    torch.testing.assert_close(loss.value, first + 0.8 * second, rtol=1e-4, atol=1e-4)
