from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.target.spread import grid_width


@pytest.mark.parametrize(
    ("counts", "rows", "overhead", "width"),
    [
        # All on the grid: 4 * 24 = 96 tokens; the long one alone: 4 * 1 + 24 + 10 = 38.
        ([1, 1, 1, 24], 4, 10, 1),
        # 24 + 80 > 96 - 4.
        ([1, 1, 1, 24], 4, 80, 24),
        # No padding to save.
        ([24, 24, 24, 24], 4, 0.5, 24),
        # Nothing on the grid when it is mostly rows that take no part.
        ([3, 4], 100, 10, 0),
    ],
)
def test_width_by_hand(counts, rows, overhead, width):
    assert grid_width(counts, rows, overhead) == width


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(0, 30), st.floats(0, 100))
def test_no_other_width_is_cheaper(counts, idle, overhead):
    rows = len(counts) + idle

    def cost(width):
        return rows * width + sum(count + overhead for count in counts if count > width)

    chosen = grid_width(counts, rows, overhead)
    assert cost(chosen) <= min(cost(width) for width in range(max(counts) + 1)) + 1e-6
