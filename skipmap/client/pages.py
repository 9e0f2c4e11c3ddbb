"""Lists of the API, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from skipmap.client.connection import Call, Connection
from skipmap.client.documents import Page
from skipmap.client.problems import read

PAGE_ITEMS = 100
Item = TypeVar("Item", bound=BaseModel)


def pages(
    connection: Connection, model: type[Item], path: str, params: Mapping[str, Any], limit: int | None
) -> Iterator[Item]:
    """Items of a list, ``limit`` at most; a page is asked for when its first item is."""
    cursor, left = None, limit
    while left is None or left > 0:
        size = PAGE_ITEMS if left is None else min(left, PAGE_ITEMS)
        call = Call("GET", path, {**params, "limit": size, "cursor": cursor})
        page = read(Page[model], connection.send(call))  # type: ignore[valid-type]
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
        left = None if left is None else left - len(page.items)
