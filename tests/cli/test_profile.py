from __future__ import annotations

import json

import pytest

from skipmap.cli.arguments import build_parser
from skipmap.cli.profile import spec_from
from skipmap.spec import JobSpec
from tests.cli.runs import run_folder, written

PUBLISHED_KEYS = {
    *("schema", "spec", "search_digest", "target", "draft", "data", "dense", "pool", "evaluations", "front"),
    *(
        "operating_points",
        "selected",
        "reason",
        "budget",
        "cost",
        "held_out",
        "no_signal",
        "versions",
        "timings",
    ),
}
ROW_KEYS = {
    *("skip", "level", "accept_length", "accepted_drafts", "steps", "metric", "cost_ratio", "feasible"),
    "evaluator",
}
POINT_KEYS = {
    *("skip", "accept_length", "accepted_drafts", "metric", "tokens_per_second", "speedup", "intervals"),
    "passes_gate",
}


def test_map_result_and_report_lie_in_the_run_folder(skipmap, job, items):
    ran = skipmap(*job)
    assert ran.code == 0
    folder = run_folder()
    names = {path.name for path in folder.iterdir()}
    assert names == {"groups", "lock", "map.json", "report.html", "result.json"}
    result = json.loads((folder / "result.json").read_text())
    assert folder.name == JobSpec.parse(result["spec"]).digest
    assert json.loads((folder / "map.json").read_text())["domains"]["words"]["skip"] == result["selected"]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    # The answer alone is on stdout; progress, notes and places are on stderr.
    assert ran.out.startswith("words on ")
    assert "Selected: blocks" in ran.out
    assert "level 2: " not in ran.out
    for line in ("dense: 1/1", "level 1 (single blocks): 6/6", "level 2: 3/3", "held-out check of "):
        assert f"\n{line}" in ran.err
    for name in ("map", "result", "report"):
        assert f"\nskipmap: {name}: {folder}/{name}." in ran.err
    assert items.read_text().count("\n") == 6


def test_json_is_one_document_with_unrounded_figures(skipmap, job, tmp_path):
    ran = skipmap(*job, "--json", "--out", "deep/m.json", "--result", "r.json")
    assert (ran.code, ran.out.count("\n")) == (0, 1)
    document = json.loads(ran.out)
    assert document.keys() >= PUBLISHED_KEYS
    assert document["schema"] == "skipmap.result/1"
    for row in [document["dense"], *document["evaluations"]]:
        assert row.keys() >= ROW_KEYS
        assert row["level"] == len(row["skip"])
    assert document["held_out"]["points"]
    assert all(point.keys() >= POINT_KEYS for point in document["held_out"]["points"])
    assert "per_prompt" not in ran.out
    kept = json.loads((tmp_path / "r.json").read_text())
    assert len(kept["dense"]["per_prompt"]) == kept["data"]["n_calibration"] == 2
    for part in ("search_digest", "selected", "cost", "timings"):
        assert kept[part] == document[part]
    for row, full in zip(document["evaluations"], kept["evaluations"], strict=True):
        assert row == {key: value for key, value in full.items() if key != "per_prompt"}
    assert (tmp_path / "deep" / "m.json").exists()
    assert not (run_folder() / "map.json").exists()


@pytest.mark.thorough
def test_resume_takes_over_what_is_finished(skipmap, job):
    job = [*job, "--max-depth", "1"]
    first = json.loads(skipmap(*job, "--json").out)
    before = written(run_folder())
    again = json.loads(skipmap(*job, "--json", "--resume").out)
    assert written(run_folder()) == before
    assert again["search_digest"] == first["search_digest"]
    assert again["held_out"] == first["held_out"]
    fresh = json.loads(skipmap(*job, "--json").out)
    assert fresh["search_digest"] == first["search_digest"]
    assert not before.items() & written(run_folder()).items()


def test_resume_without_an_earlier_run_begins(skipmap, job):
    assert skipmap(*job, "--resume", "--max-depth", "1").code == 0


