from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_the_sources_and_names_a_test(mutant):
    """Trying them takes minutes; that they have not been left behind shows at once."""
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    path, _, test = mutant.test.partition("::")
    name = test.partition("[")[0]
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_mutant_is_noticed():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "mutants.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
