from __future__ import annotations

import json

import pytest
import torch

from skipmap.errors import InvalidInput, NotFound
from skipmap.profiling.check import check_job
from skipmap.profiling.documents import read_document, without_prompts
from skipmap.profiling.job import open_job
from skipmap.profiling.result import build_result, search_digest
from skipmap.profiling.run import run_job
from skipmap.profiling.store import RunFolder
from skipmap.target.model import TargetModel
from tests.profiling.report.conftest import make_result, prompt

RESULT = """schema spec search_digest target draft metric data batch_plan baseline dense pool evaluations front
operating_points selected reason budget cost held_out no_signal notes versions timings"""
PARTS = {
    "target": "id revision fingerprint num_layers block_types dtype device template",
    "draft": "method params fingerprint lossy",
    "data": "digest n_calibration n_held_out left_out shots",
    "operating_points": "paper cheapest fastest",
    "cost": "fixed per_type spread tree_size context_length device measured finalists",
    "held_out": "dense points not_checked",
    "budget": """exhaustive stopped evaluated depth_reached max_depth depth_clamped pool_found pool_cut
    not_evaluated""",
}
ROW = """skip level accept_length accepted_drafts steps tree_size
accepted_histogram proposed_histogram idle_prompts metric cost_ratio feasible evaluator
per_prompt"""
POINT = """skip accept_length accepted_drafts steps accepted_histogram proposed_histogram metric tokens_per_second
draft_seconds verify_seconds speedup intervals passes_gate per_prompt"""


def test_all_fields_are_there(result):
    document = result()
    assert document.keys() == set(RESULT.split())
    assert document["schema"] == "skipmap.result/1"
    for part, fields in PARTS.items():
        assert document[part].keys() == set(fields.split()), part
    for row in (document["dense"], *document["evaluations"]):
        assert row.keys() == set(ROW.split())
    for point in document["held_out"]["points"]:
        assert point.keys() == set(POINT.split())
        assert point["intervals"].keys() == {"accept_length_change", "metric_change", "speedup"}
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_rows_agree_with_one_another(result):
    document = result()
    rows = {tuple(row["skip"]): row for row in document["evaluations"]}
    dense, pool, search = document["dense"], document["pool"], document["spec"]["search"]
    assert () not in rows
    assert list(rows) == sorted(rows, key=lambda skip: (len(skip), skip))
    assert dense["cost_ratio"] == 1.0
    floor_a = (1 - search["eps"]) * dense["accept_length"]
    floor_m = (1 - search["tau"]) * dense["metric"]
    for skip, row in rows.items():
        assert row["level"] == len(skip)
        meets = (row["accept_length"] >= floor_a - 1e-9, row["metric"] >= floor_m - 1e-9)
        assert row["feasible"] == all(meets)
        assert len(skip) == 1 or set(skip) <= set(pool)
        emitted = sum(p["emitted"] for p in row["per_prompt"])
        assert row["accept_length"] == emitted / row["steps"]
        assert len(row["per_prompt"]) == document["data"]["n_calibration"]
    assert all(rows[tuple(skip)]["feasible"] for skip in document["front"])
    assert document["selected"] == document["operating_points"]["paper"]
    assert sum(document["batch_plan"]["prompts_per_batch"]) == document["data"]["n_calibration"]


def test_digest_is_in_the_document_and_survives_json(result):
    document = result()
    assert search_digest(json.loads(json.dumps(document))) == document["search_digest"]


def change(document, path, value):
    *parents, last = path.split(".")
    for key in parents:
        document = document[int(key) if key.isdigit() else key]
    assert document[last] != value
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("timings.wall_seconds", 1.0),
        ("spec.name", "other"),
        ("spec.labels", {"team": "x"}),
        ("spec.target.id", "elsewhere"),
        ("target.id", "elsewhere"),
        ("target.revision", "abc"),
        ("cost.fixed", 9.0),
        ("dense.cost_ratio", 2.0),
        ("evaluations.0.cost_ratio", 9.0),
        ("held_out.dense.tokens_per_second", 9.0),
        ("operating_points.fastest", [0]),
        ("versions.machine", "arm64"),
        ("notes", ["x"]),
    ],
)
def test_digest_leaves_out_timings_names_and_ids(result, path, value):
    document = result()
    change(document, path, value)
    assert search_digest(document) == document["search_digest"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("target.fingerprint", "x"),
        ("draft.params.num_tokens", 5),
        ("data.digest", "x"),
        ("metric.signature", "x"),
        ("dense.accept_length", 1.5),
        ("dense.per_prompt.0.text", "x"),
        ("evaluations.0.metric", 0.123),
        ("evaluations.0.per_prompt.1.steps", 99),
        ("evaluations.0.evaluator", "live"),
        ("pool", [0]),
        ("front", []),
        ("no_signal", True),
        ("budget.not_evaluated", {"3": 1}),
        ("spec.search.eps", 0.2),
        ("spec.decoding.seed", 1),
    ],
)
def test_digest_covers_figures_and_what_decides_them(result, path, value):
    document = result()
    change(document, path, value)
    assert search_digest(document) != document["search_digest"]


