from __future__ import annotations

from skipmap.drafts.heads.medusa import MedusaHeads
from skipmap.drafts.heads.saving import save_medusa


def test_weights_can_be_read_by_whoever_may_read_the_configuration(tmp_path):
    folder = save_medusa(tmp_path / "heads", MedusaHeads(8, 16, heads=1))
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    assert len([*folder.iterdir()]) == 2
