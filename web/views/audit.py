"""Entries of the audit as people read them: names where there are any, with the ids behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from models.audit import AuditEntry, AuditLine
from models.base import is_id
from models.names import names_of


@dataclass(frozen=True)
class Said:
    """A piece of text; ``id``: of what it names."""

    text: str
    id: str | None = None


@dataclass(frozen=True)
class AuditRow:
    """One entry. ``details``: names with pieces of text, one after the other."""

    entry: AuditEntry
    actor: str
    subject: Said
    details: tuple[tuple[str, tuple[Said, ...]], ...]


def audit_rows(session: Session, lines: Sequence[AuditLine]) -> list[AuditRow]:
    """Entries with the names of what they speak of; what is gone goes by its id."""
    ids = {found for line in lines for found in _ids([line.entry.subject, line.entry.detail])}
    names = names_of(session, ids)
    return [
        AuditRow(
            line.entry,
            line.actor_name or line.entry.actor,
            _said(line.entry.subject, names),
            tuple(
                (name.replace("_", " "), tuple(_words(value, names)))
                for name, value in line.entry.detail.items()
            ),
        )
        for line in lines
    ]


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, str) and is_id(value):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _ids(part)


def _said(text: str, names: Mapping[str, str]) -> Said:
    return Said(names[text], text) if text in names else Said(text)


def _words(value: Any, names: Mapping[str, str]) -> Iterator[Said]:
    if isinstance(value, str):
        yield _said(value, names)
    elif isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        for part in value:
            yield _said(part, names)
    elif isinstance(value, dict) and value and all(isinstance(part, str) for part in value.values()):
        for name, part in value.items():
            said = _said(part, names)
            yield Said(f"{name}: {said.text}", said.id)
    else:
        yield Said("none" if value is None else json.dumps(value, ensure_ascii=False))
