"""What a skip set is expected to gain in decoding speed."""

from __future__ import annotations


def expected_speedup(dense_accept: float, accept: float, cost_ratio: float | None) -> float | None:
    """Ratio of accept lengths over cost ratio; None without a cost or a dense accept length."""
    if not cost_ratio or not dense_accept:
        return None
    return accept / dense_accept / cost_ratio
