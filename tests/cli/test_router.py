"""``skipmap router`` on a tiny target, whose tokens are words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skipmap.calibration.prepare import prepare
from skipmap.maps.router import read_router
from skipmap.metrics.registry import get_metric
from skipmap.serving.embedding import make_embedder
from skipmap.serving.router import DomainRouter
from skipmap.serving.training import prompts_of
from skipmap.spec import JobSpec
from skipmap.target.loading import resolve_target


def _rows(words, count=30):
    """Prompts that share five words and have three more of their own."""
    picks = [
        words[5 + (place * 7 + step * 3) % (len(words) - 5)] for place in range(count) for step in range(3)
    ]
    return [
        {"id": str(place), "prompt": " ".join([*words[:5], *picks[3 * place : 3 * place + 3]])}
        for place in range(count)
    ]


@pytest.fixture
def sets(write_items):
    """Two domains and prompts of neither."""
    words = [f"w{number}" for number in range(90)]
    return [write_items(_rows(words[start : start + 30])) for start in (0, 30, 60)]


@pytest.fixture
def options(target, sets):
    first, second, strangers = sets
    given = ["--domain", f"first={first}", "--domain", f"second={second}", "--out-of-domain", strangers]
    return [*given, "--target", target, "--fraction", ".5"]


def test_train_and_evaluate(skipmap, options, target, tmp_path):
    ran = skipmap("router", "train", *options, "--json", "--out", tmp_path / "made.json")
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    router = read_router((tmp_path / "made.json").read_bytes())
    assert router.confusion.model_dump(mode="json") == answer["confusion"]
    assert answer["domains"]["first"] == {
        "centroids": 1,
        "threshold": router.domains["first"].threshold,
        "n": 15,
    }
    figures = answer["figures"]
    assert (figures["prompts"], figures["out_of_domain"], figures["wrong"]) == (30, 30, 0)
    assert figures["right"] + figures["unknown"] == 30
    assert (figures["right"] >= 20, figures["out_of_domain_taken"]) == (True, 0)
    assert answer["seconds_a_prompt"] > 0
    again = skipmap("router", "evaluate", "--router", tmp_path / "made.json", *options, "--json")
    assert json.loads(again.out)["confusion"] == answer["confusion"]
    served = DomainRouter(router, make_embedder("target", resolve_target(str(target))))
    assert served.route("w0 w1 w2 w3 w4 w9 w12 w15").domain == "first"


def test_tables(skipmap, options):
    ran = skipmap("router", "train", *options)
    assert ran.code == 0
    assert "skipmap: note: first has 15 calibration prompts; its threshold is rough" in ran.err
    assert "skipmap: router: router.json" in ran.err
    for part in (
        "no domain",
        "first: threshold ",
        "of 30 prompts: ",
        "of 30 prompts of no domain: 0 taken",
        "a prompt",
    ):
        assert part in ran.out
    parts = {
        part: skipmap("router", "evaluate", "--router", "router.json", *options, "--part", part).out
        for part in ("calibration", "all")
    }
    assert "of 30 prompts: " in parts["calibration"]
    assert "of 60 prompts: " in parts["all"]


def test_a_result_brings_its_split(skipmap, finished, target):
    """The prompts of a job's domain, and of these its calibration part, make the centroids."""
    ran = skipmap("router", "train", "--target", target, "--result", finished.result, "--json")
    assert ran.code == 0, ran.err
    spec = JobSpec.parse(finished.document["spec"])
    calibration = prepare(
        spec.calibration, spec.domain.shots or 0, get_metric(spec.domain.metric)
    ).calibration
    router = read_router(Path("router.json").read_bytes())
    assert set(router.domains) == {"words"}
    assert router.domains["words"].n == len(prompts_of(calibration)) == 2
    assert sum(router.confusion.counts["words"].values()) == 4


