"""The schema as it is against the one that this version works with.

A revision tells which migrations ran, not what was in them: a database of an unfinished version may bear the number of
a finished one, and would fail later, in the middle of something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from models.tables import METADATA
from skipmap.errors import SkipmapError

_MOST_NAMED = 5
_WAYS_OUT = "use the version that made it, restore a backup, or start with an empty database"


class WrongSchema(SkipmapError):
    """The database is no earlier state of this version's; the message says what is amiss and what can be done."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: {_WAYS_OUT}")


def check_schema(connection: Connection) -> None:
    """Raise WrongSchema where tables, columns or what is unique are not those of this version, all told at once.

    Tables, columns and indexes of somebody else are nobody's business as long as rows can be stored.
    """
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    found: dict[str, list[str]] = {}
    for kind, name in _differences(compare_metadata(context, METADATA)):
        found.setdefault(kind, []).append(name)
    if not found:
        return
    told = "; ".join(f"{kind}: {_listed(sorted(names))}" for kind, names in sorted(found.items()))
    raise WrongSchema(
        f"the database says that it is at revision {context.get_current_revision()}, but its tables are not those of "
        f"that revision ({told})"
    )


def _differences(changes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Kind and place of what keeps the service from working, from what Alembic would change."""
    for change in changes:
        # What is to be modified comes as a list, for each column.
        for what, *about in change if isinstance(change, list) else [change]:
            match what:
                case "add_table":
                    yield "missing", f"table {about[0].name}"
                case "add_column":
                    yield "missing", f"{about[1]}.{about[2].name}"
                case "add_constraint":
                    columns = ", ".join(column.name for column in about[0].columns)
                    yield "missing", f"unique {about[0].table.name} ({columns})"
                case "modify_type" | "modify_nullable":
                    yield "different", f"{about[1]}.{about[2]}"
                case "remove_column" if not about[2].nullable and about[2].server_default is None:
                    yield "in the way", f"{about[1]}.{about[2].name}"


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