def test_digest_is_that_of_the_whole_text_whether_rows_are_held_or_handed_over():
    """Its value must not change: results of other times and places are compared by it."""
    document = make_result({(0,): (1.99, 0.41), (1,): (1.5, 0.2)}, selected=(0,), front=[(0,)], pool=(0,))
    document["spec"] |= {
        "calibration": {"source": "x.jsonl", "seed": 0},
        "draft": {"method": "sam", "params": {"corpus": "c"}},
    }
    document["evaluations"][0]["per_prompt"] = [prompt("één", 10, 20, [0.5])]
    known = "3af7dd7e43e1f8f4e8e73a21f169b3a07bc2d0ea25ae93252143dd83f9e28a92"
    assert search_digest(document) == known
    rows = iter(document["evaluations"])
    assert search_digest(document | {"evaluations": []}, rows) == known
    document["evaluations"] = []
    assert search_digest(document) == "15d011277cdfc0a361e78aee11cfb85031b625a7679705614b4320b63ffc2c5a"


def test_rows_may_stay_where_they_are(make_spec, calibration, tmp_path):
    job = open_job(check_job(make_spec(calibration())))
    findings = run_job(job, RunFolder(tmp_path, job.content_key))
    whole = build_result(findings)
    ticks = []
    short = build_result(findings, per_prompt=False, tick=lambda: ticks.append(1))
    assert len(ticks) == len(short["evaluations"]) > 5
    assert short["search_digest"] == whole["search_digest"]
    assert short == whole | {"evaluations": without_prompts(whole)["evaluations"]}
    assert short["dense"]["per_prompt"]
    assert short["held_out"]["dense"]["per_prompt"]


def test_without_prompts_takes_out_the_rows_and_nothing_else(result):
    document = result()
    short = without_prompts(document)
    assert "per_prompt" not in json.dumps(short)
    assert document == result()
    assert short["dense"] == {k: v for k, v in document["dense"].items() if k != "per_prompt"}
    assert short.keys() == document.keys()
    assert short["held_out"]["points"][0]["intervals"] == document["held_out"]["points"][0]["intervals"]


def test_split_batches_are_marked_and_change_no_figure(
    result, make_spec, calibration, run_spec, tmp_path, monkeypatch
):
    real = TargetModel.prefill

    def short_of_memory(self, skips, *args, **kwargs):
        if len(skips) > 1:
            raise torch.OutOfMemoryError("no room")
        return real(self, skips, *args, **kwargs)

    monkeypatch.setattr(TargetModel, "prefill", short_of_memory)
    split = run_spec(make_spec(calibration()), tmp_path)
    marked = {tuple(row["skip"]) for row in split["evaluations"] if row.get("batch_split")}
    # In groups of two, the last single and the last pair stand alone.
    assert marked == {(0,), (1,), (2,), (3,), (1, 2), (1, 3)}
    assert "batch_split" not in split["dense"]
    assert split["search_digest"] == result()["search_digest"]


def test_read_document(result, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result()), encoding="utf-8")
    assert read_document(path) == result()


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '"skipmap.result/1"', "{}", '{"schema": 3}', '{"schema": "x/1"}']
)
def test_other_files_are_refused_by_name(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=rf"^{path}: is (no readable JSON document|neither)"):
        read_document(path)


def test_file_that_cannot_be_read(tmp_path):
    with pytest.raises(NotFound, match=f"no file '{tmp_path / 'none.json'}'"):
        read_document(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match=rf"^{tmp_path}: is no readable JSON document"):
        read_document(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    with pytest.raises(InvalidInput, match="is no readable JSON document"):
        read_document(tmp_path / "binary")