def test_the_router_of_a_map_needs_no_target(skipmap, options, finished, target, tmp_path):
    assert skipmap("router", "train", *options).code == 0
    document = json.loads(finished.map.read_text())
    router = json.loads((tmp_path / "router.json").read_text())
    (tmp_path / "map.json").write_text(json.dumps({**document, "router": router}))
    prompts = options[: options.index("--target")]
    ran = skipmap("router", "evaluate", "--router", "map.json", *prompts, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["domains"]["second"]["n"] == 15
    ran = skipmap("router", "evaluate", "--router", finished.map, *prompts)
    assert (ran.code, "has no router" in ran.err) == (2, True)
    ran = skipmap("router", "evaluate", "--router", "router.json", *prompts)
    assert (ran.code, "target: required" in ran.err) == (2, True)


def test_categories(skipmap, target, write_items):
    words = [f"w{number}" for number in range(90)]
    rows = [
        {**row, "id": f"{category}{row['id']}", "category": category}
        for category, start in (("a", 0), ("b", 30), ("c", 60))
        for row in _rows(words[start : start + 30])
    ]
    file = write_items(rows)
    given = ["router", "train", "--target", target, "--json", "--out-of-domain", f"{file}:b,c"]
    ran = skipmap(*given, "--domain", f"first={file}:a")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["figures"]["out_of_domain"] == 60
    ran = skipmap(*given, "--domain", f"first={file}:d")
    assert (ran.code, "--domain first: " in ran.err, "no category 'd'" in ran.err) == (2, True, True)
    assert skipmap(*given, "--domain", f"first={file}").code == 2


@pytest.mark.parametrize(
    ("given", "code", "problem"),
    [
        ((), 2, "no domain is given"),
        (("--domain", "nothing"), 2, "is not of the form name=value"),
        (("--domain", "a=sample:qa", "--domain", "a=sample:qa"), 2, "'a' is given twice"),
        (("--domain", "A b=sample:qa"), 2, "no name of a domain"),
        (("--domain", "unknown=sample:qa"), 2, "no domain may be called 'unknown'"),
        (("--domain", "a=gone.jsonl"), 3, "--domain a: "),
        (("--domain", "a=sample:gone"), 3, "no sample 'gone'"),
        (("--domain", "a=sample:qa", "--fraction", "2"), 2, "calibration_fraction"),
        (("--domain", "a=sample:qa", "--out-of-domain", "gone.jsonl"), 3, "--out-of-domain: "),
        (("--domain", "a=sample:qa", "--embedder", "word2vec"), 2, "'word2vec' is unknown"),
        (("--domain", "a=sample:qa", "--centroids", "0"), 2, "router.centroids"),
        (("--domain", "a=sample:qa", "--out", "."), 2, "--out: "),
        (("--result", "gone.json"), 3, "gone.json"),
    ],
)
def test_what_cannot_be_trained(skipmap, target, given, code, problem):
    ran = skipmap("router", "train", "--target", target, *given)
    assert (ran.code, ran.out) == (code, "")
    assert problem in ran.err


def test_a_result_of_a_domain_given_twice(skipmap, target, finished):
    ran = skipmap(
        "router", "train", "--target", target, "--result", finished.result, "--result", finished.result
    )
    assert (ran.code, "'words', which is given twice" in ran.err) == (2, True)
    ran = skipmap("router", "train", "--target", target, "--result", finished.map)
    assert (ran.code, "--result: " in ran.err) == (2, True)


def test_files_that_hold_no_router(skipmap, options, tmp_path):
    for name, text in (("a.json", "[]"), ("b.json", "{"), ("c.json", '{"embedder": "target"}')):
        (tmp_path / name).write_text(text)
        ran = skipmap("router", "evaluate", "--router", name, *options)
        assert (ran.code, name in ran.err) == (2, True)
    assert skipmap("router", "evaluate", "--router", "gone.json", *options).code == 3
    ran = skipmap("router", "evaluate", "--router", tmp_path, *options)
    assert (ran.code, "--router: cannot read" in ran.err) == (2, True)
