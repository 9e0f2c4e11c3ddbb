from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipmap.errors import InvalidInput
from skipmap.serving.schedule import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    PollInterval,
    Schedule,
    deadline_of,
    long_poll_of,
    offset_of,
    retry_after,
)


def _schedule(low=30.0, high=60.0, node="a", long_poll=None, seed=0) -> Schedule:
    return Schedule(PollInterval(low, high), node, long_poll, random.Random(seed))


def _plain(schedule: Schedule) -> float:
    return schedule.after_success(changed=False, asked_to_wait=None, seconds=0.01)


@given(
    st.floats(SHORTEST_SECONDS, LONGEST_SECONDS),
    st.floats(SHORTEST_SECONDS, LONGEST_SECONDS),
    st.lists(
        st.tuples(
            st.sampled_from(["good", "long", "bad"]),
            st.booleans(),
            st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=60,
    ),
)
def test_no_pause_is_ever_out_of_bounds(one, other, polls):
    """Whatever happens and whatever a service asks for: neither a storm of requests nor none for ever."""
    schedule = _schedule(min(one, other), max(one, other), long_poll=30.0)
    assert schedule.at_start(has_map=False) == 0.0
    pauses = [schedule.at_start(has_map=True)]
    for kind, changed, number in polls:
        if kind == "bad":
            pauses.append(schedule.after_failure(number if number >= 0 else None))
        else:
            wait = 30.0 if kind == "long" else None
            pauses.append(schedule.after_success(changed=changed, asked_to_wait=wait, seconds=number))
    assert all(SHORTEST_SECONDS <= pause <= LONGEST_SECONDS for pause in pauses)


def test_pauses_are_spread_over_the_interval():
    schedule = _schedule()
    _plain(schedule)
    pauses = [_plain(schedule) for _ in range(500)]
    assert all(30 <= pause <= 60 for pause in pauses)
    assert min(pauses) < 32
    assert max(pauses) > 58


def test_nodes_that_start_together_poll_apart():
    firsts = sorted(_plain(_schedule(node=f"node-{number}")) for number in range(1000))
    for tenth in range(10):
        inside = sum(6 * tenth <= pause < 6 * (tenth + 1) for pause in firsts)
        assert 60 < inside < 140
    assert _plain(_schedule(node="x", seed=1)) == _plain(_schedule(node="x", seed=2))
    assert offset_of("a") == offset_of("a") != offset_of("b")


def test_failures_back_off_from_a_tenth_of_a_second_to_the_interval():
    schedule = _schedule()
    pauses = [schedule.after_failure() for _ in range(200)]
    assert pauses[0] == SHORTEST_SECONDS
    for number, pause in enumerate(pauses[:9]):
        assert 0.05 * 2**number <= pause <= 0.1 * 2**number or pause == SHORTEST_SECONDS
    assert all(30 <= pause <= 60 for pause in pauses[10:])
    _plain(schedule)
    assert schedule.after_failure() == SHORTEST_SECONDS


def test_retry_after_is_respected_within_bounds():
    assert 100 <= _schedule().after_failure(100.0) <= 120
    assert _schedule().after_failure(0.0) == SHORTEST_SECONDS
    assert 300 <= _schedule().after_failure(1e9) <= 360
    assert 3600 <= _schedule(60, 3600).after_failure(1e9) <= 4320
    assert len({_schedule(seed=seed).after_failure(100.0) for seed in range(20)}) > 15


def test_a_long_poll_follows_closely_only_when_the_service_waits():
    schedule = _schedule(long_poll=20.0)
    after = schedule.after_success
    assert after(changed=False, asked_to_wait=20.0, seconds=19.9) <= 1.0
    assert after(changed=True, asked_to_wait=20.0, seconds=0.2) <= 1.0
    # A service may allow less than what was asked for.
    assert after(changed=False, asked_to_wait=300.0, seconds=60.0) <= 1.0
    after(changed=False, asked_to_wait=20.0, seconds=0.01)
    # A service that answers a long poll at once, time and again, is not asked in a loop.
    assert after(changed=False, asked_to_wait=20.0, seconds=0.01) >= 30.0
    # The first poll of all is to be answered at once, and a long poll then follows on it.
    assert after(changed=True, asked_to_wait=None, seconds=0.01) <= 1.0
    assert after(changed=False, asked_to_wait=None, seconds=0.01) >= 30.0


def test_what_retry_after_says():
    assert retry_after("120") == 120.0
    assert retry_after(None) is None
    assert retry_after("soon") is None
    assert retry_after("-5") is None
    assert retry_after("9" * 400) == 999_999_999.0
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert retry_after(later) == pytest.approx(90, abs=2)
    assert retry_after("Wed, 01 Jan 2020 00:00:00 GMT") == 0.0


@pytest.mark.parametrize(
    "seconds", [0.0, -1.0, float("nan"), float("inf"), 1e-9, 1e6, (60.0, 30.0), (0.0, 30.0), (30.0, 1e9)]
)
def test_intervals_that_would_poll_always_or_never_are_refused(seconds):
    with pytest.raises(InvalidInput, match="poll_seconds"):
        PollInterval.of(seconds)


def test_other_times_have_bounds_too():
    assert PollInterval.of(5.0) == PollInterval(5.0, 5.0)
    assert long_poll_of(None) is None
    for bad in (0.0, float("nan"), 1e6):
        with pytest.raises(InvalidInput, match="long_poll_seconds"):
            long_poll_of(bad)
        with pytest.raises(InvalidInput, match="deadline_seconds"):
            deadline_of(bad)
