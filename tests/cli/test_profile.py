from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from skipmap.cli.arguments import build_parser
from skipmap.cli.profile import spec_from
from skipmap.errors import Interrupted
from skipmap.profiling.job import open_job
from skipmap.profiling.store import RunFolder
from skipmap.spec import JobSpec

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


def run_folder():
    """The one run folder of this test."""
    (folder,) = Path("runs").iterdir()
    return folder


def stored(folder):
    """Number of finished groups of each kind on disk."""
    return Counter(file.name.split("-")[0] for file in (folder / "groups").glob("*.json"))


def written(folder):
    """When each file of a group was written."""
    return {file.name: file.stat().st_mtime_ns for file in (folder / "groups").glob("*.json")}


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


GOOD = [{"id": i, "prompt": "w1 w2", "reference": "w3"} for i in range(10)]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--draft", "oracle"], 2, "draft.method: 'oracle' is unknown; known: bild, clasp, draft_model"),
        (
            ["--draft-param", "x=1"],
            2,
            "draft.params.x: prompt_lookup has no such parameter; known: max_ngram",
        ),
        (["--draft-param", "num_tokens=NaN"], 2, "draft.params.num_tokens: Input should be a valid integer"),
        (["--draft-param", "num_tokens"], 2, "--draft-param: 'num_tokens' is not of the form name=value"),
        (["--metric", "meteor"], 2, "domain.metric: 'meteor' is no known metric; allowed: accuracy, bleu"),
        (["--template", "alpaca"], 2, "domain.template: unknown template 'alpaca'; known: chat"),
        (["--domain", "Poems!"], 2, "domain.name: String should match pattern"),
        (["--shots", "64"], 2, "domain.shots: 64 examples are asked for, but only 6 of 6 items have"),
        (["--shots", "-1"], 2, "domain.shots: Input should be greater than or equal to 0 (given: -1)"),
        (["--limit", "1"], 2, "calibration.limit: Input should be greater than or equal to 2 (given: 1)"),
        (["--eps", "nan"], 2, "search.eps: Input should be a finite number (given: nan)"),
        (["--tau", "1"], 2, "search.tau: Input should be less than 1 (given: 1.0)"),
        (["--max-seconds", "-1"], 2, "search.max_seconds: Input should be greater than 0 (given: -1.0)"),
        (["--max-seconds", "inf"], 2, "search.max_seconds: Input should be a finite number (given: inf)"),
        (
            ["--max-new-tokens", 10**9],
            2,
            "decoding.max_new_tokens: Input should be less than or equal to 65536",
        ),
        (["--select", "best"], 2, "search.select: Input should be 'paper', 'cheapest' or 'fastest'"),
        (["--category", "rag"], 2, "calibration.category: "),
        (
            ["--calibration", "none.jsonl"],
            3,
            "calibration.source: there is no file 'none.jsonl'; give a file",
        ),
        (["--calibration", "sample:poems"], 3, "calibration.source: no sample 'poems'; there are mmlu, qa"),
        (["--spec", "none.json"], 3, "--spec: no file 'none.json'"),
    ],
)
def test_bad_option_is_one_line_and_nothing_is_written(skipmap, job, monkeypatch, options, code, message):
    monkeypatch.setattr("skipmap.cli.profile.open_job", lambda _: pytest.fail("the target was loaded"))
    ran = skipmap(*job, *options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--target", "./nowhere"], 3, "target: ./nowhere does not exist; give a known name"),
        (
            ["--max-evaluations", "3"],
            2,
            "search.max_evaluations: 3 is less than dense and the first 6 sets of one block",
        ),
        (["--max-new-tokens", "65536"], 2, "calibration item 'item-"),
        (["--device", "tpu"], 2, "device: 'tpu' given; allowed: auto, cpu, cuda, cuda:N"),
        (["--revision", "main"], 2, "revision: 'main' given, but "),
    ],
)
def test_what_only_the_target_shows_leaves_nothing_behind(skipmap, job, options, code, message):
    ran = skipmap(*job, *options)
    assert (ran.code, ran.out) == (code, "")
    loading, problem = ran.err.splitlines()
    assert loading.startswith("skipmap: loading ")
    assert problem.startswith(f"skipmap: {message}")
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"junk": 1}, "junk: unknown field; remove it or check its spelling"),
        ({"search": {"depht": 1}}, "search.depht: unknown field"),
        ({"search": None}, "search: must be an object (given: None)"),
        ({"target": "x"}, "target: must be an object (given: 'x')"),
        ({"draft": {"params": [1]}}, "draft.params: must be an object (given: [1])"),
        (
            {"draft": {"params": {"a": {}}}},
            "draft.params.a: must be text, a finite number, true, false or null",
        ),
        ({"decoding": {"stop": "x"}}, "decoding.stop: must be a list (given: 'x')"),
        ([1], "--spec: spec.json holds no JSON object"),
        ("{", "--spec: spec.json is no readable JSON: "),
        ("[" * 100_000, "--spec: spec.json is no readable JSON: "),
    ],
)
@pytest.mark.parametrize("more", [(), ("--draft-param", "num_tokens=4")])
def test_bad_spec_file(skipmap, job, tmp_path, spec, message, more):
    text = spec if isinstance(spec, str) else json.dumps(spec)
    (tmp_path / "spec.json").write_text(text)
    ran = skipmap(*(job if "target" not in spec else ["profile"]), "--spec", "spec.json", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--target", "--draft", "--domain", "--calibration"])
def test_what_is_required_can_come_from_either_place(skipmap, job, option):
    place = job.index(option)
    ran = skipmap(*job[:place], *job[place + 2 :])
    assert ran.code == 2
    assert ran.err.startswith(f"skipmap: {option}: is required (or ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD + GOOD, "calibration file items.jsonl: id: '0' is given twice, at line 1 and line 11"),
        ([{"id": 1, "prompt": "w1"}], "calibration.source: the metric f1 can score none of the 1 items"),
        (
            GOOD[:1],
            "calibration.calibration_fraction: 0.2 of 1 items leaves 1 for calibration and 0 held out",
        ),
        ([], "calibration file items.jsonl: empty; give one JSON object a line"),
        (
            [
                {"question_id": i, "category": "ab"[i % 2], "turns": ["w1"], "reference": ["w2"]}
                for i in range(4)
            ],
            "calibration.category: required, since calibration file items.jsonl has several; choose one of",
        ),
    ],
)
def test_calibration_file_that_cannot_be_used(skipmap, job, write_items, data, message):
    ran = skipmap(*job, "--calibration", write_items(data))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert list(Path().iterdir()) == []


