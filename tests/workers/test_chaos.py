from __future__ import annotations

import os
import random

import pytest

from tests.workers.chaos import run

SEED = "SKIPMAP_CHAOS_SEED"
"""Set it to repeat the faults of an earlier run."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_after_a_minute_of_faults_nothing_is_lost_doubled_or_overwritten(tmp_path):
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(1_000_000))
    assert run(tmp_path, 60.0, seed) == [], f"repeat with {SEED}={seed}"
