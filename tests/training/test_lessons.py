from __future__ import annotations

import torch

from skipmap.training.lessons import padded, starts
from skipmap.training.texts import Text


def test_what_all_prompts_of_a_domain_begin_with_is_not_taught() -> None:
    texts = [
        Text("a", "calibration", (1, 2, 3, 4), (9,)),
        Text("b", "calibration", (7, 8), (9,)),
        Text("a", "invented", (1, 2, 5), (9,)),
        Text("c", "invented", (3,), (9,)),
        Text("c", "invented", (4,), (9,)),
    ]
    assert starts(texts) == [2, 2, 2, 1, 1], (
        "and the first token of all is never taught: no state is before it"
    )


def test_padding_is_zeros_behind() -> None:
    assert padded(torch.ones(2, 3), 4).tolist() == [[1] * 3] * 2 + [[0] * 3] * 2