def test_broken_line_of_a_calibration_file_is_named(skipmap, job, items, tmp_path):
    broken = tmp_path / "broken.jsonl"
    for line, problem in (
        (b'{"id": 1,\n', "not valid JSON"),
        (b"\xff\xfe\n", "not valid UTF-8 at character 1"),
    ):
        broken.write_bytes(items.read_bytes() + line)
        ran = skipmap(*job, "--calibration", broken)
        assert ran.code == 2
        assert ran.err.startswith(f"skipmap: calibration file broken.jsonl, line 7: {problem}")


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (lambda d: (d / "model.safetensors").unlink(), 2, "has no *.safetensors weights; save the model as"),
        (
            lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"),
            2,
            "has no *.safetensors weights (only pytorch_model.bin, which can run code when loaded)",
        ),
        (
            lambda d: os.truncate(d / "model.safetensors", 4000),
            5,
            "if its files are damaged, fetch them again",
        ),
        (lambda d: edit(d, hidden_size=64), 2, "config.json is of another model"),
        (lambda d: edit(d, num_hidden_layers=7), 2, "lacks weights for 9 tensors (model.layers.6."),
        (lambda d: edit(d, num_hidden_layers=1), 2, "has 1 blocks; there is something to skip from 2 on"),
        (lambda d: edit(d, model_type="gpt2"), 2, "architecture 'gpt2' cannot run with skipped blocks"),
    ],
)
def test_target_directory_that_cannot_be_used(skipmap, job, target, tmp_path, change, code, message):
    folder = shutil.copytree(target, tmp_path / "target")
    change(folder)
    ran = skipmap(*job, "--target", folder)
    assert (ran.code, ran.out) == (code, "")
    problem = ran.err.splitlines()[-1]
    assert problem.startswith("skipmap: target: ")
    assert message in problem
    assert list(tmp_path.iterdir()) == [folder]


