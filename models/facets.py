"""Facets: which targets, drafts and domains jobs have, to choose from in a list of jobs."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

_MOST = 100
# From one value to the next by the index on it, however many jobs have each.
_DISTINCT = """
    WITH RECURSIVE found AS (
        (SELECT {column} AS value FROM jobs ORDER BY {column} LIMIT 1)
        UNION ALL
        SELECT (SELECT {column} FROM jobs WHERE {column} > found.value ORDER BY {column} LIMIT 1)
        FROM found WHERE found.value IS NOT NULL
    )
    SELECT value FROM found WHERE value IS NOT NULL LIMIT :most
"""
_COLUMNS = ("target", "draft", "domain", "strategy")
_QUERIES = tuple(text(_DISTINCT.format(column=name)) for name in _COLUMNS)


@dataclass(frozen=True)
class Facets:
    """Values that some job has, in order; the first hundred of each kind."""

    targets: tuple[str, ...]
    drafts: tuple[str, ...]
    domains: tuple[str, ...]
    strategies: tuple[str, ...]


def facets(session: Session) -> Facets:
    """What the jobs that are stored can be told apart by."""
    found = (session.scalars(query, {"most": _MOST}) for query in _QUERIES)
    return Facets(*(tuple(values) for values in found))
