from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from skipmap.errors import InvalidInput
from skipmap.maps.channel import ChannelPayload, channel_etag, read_payload, sequence_etag
from skipmap.maps.document import build_map, document_bytes

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DIGEST = "0" * 64


@pytest.fixture
def payload(make_result):
    """A payload around version 3 of a map."""

    def make(**changes):
        document = document_bytes(build_map([make_result()], "prod", version=3))
        fields = {
            "map": "prod",
            "channel": "production",
            "sequence": 5,
            "version": 3,
            "digest": hashlib.sha256(document).hexdigest(),
            "issued_at": NOW,
            "expires_at": NOW + timedelta(hours=24),
            "document": document.decode(),
        }
        return ChannelPayload(**(fields | changes))

    return make


def test_round_trip(payload):
    made = payload()
    data = made.to_bytes()
    plain = json.loads(data)
    assert list(plain) == sorted(ChannelPayload.model_fields)
    assert (plain["issued_at"], plain["expires_at"]) == ("2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z")
    # What any language can check: the digest of the text's UTF-8 bytes.
    assert hashlib.sha256(plain["document"].encode()).hexdigest() == plain["digest"]
    assert read_payload(data) == made
    assert read_payload(data).to_bytes() == data
    assert made.map_document().domains["translation"].skip == (3,)


def test_times_are_kept_exactly_and_told_in_utc(payload):
    east = NOW.astimezone(timezone(timedelta(hours=5, minutes=30))) + timedelta(microseconds=250_001)
    made = payload(issued_at=east)
    assert json.loads(made.to_bytes())["issued_at"] == "2026-01-31T12:00:00.250001Z"
    assert read_payload(made.to_bytes()).issued_at == east


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("issued_at", datetime(2026, 1, 31)),
        ("sequence", 0),
        ("sequence", True),
        ("channel", "Prod"),
        ("digest", "ab"),
    ],
)
def test_what_no_payload_can_hold(payload, name, value):
    with pytest.raises(ValidationError):
        payload(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("digest", DIGEST, rf"^payload\.digest: is {DIGEST}, but the document has "),
        ("document", "{}", r"^payload\.digest: is .*, but the document has "),
        ("expires_at", "2026-01-31T12:00:00Z", r"^payload\.expires_at: must be after issued_at$"),
        ("expires_at", "2026-02-31T12:00:00Z", r"^payload\.expires_at: day "),
        ("expires_at", 1_800_000_000, r"^payload\.expires_at: must be a date and time with its offset"),
        ("expires_at", "1800000000", r"^payload\.expires_at: must be a date and time with its offset"),
        ("expires_at", "9999-12-31T23:59:59-14:00", r"^payload\.expires_at: must lie in the years 1 to 9999"),
        ("version", None, r"^payload\.version: Input should be a valid integer"),
    ],
)
def test_what_is_refused(payload, name, value, problem):
    plain = json.loads(payload().to_bytes()) | {name: value}
    with pytest.raises(InvalidInput, match=problem):
        read_payload(json.dumps(plain).encode())


def test_later_fields_are_ignored(payload):
    plain = json.loads(payload().to_bytes()) | {"hint": {"poll": 5}}
    assert read_payload(json.dumps(plain).encode()) == payload()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"map": "other"}, r"^document\.name: is 'prod', but the channel speaks of 'other'$"),
        ({"version": 4}, r"^document\.version: is 3, but the channel speaks of 4$"),
        ({"document": "{}"}, r"^document\.schema: required and not given$"),
    ],
)
def test_the_document_must_be_the_one_that_is_named(payload, changes, problem):
    with pytest.raises(InvalidInput, match=problem):
        payload(**changes).map_document()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["production", "canary"]),
            st.integers(1, 3),
            st.datetimes(timezones=st.just(UTC)),
            st.sampled_from([DIGEST, "1" * 64]),
        ),
        min_size=2,
        max_size=2,
    )
)
def test_etags_are_equal_exactly_where_content_is(states):
    one, other = states
    assert (channel_etag(*one) == channel_etag(*other)) == (one == other)


def test_form_of_etags():
    etag = channel_etag("production", 5, NOW, DIGEST)
    assert etag == channel_etag("production", 5, NOW.astimezone(timezone(timedelta(hours=2))), DIGEST)
    assert etag.startswith('"')
    assert etag.endswith('"')
    assert etag[1:-1].isalnum()
    assert sequence_etag(12) == '"seq-12"'