def edit(folder, **fields):
    """Change fields of a model's configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_places_that_cannot_be_written(skipmap, job, items, monkeypatch, tmp_path):
    monkeypatch.setattr("skipmap.cli.profile.open_job", lambda _: pytest.fail("the target was loaded"))
    # A folder cannot lie under a file, not even for root.
    (tmp_path / "file").write_text("")
    before = items.read_bytes()
    for options, code, message in (
        (
            ["--out", "file/m.json"],
            5,
            "--out: cannot write file/m.json: Not a directory; choose another place",
        ),
        (["--result", "file/r.json"], 5, "--result: cannot write file/r.json: Not a directory"),
        (["--runs", "file/runs"], 5, "--runs: cannot write file/runs/"),
        (["--out", tmp_path], 2, f"--out: {tmp_path} is a folder; give a file"),
        (["--out", items], 2, f"--out: {items} is what is read; give another file"),
        (["--out", "x.json", "--result", "./x.json"], 2, "--out: map, result and report need a file each"),
    ):
        ran = skipmap(*job, *options)
        assert (ran.code, ran.out) == (code, "")
        assert ran.err.startswith(f"skipmap: {message}")
        assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    assert items.read_bytes() == before


def test_link_stays_a_link(skipmap, job, tmp_path):
    (tmp_path / "latest.json").symlink_to("real.json")
    assert skipmap(*job, "--max-depth", "1", "--out", "latest.json").code == 0
    assert (tmp_path / "latest.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"] == "skipmap.map/1"


@pytest.mark.parametrize("last", ["groups", "map.json"])
def test_disk_that_fills_up_keeps_what_is_finished(skipmap, job, monkeypatch, last):
    sync, finished = os.fsync, []

    def full(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if f"/.{last}" in name or (f"/{last}/" in name and len(finished) == 2):
            raise OSError(28, "No space left on device")
        finished.append(name)
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ran = skipmap(*job)
    assert (ran.code, ran.out) == (5, "")
    folder = run_folder()
    problem = ran.err.splitlines()[-1]
    assert problem.startswith(f"skipmap: cannot write {folder}/{last}")
    assert problem.endswith(
        ": No space left on device; free some space or choose another place; "
        f"finished groups are kept in {folder}, add --resume to go on from there"
    )
    assert not [path for path in folder.rglob("*") if path.name.endswith(".partial")]
    before = written(folder)
    assert len(before) >= 2
    assert skipmap(*job, "--resume").code == 0
    assert before.items() <= written(folder).items()


def test_two_processes_on_one_job(skipmap, job):
    assert skipmap(*job, "--max-depth", "1").code == 0
    folder = run_folder()
    before = written(folder)
    with RunFolder(folder, "key").locked():
        ran = skipmap(*job, "--max-depth", "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        f"skipmap: run: another process is profiling the same job in {folder}; wait for it or stop it\n"
    )
    assert written(folder) == before


def test_interrupted_in_the_last_writes(skipmap, job, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("skipmap.cli.profile.render_report", interrupt)
        ran = skipmap(*job, "--max-depth", "1")
    assert (ran.code, ran.out) == (Interrupted.exit_code, "")
    assert "interrupted; finished groups are kept in " in ran.err
    assert not [path for path in run_folder().rglob("*") if path.name.endswith(".partial")]


# Waits in the first forward after two groups of single blocks, until it is stopped.
WAITING = """
import sys, time
from pathlib import Path
import torch
from skipmap.cli import main, profile
from skipmap.profiling.job import open_job

torch.set_num_threads(1)

def hook(progress):
    if len(list(Path("runs").glob("*/groups/single-*.json"))) == 2:
        print("here", file=sys.stderr, flush=True)
        time.sleep(60)

profile.open_job = lambda checked: open_job(checked, hook)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def pairs_job(job, tmp_path_factory):
    """The small job in groups of two blocks."""
    spec = tmp_path_factory.mktemp("spec") / "spec.json"
    spec.write_text('{"search": {"group_size": 2}}')
    return [*job, "--spec", str(spec), "--json"]


@pytest.fixture(scope="module")
def undisturbed():
    """Search digest of the job without an interruption; set by the first test that needs it."""
    return {}


def resumes(skipmap, job, undisturbed):
    """Resume the job and compare with one that nobody stopped."""
    before = written(run_folder())
    resumed = json.loads(skipmap(*job, "--resume").out)
    assert before.items() <= written(run_folder()).items()
    if not undisturbed:
        undisturbed |= json.loads(skipmap(*job, "--runs", "other").out)
    assert resumed["search_digest"] == undisturbed["search_digest"]


@pytest.mark.thorough
def test_ctrl_c_keeps_what_is_finished(skipmap, pairs_job, undisturbed, monkeypatch):
    def hook(progress):
        if len(list(Path("runs").glob("*/groups/single-*.json"))) == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("skipmap.cli.profile.open_job", lambda checked: open_job(checked, hook))
        ran = skipmap(*pairs_job)
    assert (ran.code, ran.out) == (130, "")
    folder = run_folder()
    message = f"interrupted; finished groups are kept in {folder}, add --resume to go on from there"
    assert ran.err.endswith(f"skipmap: {message}\n")
    assert stored(folder) == {"dense": 1, "single": 2}
    resumes(skipmap, pairs_job, undisturbed)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_process_goes_on_where_it_was(skipmap, pairs_job, undisturbed, number):
    command = [sys.executable, "-c", WAITING, *pairs_job]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "here\n":
                break
        process.send_signal(number)
        out, err = process.communicate()
    folder = run_folder()
    assert out == ""
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        message = f"interrupted; finished groups are kept in {folder}, add --resume to go on from there"
        assert err.endswith(f"skipmap: {message}\n")
        assert "Traceback" not in err
    assert stored(folder) == {"dense": 1, "single": 2}
    assert {path.name for path in folder.iterdir()} == {"groups", "lock"}
    resumes(skipmap, pairs_job, undisturbed)
