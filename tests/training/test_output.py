from __future__ import annotations

import pytest
import torch

from skipmap.training.output import FrozenOutput


@pytest.mark.parametrize("packed", [True, False])
def test_logits_and_gradients_are_those_of_the_plain_layer(loaded, packed: bool, monkeypatch) -> None:
    if not packed:
        monkeypatch.setattr("skipmap.training.output.can_pack", lambda module: False)
    output = FrozenOutput(loaded.model)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, output.weight.shape[1], generator=generator, requires_grad=True)
    plain = hidden.detach().clone().requires_grad_(True)
    back = torch.randn(3, 5, output.weight.shape[0], generator=generator)
    (output(hidden) * back).sum().backward()
    (torch.nn.functional.linear(plain, output.weight) * back).sum().backward()
    torch.testing.assert_close(output(hidden), loaded.model.logits(hidden.detach()), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(hidden.grad, plain.grad, rtol=1e-4, atol=1e-4)
