from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from models.base import clean, new_id


def test_ids_are_version_7_and_ascend():
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    first = UUID(ids[0])
    assert str(first) == ids[0]
    assert first.version == 7
    assert first.variant == "specified in RFC 4122"


def test_ids_of_threads_differ():
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda _: [new_id() for _ in range(2_000)], range(4)))
    assert len({one for batch in batches for one in batch}) == 8_000


def test_clean_leaves_only_what_a_text_column_holds():
    assert clean("a\0b") == "a\ufffdb"
    assert clean("half \ud83d") == "half ?"
    assert clean("fine ä") == "fine ä"