def test_spec_file_and_options_that_override_it(skipmap, target, items, tmp_path):
    spec = {
        "target": {"id": str(target)},
        "draft": {"method": "prompt_lookup", "params": {"num_tokens": 4, "max_ngram": 2}},
        "domain": {"name": "words", "metric": "exact_match"},
        "calibration": {"source": "elsewhere.jsonl", "calibration_fraction": 0.5},
        "search": {"max_depth": 1, "eps": 0.4},
        "decoding": {"max_new_tokens": 8},
        "labels": {"team": "a"},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    ran = skipmap(
        *("profile", "--spec", "spec.json", "--calibration", items, "--metric", "f1"),
        *("--draft-param", "num_tokens=6", "--eps", "0.2", "--json"),
    )
    found = json.loads(ran.out)
    assert ran.code == 0
    assert found["spec"]["calibration"]["source"] == str(items)
    assert found["spec"]["domain"]["metric"] == "f1"
    assert found["spec"]["search"]["eps"] == 0.2
    assert found["spec"]["labels"] == {"team": "a"}
    assert found["draft"]["params"] == {"num_tokens": 6, "max_ngram": 2, "min_ngram": 1}
    assert (found["data"]["n_calibration"], found["data"]["n_held_out"]) == (3, 3)
    assert max(row["level"] for row in found["evaluations"]) == 1


def test_every_option_has_its_place_in_the_spec():
    options = {
        ("target", "id"): ("--target", "t"),
        ("target", "revision"): ("--revision", "main"),
        ("target", "dtype"): ("--dtype", "float32"),
        ("target", "device"): ("--device", "cpu"),
        ("draft", "method"): ("--draft", "sam"),
        ("domain", "name"): ("--domain", "qa"),
        ("domain", "metric"): ("--metric", "f1"),
        ("domain", "template"): ("--template", "few_shot"),
        ("domain", "shots"): ("--shots", 2),
        ("calibration", "source"): ("--calibration", "c"),
        ("calibration", "category"): ("--category", "rag"),
        ("calibration", "dataset_config"): ("--dataset-config", "en"),
        ("calibration", "dataset_split"): ("--dataset-split", "test"),
        ("calibration", "limit"): ("--limit", 20),
        ("calibration", "seed"): ("--seed", 3),
        ("search", "max_depth"): ("--max-depth", 4),
        ("search", "max_pool"): ("--max-pool", 5),
        ("search", "max_evaluations"): ("--max-evaluations", 60),
        ("search", "max_seconds"): ("--max-seconds", 1.5),
        ("search", "eps"): ("--eps", 0.1),
        ("search", "tau"): ("--tau", 0.2),
        ("search", "select"): ("--select", "fastest"),
        ("search", "accept_measure"): ("--accept-measure", "accepted_drafts"),
        ("decoding", "max_new_tokens"): ("--max-new-tokens", 7),
        ("decoding", "prefill"): ("--prefill", "dense"),
    }
    argv = ["profile", "--force-no-signal", "--column", "prompt=question", "--draft-param", "growth=2"]
    argv += [str(part) for pair in options.values() for part in pair]
    plain = spec_from(build_parser().parse_args(argv))
    spec = JobSpec.parse(plain).model_dump(mode="json")
    assert {place: spec[place[0]][place[1]] for place in options} == {p: o[1] for p, o in options.items()}
    assert spec["search"]["allow_no_signal"] is True
    assert spec["calibration"]["columns"] == {"prompt": "question"}
    assert spec["draft"]["params"] == {"growth": 2}
    # What is not given is left to the spec's defaults and the domain's preset.
    few = ["profile", "--target", "t", "--draft", "sam", "--domain", "qa", "--calibration", "c"]
    assert spec_from(build_parser().parse_args(few)) == {
        "target": {"id": "t"},
        "draft": {"method": "sam"},
        "domain": {"name": "qa"},
        "calibration": {"source": "c"},
    }


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("beam", {"beam_width": "--beam-width"}),
        ("random", {"draws": "--draws", "seed": "--search-seed"}),
        ("greedy", {"protect_first": "--protect-first", "protect_last": "--protect-last"}),
    ],
)
def test_options_of_a_strategy_have_their_place_in_the_spec(strategy, options):
    few = ["profile", "--target", "t", "--draft", "sam", "--domain", "qa", "--calibration", "c"]
    given = [part for option in options.values() for part in (option, "3")]
    plain = spec_from(build_parser().parse_args([*few, "--strategy", strategy, *given]))
    search = JobSpec.parse(plain).search
    assert (search.strategy, {name: getattr(search, name) for name in options}) == (
        strategy,
        dict.fromkeys(options, 3),
    )


def test_nothing_feasible_is_an_answer_too(skipmap, job, save_target, answered):
    # No block of this target is quiet.
    target = save_target()
    ran = skipmap(
        *job, "--target", target, "--calibration", answered(target), "--eps", "0", "--tau", "0", "--json"
    )
    document = json.loads(ran.out)
    assert ran.code == 0
    assert document["selected"] == []
    assert document["reason"].startswith("dense: ")
    assert json.loads((run_folder() / "map.json").read_text())["domains"]["words"]["skip"] == []


def test_dense_that_never_accepts_says_what_the_tolerance_then_means(skipmap, job):
    # No eight words occur twice.
    never = ("--draft-param", "min_ngram=8", "--draft-param", "max_ngram=8")
    ran = skipmap(*job, *never, "--max-depth", "1")
    assert ran.code == 0
    sentence = "accept length 1.00): every set meets the accept floor, so only the metric and the cost decide"
    assert sentence in ran.err
    assert sentence in ran.out


def test_no_signal_stops_after_dense_unless_forced(skipmap, job, write_items, prompts):
    rows = [{"id": i, "prompt": prompt, "reference": "zzz"} for i, prompt in enumerate(prompts)]
    data = write_items(rows)
    ran = skipmap(*job, "--calibration", data, "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["no_signal"], document["evaluations"]) == (0, True, [])
    assert "note: no signal: dense f1 0.000 is not above the trivial answer's" in ran.err
    forced = json.loads(skipmap(*job, "--calibration", data, "--force-no-signal", "--json").out)
    assert (forced["no_signal"], len(forced["evaluations"]) >= 6) == (True, True)
