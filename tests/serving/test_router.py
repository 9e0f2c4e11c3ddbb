"""Routing, against distances worked out one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skipmap.errors import InvalidInput
from skipmap.maps.router import RouterDocument, read_router
from skipmap.serving.router import DomainRouter, RoutedDomain

DIMENSION = 6


class Numbers:
    """Texts are vectors written out."""

    name = "numbers"
    target_fingerprint: str | None = "f" * 64
    dimension = DIMENSION

    def embed(self, texts):
        rows = [[float(number) for number in text.split()] or [0.0] * DIMENSION for text in texts]
        return np.array(rows, np.float32).reshape(len(texts), DIMENSION)


def written(vector):
    return " ".join(repr(float(number)) for number in vector)


def document(domains, **changes) -> RouterDocument:
    entries = {
        name: {"centroids": np.asarray(centroids).tolist(), "threshold": threshold, "n": 3}
        for name, (centroids, threshold) in domains.items()
    }
    return read_router(
        {
            "embedder": "numbers",
            "target_fingerprint": "f" * 64,
            "dimension": DIMENSION,
            "domains": entries,
            **changes,
        }
    )


def distance(a, b):
    return 1 - float(np.dot(a, b)) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))


def test_nearest_centroid_within_its_threshold():
    rng = np.random.default_rng(1)
    domains = {
        name: (rng.normal(size=(count, DIMENSION)), 0.3) for name, count in (("b", 3), ("a", 1), ("c", 2))
    }
    router = DomainRouter(document(domains), Numbers())
    reasons = set()
    for vector in rng.normal(size=(300, DIMENSION)):
        by_domain = {
            name: min(distance(vector, centroid) for centroid in centroids)
            for name, (centroids, _) in domains.items()
        }
        nearest = min(by_domain, key=by_domain.__getitem__)
        routed = router.route(written(vector))
        assert routed.nearest == nearest
        assert routed.distance == pytest.approx(by_domain[nearest], abs=1e-5)
        assert routed.threshold == 0.3
        assert routed.domain == (nearest if by_domain[nearest] <= 0.3 else None)
        reasons.add(routed.reason)
    assert reasons == {"near", "too_far"}


def test_each_domain_has_a_threshold_of_its_own():
    east, north = np.eye(DIMENSION)[:2]
    router = DomainRouter(document({"tight": ([east], 0.0), "wide": ([north], 1.0)}), Numbers())
    assert router.route(written(2 * east)).label == "tight"
    assert router.route(written(east + 0.1 * north)) == RoutedDomain(
        None, "too_far", "tight", pytest.approx(1 - 1 / np.sqrt(1.01), abs=1e-6), 0.0
    )
    assert router.route(written(north + 0.9 * east)).label == "wide"


def test_a_named_domain_comes_first_and_an_unknown_name_is_dense():
    east = np.eye(DIMENSION)[0]
    router = DomainRouter(document({"a": ([east], 0.1)}), Numbers(), domains=["a", "b"])
    assert router.route("not even a vector", "b") == RoutedDomain("b", "named")
    assert router.route(written(east), "z") == RoutedDomain(None, "name_unknown")
    assert router.route(written(east), "").label == "unknown"
    assert router.route(written(east)).domain == "a"
    assert DomainRouter(document({"a": ([east], 0.1)}), Numbers()).route("", "a").reason == "named"


def test_without_a_document_only_names_count():
    router = DomainRouter(None, None, domains=["a"])
    assert router.route("text") == RoutedDomain(None, "no_router")
    assert router.route("text", "a").domain == "a"


def test_texts_that_give_nothing_to_go_by():
    router = DomainRouter(document({"a": ([np.ones(DIMENSION)], 2.0)}), Numbers())
    assert router.route("") == RoutedDomain(None, "no_text")
    assert router.route(written([np.nan] * DIMENSION)).domain is None
    assert router.route(written([np.inf] * DIMENSION)).domain is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"embedder": "other"}, "router.embedder"),
        ({"target_fingerprint": "e" * 64}, "router.target_fingerprint"),
    ],
)
def test_a_document_of_another_embedder(changes, field):
    with pytest.raises(InvalidInput, match=field):
        DomainRouter(document({"a": ([np.ones(DIMENSION)], 0.1)}, **changes), Numbers())


def test_what_does_not_fit():
    one = document({"a": ([np.ones(DIMENSION)], 0.1)})
    wider = Numbers()
    wider.dimension = 7
    with pytest.raises(InvalidInput, match=r"router\.dimension"):
        DomainRouter(one, wider)
    with pytest.raises(InvalidInput, match="none is given"):
        DomainRouter(one, None)
    with pytest.raises(InvalidInput, match="a centroid is zero"):
        DomainRouter(document({"a": ([np.zeros(DIMENSION)], 0.1)}), Numbers())
    unbound = Numbers()
    unbound.target_fingerprint = None
    assert DomainRouter(one, unbound).route(written(np.ones(DIMENSION))).domain == "a"


def test_threads_share_a_router():
    rng = np.random.default_rng(2)
    domains = {name: (rng.normal(size=(2, DIMENSION)), 0.5) for name in "abcd"}
    router = DomainRouter(document(domains), Numbers())
    texts = [written(vector) for vector in rng.normal(size=(400, DIMENSION))]
    one_by_one = [router.route(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(router.route, texts)) == one_by_one
    assert [routed.domain for routed in router.route_texts(texts)] == [routed.domain for routed in one_by_one]
