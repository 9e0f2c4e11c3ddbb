from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from skipmap.errors import InvalidInput
from skipmap.maps.document import build_map, document_bytes
from skipmap.maps.schema import MAX_DOCUMENT_BYTES, json_schema, moment, read_map

ROOT = Path(__file__).parents[2]


@pytest.fixture
def change(golden):
    """The full map with one place changed, as bytes."""

    def make(place, value):
        document = json.loads((golden / "full.json").read_bytes())
        inner = document
        *path, last = place.split("/")
        for part in path:
            inner = inner[int(part) if part.isdecimal() else part]
        inner[last] = value
        return json.dumps(document).encode()

    return make


def test_published_file_is_the_codes(make_result, router):
    text = (ROOT / "docs" / "map.schema.json").read_text(encoding="utf-8")
    printed = subprocess.run(
        [sys.executable, "-m", "skipmap.maps.schema"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert text == printed.stdout, "run: python -m skipmap.maps.schema > docs/map.schema.json"
    validator = Draft202012Validator(json.loads(text))
    validator.check_schema(validator.schema)
    results = [make_result("qa", [7]), make_result("rag", [])]
    for document in (build_map(results, "prod"), build_map(results, "prod", version=2, router=router)):
        validator.validate(document)


BLOCKS = "domains/summarization/skip"


@pytest.mark.parametrize(
    ("place", "value", "field", "problem"),
    [
        ("version", 0, "version", "greater than or equal to 1"),
        ("version", True, "version", "valid integer"),
        ("version", 1.0, "version", "valid integer"),
        ("version", "1", "version", "valid integer"),
        ("name", "Prod", "name", "match pattern"),
        ("name", "p" * 65, "name", "match pattern"),
        ("name", "prod\n", "name", "match pattern"),
        ("created_at", "yesterday", "created_at", "must be a date and time with its offset"),
        ("created_at", "2026-11-30T12:00:00", "created_at", "must be a date and time with its offset"),
        ("created_at", "2026-13-30T12:00:00Z", "created_at", "month must be in 1..12"),
        ("target/num_layers", 0, "target.num_layers", "greater than or equal to 1"),
        ("target/fingerprint", "", "target.fingerprint", "at least 1 character"),
        ("target/fingerprint", None, "target.fingerprint", "valid string"),
        (
            "draft/params/k",
            [1],
            "draft.params.k",
            "must be text, a finite number, true, false or null (given: [1])",
        ),
        ("domains/summarization/cost_ratio", 10**400, "domains.summarization.cost_ratio", "finite number"),
        (BLOCKS, [11, 0], BLOCKS, "block indices must ascend, each once"),
        (BLOCKS, [0, 0], BLOCKS, "block indices must ascend, each once"),
        (BLOCKS, [-1], f"{BLOCKS}/0", "greater than or equal to 0"),
        (BLOCKS, [True], f"{BLOCKS}/0", "valid integer"),
        (BLOCKS, [1.0], f"{BLOCKS}/0", "valid integer"),
        (BLOCKS, "1", BLOCKS, "valid array"),
        (BLOCKS, None, BLOCKS, "valid array"),
        (BLOCKS, [30], None, "domain 'summarization' skips block 30; the target has blocks 0..29"),
        (BLOCKS, list(range(30)), None, "domain 'summarization' skips all 30 blocks; at least one must run"),
        ("domains/summarization/alternatives/1/skip", [99], None, "domain 'summarization' skips block 99"),
        ("domains/summarization/sparsity", 1, "domains.summarization.sparsity", "less than 1"),
        ("domains/summarization/metric/sparse", "0.2", "domains.summarization.metric.sparse", "valid number"),
        ("domains/summarization/cost_ratio", True, "domains.summarization.cost_ratio", "valid number"),
        (
            "domains/summarization/held_out/intervals/speedup",
            [1],
            "domains.summarization.held_out.intervals.speedup.1",
            "required and not given",
        ),
        (
            "domains/summarization/held_out/passes_gate",
            1,
            "domains.summarization.held_out.passes_gate",
            "valid boolean",
        ),
        ("domains/summarization/override", "x" * 2001, "domains.summarization.override", "at most 2000"),
        ("domains/Sum", {}, "domains.Sum.[key]", "match pattern"),
        ("domains", {}, "domains", "at least 1 item"),
        ("fallback/skip", [1], "fallback.skip", "at most 0 items"),
        ("fallback", None, "fallback", "should be an object"),
        (
            "router/target_fingerprint",
            "beef",
            None,
            "the router was trained with the embeddings of another model",
        ),
        ("router/dimension", 2, "router", "a centroid of summarization has 3 numbers; dimension is 2"),
        ("router/domains/translation/threshold", -1, "router.domains.translation.threshold", "equal to 0"),
    ],
)
def test_what_is_refused(change, place, value, field, problem):
    with pytest.raises(InvalidInput) as caught:
        read_map(change(place, value))
    wanted = "map" if field is None else f"map.{field.replace('/', '.')}"
    assert caught.value.field == wanted
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "place", ["schema", "name", "version", "target", "domains", "fallback", "created_at"]
)
def test_what_must_be_there(golden, place):
    document = json.loads((golden / "full.json").read_bytes())
    del document[place]
    with pytest.raises(InvalidInput, match=rf"^map\.{place}: required and not given$"):
        read_map(json.dumps(document).encode())


def test_names_of_the_code_are_no_fields(golden):
    """What the JSON Schema refuses, and readers in other languages do not see, is refused here, too."""
    plain = json.loads((golden / "minimal.json").read_bytes())
    plain["schema_id"] = plain.pop("schema")
    with pytest.raises(InvalidInput, match=r"^map\.schema: required and not given$"):
        read_map(json.dumps(plain).encode())


def test_size_is_capped(golden):
    data = (golden / "full.json").read_bytes()
    assert read_map(data + b" " * (MAX_DOCUMENT_BYTES - len(data)))
    with pytest.raises(InvalidInput, match=r"^map: has 4194305 bytes; at most 4194304 are read$"):
        read_map(data + b" " * (MAX_DOCUMENT_BYTES + 1 - len(data)))


@given(st.lists(st.integers(-1, 7), max_size=7), st.integers(1, 7))
def test_exactly_the_usable_skip_sets_are_read(blocks, layers):
    figures = {"dense": 1.0, "sparse": 1.0}
    entry = {
        "skip": blocks,
        "sparsity": 0.0,
        "accept_length": figures,
        "metric": {"name": "f1", **figures},
        **dict.fromkeys(("cost_ratio", "speedup", "held_out")),
        "reason": "",
        "result": "",
    }
    document = {
        "schema": "skipmap.map/1",
        "name": "m",
        "version": 1,
        "created_at": "2026-01-31T12:00:00Z",
        "target": {"id": "t", "fingerprint": "f", "num_layers": layers},
        "draft": {"method": "sam"},
        "domains": {"d": entry},
        "fallback": {"skip": []},
    }
    usable = blocks == sorted(set(blocks)) and set(blocks) < set(range(layers))
    data = document_bytes(document)
    if usable:
        assert read_map(data).skip_for("d").to_list() == blocks
    else:
        with pytest.raises(InvalidInput):
            read_map(data)


# RFC 3339 knows offsets in minutes alone.
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=offsets))
def test_times_read_back(when):
    assert moment(when.isoformat()) == when


def test_names_of_the_json_schema_are_closed():
    validator = Draft202012Validator(
        json_schema()["properties"]["domains"] | {"$defs": json_schema()["$defs"]}
    )
    assert not validator.is_valid({"Bad Name": {}})


def test_reading_maps_loads_no_torch():
    code = (
        "import sys, skipmap.maps.channel, skipmap.maps.diff, skipmap.maps.gate, skipmap.maps.document; "
        "sys.exit(', '.join({'torch', 'transformers', 'flask', 'sqlalchemy', 'rich'} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
