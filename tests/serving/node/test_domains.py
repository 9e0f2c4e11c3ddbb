"""Which domain, skip set and draft a request gets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from skipmap.drafts.base import Resources
from skipmap.errors import InvalidInput
from skipmap.maps.router import read_router
from skipmap.serving.node.domains import NearestCentroid, NoRouting, choose
from skipmap.serving.node.drafts import Drafts
from skipmap.serving.node.source import FixedMap, FixedSource
from skipmap.skipset import SkipSet
from tests.serving.node.conftest import fixed, map_document

ROUTER = {
    "embedder": "letters",
    "dimension": 2,
    "domains": {
        "words": {"centroids": [[1, 0]], "threshold": 0.2, "n": 3},
        "poems": {"centroids": [[0, 1]], "threshold": 0.2, "n": 3},
    },
}


class Letters:
    """Texts of a, and of b; anything else lies between."""

    name, dimension, target_fingerprint = "letters", 2, None

    def embed(self, texts):
        return np.array([[t.count("a"), t.count("b")] for t in texts], np.float32)


@pytest.fixture
def routed():
    """Choose with the map's router."""
    source, routing = fixed(map_document(router=ROUTER)), NearestCentroid(lambda _: Letters())
    return lambda asked, *texts: choose(source, routing, asked, texts)


def test_domain_by_name_beats_the_router(routed):
    found = routed("poems", "aaa")
    assert (found.domain, found.routed, found.skip, found.note) == (
        "poems",
        False,
        SkipSet.of([0, 2, 3]),
        None,
    )


def test_nearest_domain_or_none(routed):
    assert (routed(None, "aaaa").domain, routed(None, "bbbb").domain) == ("words", "poems")
    for text in ("ab", "", "xyz"):
        found = routed(None, text)
        assert (found.domain, found.routed, found.skip) == (None, True, SkipSet())
        assert found.note == "the router knows no domain that is near"


def test_prompts_of_several_domains_run_dense(routed):
    assert routed(None, "aa", "aaa").domain == "words"
    found = routed(None, "aa", "bb")
    assert (found.domain, found.note) == (None, "the prompts are of several domains")
    assert routed(None, "aa", "ab").domain is None


def test_router_of_a_domain_that_the_map_lacks():
    source = fixed(map_document({"poems": [0]}))
    routing = NearestCentroid(lambda _: Letters(), read_router(ROUTER))
    assert choose(source, routing, None, ["bb"]).domain == "poems"
    found = choose(source, routing, None, ["aa"])
    assert (found.domain, found.skip, found.note) == (
        None,
        SkipSet(),
        "the map has no domain 'words'; it runs dense",
    )


def test_router_that_cannot_be_used_is_said_once(caplog):
    calls = []

    def broken(name):
        calls.append(name)
        raise RuntimeError("no such embedder")

    source, routing = fixed(map_document(router=ROUTER)), NearestCentroid(broken)
    for _ in range(3):
        found = choose(source, routing, None, ["aa"])
        assert (found.domain, found.routed) == (None, False)
    assert calls == ["letters"]
    assert caplog.text.count("no such embedder") == 1


def test_router_of_the_operator_that_cannot_be_used_is_refused():
    class Other(Letters):
        dimension = 3

    with pytest.raises(InvalidInput, match=r"router\.dimension: the router has 2 and the embedder 3"):
        NearestCentroid(lambda _: Other(), read_router(ROUTER))


def test_router_that_fails_runs_dense():
    class Failing(Letters):
        def embed(self, texts):
            raise MemoryError

    found = choose(fixed(map_document(router=ROUTER)), NearestCentroid(lambda _: Failing()), None, ["aa"])
    assert (found.domain, found.skip) == (None, SkipSet())


def test_expired_envelope():
    late = datetime.now(UTC) - timedelta(seconds=1)
    for policy, skip in (("keep", [1, 3]), ("dense", [])):
        source = FixedSource(FixedMap(map_document(), "d" * 64, 1, 1, "production", late), policy)
        assert choose(source, NoRouting(), "words", []).skip == SkipSet.of(skip)
        report = source.status()
        assert (report.state, report.reason) == ("EXPIRED", f"the envelope has expired; policy: {policy}")


def test_draft_is_the_map_s_unless_chosen(loaded):
    resources = Resources(loaded.encode, 5)
    of_map = Drafts(resources)
    assert of_map.for_map(None).name == "sam"
    other = map_document(draft={"method": "token_recycling", "params": {"width": 4}})
    assert of_map.for_map(map_document()).name == "prompt_lookup"
    assert of_map.for_map(other) is of_map.for_map(other)
    assert of_map.remark(map_document()) is of_map.remark(None) is None
    chosen = Drafts(resources, "sam")
    assert chosen.for_map(other).name == "sam"
    assert "were calibrated for the draft token_recycling; this node drafts with sam" in chosen.remark(other)
    same = Drafts(resources, "prompt_lookup", {"max_ngram": 2})
    assert same.remark(map_document()) == "the draft prompt_lookup has other parameters here than in map tiny"


def test_draft_that_the_node_does_not_have(loaded, caplog):
    drafts = Drafts(Resources(loaded.encode, 5))
    document = map_document(draft={"method": "oracle", "params": {}})
    for _ in range(2):
        assert drafts.for_map(document).name == "sam"
    assert caplog.text.count("'oracle' is unknown") == 1
    assert "calibrated for the draft oracle" in drafts.remark(document)


def test_served_request_is_routed(serve):
    source = fixed(map_document(router=ROUTER))
    served = serve(source=source, routing=NearestCentroid(lambda _: Letters()))
    with served.client as client:
        ask = client.chat.completions.create
        first, second = {"role": "user", "content": "aaa"}, {"role": "user", "content": "bbb"}
        system = {"role": "system", "content": "bbbbbbbbbbbb"}
        facts = ask(model="tiny", messages=[system, first], max_tokens=3).skipmap
        assert (facts["domain"], facts["routed"], facts["skip"]) == ("words", True, [1, 3])
        assert ask(model="tiny", messages=[first, second], max_tokens=3).skipmap["domain"] is None
        tokens = client.completions.create(model="tiny", prompt=served.node.loaded.encode("bbbb"))
        assert tokens.skipmap["domain"] == "poems"
        # As proxies send it that set a header from nothing.
        empty = {"X-Skipmap-Domain": ""}
        text = client.completions.create(model="tiny", prompt="bbbb", extra_headers=empty)
        assert text.skipmap["domain"] == "poems"
