"""How figures, times and names are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from web import filters
from web.filters import NONE

S, M = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
AT = datetime(2026, 11, 30, 7, 17, 39, 123456, UTC)


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("number", (1.2345,), "1.234"),
        ("number", (1.2345, 1), "1.2"),
        ("number", (-0.5, 1), f"{M}0.5"),
        ("number", (-0.0001,), "0.000"),
        ("number", (1234567.0, 0), "1,234,567"),
        ("number", (0,), "0.000"),
        ("number", (None,), NONE),
        ("number", (float("nan"),), NONE),
        ("number", (float("inf"),), "∞"),
        ("number", (float("-inf"),), f"{M}∞"),
        ("label_texts", ({"team": "search", "a=b": " c"},), ["team=search", '"a=b"=" c"']),
        ("shell_word", ("/a b/c",), "'/a b/c'"),
        ("count", (21679,), "21,679"),
        ("count", (0,), "0"),
        ("count", (None,), NONE),
        ("percent", (0.042,), f"4.2{S}%"),
        ("percent", (1.0, 0), f"100{S}%"),
        ("percent", (None,), NONE),
        ("percent", (float("nan"),), NONE),
        ("signed_percent", (0.042,), f"+4.2{S}%"),
        ("signed_percent", (-0.01,), f"{M}1.0{S}%"),
        ("signed_percent", (0.0,), f"0.0{S}%"),
        ("signed_percent", (0.0001,), f"0.0{S}%"),
        ("signed_percent", (-0.0001,), f"0.0{S}%"),
        ("signed_percent", (None,), NONE),
        ("signed_percent", (float("nan"),), NONE),
        ("ratio", (1.054,), "1.05\N{MULTIPLICATION SIGN}"),
        ("ratio", (None,), NONE),
        ("ratio", (float("nan"),), NONE),
        ("duration", (0.0,), f"0{S}ms"),
        ("duration", (0.25,), f"250{S}ms"),
        ("duration", (0.9996,), f"1.0{S}s"),
        ("duration", (1.0,), f"1.0{S}s"),
        ("duration", (9.97,), f"10{S}s"),
        ("duration", (59.7,), f"1{S}min"),
        ("duration", (200,), f"3{S}min 20{S}s"),
        ("duration", (3600,), f"1{S}h"),
        ("duration", (3605,), f"1{S}h"),
        ("duration", (86400 * 3 + 3600 * 5 + 59,), f"3{S}d 5{S}h"),
        ("duration", (None,), NONE),
        ("size", (0,), f"0{S}B"),
        ("size", (1023,), f"1023{S}B"),
        ("size", (1024,), f"1.0{S}KiB"),
        ("size", (1536,), f"1.5{S}KiB"),
        ("size", (16 << 20,), f"16.0{S}MiB"),
        ("size", (1 << 50,), f"1024.0{S}TiB"),
        ("size", (None,), NONE),
        ("skip_text", ([],), "dense"),
        ("skip_text", ([3, 7],), "3, 7"),
        ("plural", (1, "job"), f"1{S}job"),
        ("plural", (0, "job"), f"0{S}jobs"),
        ("plural", (1234, "job"), f"1,234{S}jobs"),
        ("plural", (2, "entry", "entries"), f"2{S}entries"),
        ("short_id", ("01900000-0000-7000-8000-0000abcd1234",), "abcd1234"),
        ("ago", (None,), NONE),
        ("moment", (None,), NONE),
    ],
    ids=str,
)
def test_figures(name, arguments, wanted):
    assert filters.FILTERS[name](*arguments) == wanted


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (0, "just now"),
        (4.9, "just now"),
        (-4.9, "just now"),
        (5, f"5{S}s ago"),
        (59.9, f"59{S}s ago"),
        (60, f"1{S}min ago"),
        (3599, f"59{S}min ago"),
        (7200, f"2{S}h ago"),
        (86400 * 40, f"40{S}d ago"),
        (-90, f"in 1{S}min"),
        (-86400 * 7, f"in 7{S}d"),
    ],
)
def test_distances(seconds, wanted):
    assert filters.relative(timedelta(seconds=seconds)) == wanted


def test_an_exact_time_is_in_utc_for_people_and_machines():
    berlin = AT.astimezone(timezone(timedelta(hours=1)))
    text = "2026-11-30 07:17:39 UTC"
    element = f'<time datetime="2026-11-30T07:17:39.123456+00:00" title="{text}">{text}</time>'
    assert filters.moment(AT) == filters.moment(berlin) == element


def test_a_distance_can_be_brought_up_to_date():
    text = str(filters.ago(datetime.now(UTC) - timedelta(hours=2, seconds=1)))
    assert text.startswith('<time datetime="')
    assert f" data-ago>2{S}h ago</time>" in text
    assert hasattr(filters.ago(AT), "__html__")
