"""Centroids and thresholds against their definitions, and that held-out prompts decide nothing of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skipmap.calibration.sources import load_source
from skipmap.errors import InvalidInput
from skipmap.maps.router import read_router
from skipmap.serving import training
from skipmap.serving.embedding import TargetEmbedder
from skipmap.serving.router import DomainRouter
from skipmap.serving.training import (
    DomainPrompts,
    confusion_of,
    find_centroids,
    leave_one_out,
    prompts_of,
    train_router,
)
from skipmap.spec import CalibrationSpec, JobSpec
from skipmap.target.loading import resolve_target

DIMENSION = 8


class Hashed:
    """A direction for each first word, and a little for each text; nothing for an empty one."""

    name = "hashed"
    target_fingerprint = None
    dimension = DIMENSION

    def embed(self, texts):
        return np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), DIMENSION)

    @staticmethod
    def _vector(text):
        if not text:
            return np.zeros(DIMENSION)
        word, own = ([*part.encode()] for part in (text.split()[0], text))
        return np.random.default_rng(word).normal(size=DIMENSION) + 0.2 * np.random.default_rng(own).normal(
            size=DIMENSION
        )


def directions(count, seed=0):
    points = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def prompts(word, calibration=12, held_out=10):
    texts = tuple(f"{word} {number}" for number in range(calibration + held_out))
    return DomainPrompts(texts[:calibration], texts[calibration:])


def test_one_centroid_is_the_mean_direction():
    points = directions(7)
    mean = points.mean(axis=0)
    np.testing.assert_allclose(find_centroids(points, 1), [mean / np.linalg.norm(mean)], atol=1e-12)


def test_clumps_get_a_centroid_each():
    corners = np.eye(DIMENSION)[:3]
    points = np.concatenate([corner + 0.05 * directions(9, seed) for seed, corner in enumerate(corners)])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = find_centroids(points, 3)
    means = [clump.mean(axis=0) for clump in np.split(points, 3)]
    expected = sorted((mean / np.linalg.norm(mean)).tolist() for mean in means)
    np.testing.assert_allclose(sorted(found.tolist()), expected, atol=1e-12)


def test_points_that_leave_no_choice():
    same = np.repeat(directions(1), 5, axis=0)
    np.testing.assert_allclose(find_centroids(same, 3), same[:1], atol=1e-12)
    opposite = np.array([same[0], -same[0]])
    assert np.isfinite(find_centroids(opposite, 1)).all()
    assert np.isfinite(leave_one_out(opposite, 1)).all()


@pytest.mark.parametrize("centroids", [1, 3])
def test_leave_one_out_by_definition(centroids):
    points = directions(11)
    expected = []
    for place, point in enumerate(points):
        others = np.array([other for number, other in enumerate(points) if number != place])
        expected.append(min(1 - centre @ point for centre in find_centroids(others, centroids)))
    np.testing.assert_allclose(leave_one_out(points, centroids), expected, atol=1e-12)


def test_leave_one_out_of_many_is_bounded(monkeypatch):
    monkeypatch.setattr(training, "_MOST_LEFT_OUT", 5)
    points = directions(21)
    some = leave_one_out(points, 2)
    assert len(some) == 5
    monkeypatch.undo()
    np.testing.assert_array_equal(some, leave_one_out(points, 2)[[0, 5, 10, 15, 20]])


def test_threshold_and_centroids_of_a_document():
    embedder = Hashed()
    document = train_router({"a": prompts("a"), "b": prompts("b")}, embedder, quantile=0.9)
    assert (document.embedder, document.dimension, document.target_fingerprint) == ("hashed", DIMENSION, None)
    for name, domain in document.domains.items():
        points = embedder.embed(prompts(name).calibration).astype(float)
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        mean = points.sum(axis=0)
        np.testing.assert_allclose(domain.centroids, [mean / np.linalg.norm(mean)], rtol=1e-5)
        distances = []
        for point in points:
            others = mean - point
            distances.append(1 - point @ others / np.linalg.norm(others))
        assert domain.threshold == pytest.approx(np.quantile(distances, 0.9), rel=1e-5)
        assert domain.n == 12
    assert read_router(json.loads(json.dumps(document.to_json()))) == document
    assert all(
        len(repr(abs(value)).replace(".", "").lstrip("0")) <= 6
        for value in domain.centroids[0]
        if abs(value) > 1e-3
    )


def test_held_out_prompts_decide_nothing_but_the_table():
    first = {name: prompts(name) for name in "abc"}
    other = {
        name: DomainPrompts(one.calibration, tuple(f"x{name} {i}" for i in range(3)))
        for name, one in first.items()
    }
    for options in ({}, {"centroids": 2}):
        one = train_router(first, Hashed(), out_of_domain=["q 1", "q 2"], **options)
        two = train_router(other, Hashed(), **options)
        assert json.dumps(one.to_json()["domains"]) == json.dumps(two.to_json()["domains"])
        assert one.confusion != two.confusion


def test_confusion_counts_every_prompt_where_it_goes():
    domains = {name: prompts(name) for name in "abc"}
    strangers = [f"z{number} text" for number in range(30)]
    document = train_router(domains, Hashed(), out_of_domain=strangers)
    router = DomainRouter(document, Hashed())
    table = document.confusion
    assert table.labels == ("a", "b", "c", "unknown")
    for name, texts in {**{n: d.held_out for n, d in domains.items()}, "unknown": strangers}.items():
        routed = [router.route(text).label for text in texts]
        assert table.counts[name] == {label: routed.count(label) for label in set(routed)}
        assert routed.count(name) >= 0.7 * len(texts)
    assert confusion_of(router, {"d": ["a 1"]}).labels == ("a", "d", "unknown")


def test_empty_prompts_train_nothing():
    given = DomainPrompts(("a 1", "", "a 2", "a 3"), ())
    document = train_router({"a": given}, Hashed())
    assert document.domains["a"].n == 3
    assert document.confusion.counts == {}


@pytest.mark.parametrize(
    ("domains", "options", "problem"),
    [
        ({}, {}, "no domain is given"),
        ({"unknown": prompts("a")}, {}, "no domain may be called 'unknown'"),
        ({"A b": prompts("a")}, {}, "router.domains.A b"),
        ({"a": prompts("a", calibration=1)}, {}, "a has 1 calibration prompts .* at least 2"),
        ({"a": prompts("a", calibration=3)}, {"centroids": 3}, "at least 4"),
        ({"a": prompts("a")}, {"centroids": 0}, "router.centroids: must be 1 to"),
        ({"a": prompts("a")}, {"quantile": 1.5}, "router.quantile"),
        ({"a": prompts("a")}, {"quantile": float("nan")}, "router.quantile"),
    ],
)
def test_what_cannot_be_trained(domains, options, problem):
    with pytest.raises(InvalidInput, match=problem):
        train_router(domains, Hashed(), **options)


def test_a_router_must_fit_into_a_map(monkeypatch):
    monkeypatch.setattr(training, "MAX_ROUTER_BYTES", 300)
    with pytest.raises(InvalidInput, match="use fewer centroids or domains"):
        train_router({"a": prompts("a")}, Hashed(), centroids=4)


def spec(**calibration):
    return JobSpec.parse(
        {
            "target": {"id": "t"},
            "draft": {"method": "sam"},
            "domain": {"name": "qa"},
            "calibration": {"source": "sample:qa", **calibration},
        }
    )


def test_prompts_are_split_as_a_job_splits_them(tmp_path):
    of_job, of_source = (
        DomainPrompts.of_job(spec()),
        DomainPrompts.of_source(CalibrationSpec(source="sample:qa")),
    )
    assert set(of_job.calibration) == set(of_source.calibration)
    assert len(of_job.calibration) == 10
    assert set(of_job.calibration).isdisjoint(of_job.held_out)
    rows = [{"id": str(i), "prompt": f"p{i}", **({"reference": "r"} if i % 3 else {})} for i in range(30)]
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = DomainPrompts.of_source(CalibrationSpec(source=str(file)), "f1")
    assert set(scored.calibration) == set(DomainPrompts.of_job(spec(source=str(file))).calibration)
    file.write_text("".join(json.dumps({"id": row["id"], "prompt": row["prompt"]}) + "\n" for row in rows))
    assert len(DomainPrompts.of_source(CalibrationSpec(source=str(file)), "f1").calibration) == 6


def test_a_prompt_reads_as_a_request_does(tmp_path):
    file = tmp_path / "items.jsonl"
    row = {"id": "1", "turns": ["first", "second"], "choices": ["x", "y"], "answer": 0}
    file.write_text(json.dumps(row) + "\n")
    (text,) = prompts_of(load_source(CalibrationSpec(source=str(file))).items)
    assert text == "first\nsecond\nA. x\nB. y\nAnswer with the letter of the right option."


@pytest.mark.model
def test_the_demo_model_tells_the_samples_apart(smollm2_dir, user_settings, extra_data):
    target = resolve_target("smollm2-135m-instruct", settings=user_settings)
    names = ("mmlu", "qa", "summarization", "translation")
    domains = {name: DomainPrompts.of_source(CalibrationSpec(source=f"sample:{name}")) for name in names}
    questions = str(extra_data / "spec_bench" / "question.jsonl")
    strangers = [
        text
        for category in ("writing", "coding", "math_reasoning")
        for text in prompts_of(load_source(CalibrationSpec(source=questions, category=category)).items)
    ]
    document = train_router(domains, TargetEmbedder.from_target(target), out_of_domain=strangers)
    counts = document.confusion.counts
    assert sum(counts[name].get(name, 0) for name in names) >= 0.8 * 152
    assert counts["unknown"]["unknown"] >= 0.9 * len(strangers)
