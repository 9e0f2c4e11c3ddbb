from __future__ import annotations

import pytest
import torch

from skipmap.drafts.heads.config import EagleConfig
from skipmap.training import eagle as module
from skipmap.training.eagle import EagleObjective
from skipmap.training.lessons import Lesson
from skipmap.training.output import FrozenOutput
from skipmap.training.texts import Text

TEXT = Text("qa", "calibration", (9, 2, 4, 7), (4, 30, 11))


@pytest.fixture
def objective(loaded) -> EagleObjective:
    torch.manual_seed(0)
    config = EagleConfig.of_target(loaded.model.model.config)
    sizes = torch.logspace(-1, 1, config.hidden_size)
    return EagleObjective(config, loaded.model, FrozenOutput(loaded.model, [TEXT]), sizes)


def lesson(width: int, start: int) -> Lesson:
    generator = torch.Generator().manual_seed(1)
    return Lesson(torch.tensor(TEXT.tokens), torch.randn(7, width, generator=generator), start)


def test_the_published_head_does_what_was_taught(objective) -> None:
    width = objective.taught.config.hidden_size
    embeddings, features = torch.randn(2, 1, 5, width, generator=torch.Generator().manual_seed(2))
    taught = objective._through(embeddings, features)
    torch.testing.assert_close(objective.head()(embeddings, features), taught, rtol=1e-4, atol=1e-4)


def test_padding_and_untaught_places_add_nothing(objective, monkeypatch) -> None:
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "OWN_SHARE", 0.0)
    width = objective.taught.config.hidden_size
    whole = lesson(width, 4)
    alone = objective.loss([whole], torch.Generator())
    assert alone.positions == 3
    cut = Lesson(whole.tokens[:6], whole.states[:6], 4)
    both = objective.loss([whole, cut], torch.Generator())
    assert both.positions == 5
    shorter = objective.loss([cut], torch.Generator())
    expected = (3 * alone.value + 2 * shorter.value) / 5
    torch.testing.assert_close(both.value, expected, rtol=1e-4, atol=1e-5)


def test_own_features_enter_where_they_were_predicted_for(objective, monkeypatch) -> None:
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "OWN_SHARE", 1.0)
    entered: list[torch.Tensor] = []
    through = objective._through

    def record(embeddings: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        entered.append(features.detach())
        return through(embeddings, features)

    monkeypatch.setattr(objective, "_through", record)
    example = lesson(objective.taught.config.hidden_size, 4)
    objective.loss([example], torch.Generator())
    first, second = entered
    torch.testing.assert_close(first[0], example.states[:-1])
    torch.testing.assert_close(second[0, 0], example.states[0])
    predicted = through(loaded_embeddings(objective, example), first).detach()
    torch.testing.assert_close(second[0, 1:], predicted[0, :-1])


def loaded_embeddings(objective: EagleObjective, example: Lesson) -> torch.Tensor:
    return objective._embed(example.tokens[None, 1:]).float()
