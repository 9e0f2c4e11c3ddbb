from __future__ import annotations

import pytest

from skipmap.maps.schema import MapDraft
from web.views.map_versions import lossy_words


@pytest.mark.parametrize(
    ("draft", "word"),
    [
        (MapDraft(method="sam"), "exact"),
        (MapDraft(method="bild", params={"model": "small"}), "lossy"),
        (MapDraft(method="medusa", params={"head": "h", "acceptance": "typical"}), "lossy"),
        (MapDraft(method="medusa", params={"head": "h", "acceptance": "greedy"}), "exact"),
        # A map knows of its own draft, whatever is installed here.
        (MapDraft(method="of another service", lossy=True), "lossy"),
        (MapDraft(method="of another service"), "not known"),
    ],
)
def test_pages_say_whether_a_draft_is_lossy(draft: MapDraft, word: str) -> None:
    assert lossy_words(draft).startswith(word)
