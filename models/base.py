"""Base of all tables: names of constraints, ids, columns that many tables have."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import DateTime, Double, Function, MetaData, String, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# Ids and keys are compared byte by byte, whatever the database's language.
Id = Annotated[str, mapped_column(String(36, collation="C"))]
Created = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.clock_timestamp())]


class Base(DeclarativeBase):
    """Declarative base. Times are the database's, with time zone; states are text with a check."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012 - the name and form that SQLAlchemy asks for
        str: Text(),
        float: Double(),
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
    }


def one_of(column: str, values: Iterable[str]) -> str:
    """SQL condition that a text column holds one of the values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


def interval(seconds: float) -> Function[Any]:
    """SQL interval."""
    return func.make_interval(0, 0, 0, 0, 0, 0, seconds)


NUMBER_PATTERN = "[1-9][0-9]{0,8}"
"""Numbers of versions, as addresses hold them."""

ID_PATTERN = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID = re.compile(ID_PATTERN)
_lock = threading.Lock()
_last = (0, 0)


def new_id() -> str:
    """UUIDv7 as text; ids made by one process ascend, also within a millisecond."""
    global _last
    with _lock:
        now = time.time_ns() // 1_000_000
        millisecond, count = _last
        # 12 bits count within a millisecond; when they run over, the next millisecond is borrowed.
        if now > millisecond:
            _last = (now, 0)
        elif count < 0xFFF:
            _last = (millisecond, count + 1)
        else:
            _last = (millisecond + 1, 0)
        millisecond, count = _last
    rest = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    value = f"{millisecond << 80 | 0x7 << 76 | count << 64 | 0x2 << 62 | rest:032x}"
    return f"{value[:8]}-{value[8:12]}-{value[12:16]}-{value[16:20]}-{value[20:]}"


def is_id(value: object) -> bool:
    """Whether a value has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def clean(text: str) -> str:
    """Text that PostgreSQL can hold: NUL and lone surrogates replaced."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
