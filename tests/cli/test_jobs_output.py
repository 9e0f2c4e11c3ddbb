"""What a job of the real API has found, on the command line."""

from __future__ import annotations

import csv
import io
import json

from models.chunks import skip_of
from models.evaluations import columns_of
from skipmap.profiling.documents import read_document, without_prompts
from skipmap.profiling.records import Evaluation, PromptRecord
from skipmap.skipset import SkipSet


def test_evaluations(ended, skipmap):
    ran = skipmap("jobs", "evaluations", ended)
    assert ran.code == 0
    assert "accept length" in ran.out
    rows = json.loads(skipmap("jobs", "evaluations", ended, "--level", "2", "--feasible", "--json").out)
    assert [row["skip"] for row in rows] == [[0, 1], [0, 4], [1, 4]]
    options = ("--sort", "skip", "--order", "desc", "--limit", "1", "--json")
    (last,) = json.loads(skipmap("jobs", "evaluations", ended, *options).out)
    assert last["skip"] == [1, 4]
    table = list(csv.DictReader(io.StringIO(skipmap("jobs", "evaluations", ended, "--csv").out)))
    assert len(table) == 9
    assert {"skip", "metric"} <= table[0].keys()
    assert skipmap("jobs", "evaluations", ended, "--csv", "--limit", "1").code == 2


def store_evaluations(worker, job_id, document):
    """Put a document's evaluations in the place of the job's own, which are not those of its result."""
    rows = [
        Evaluation(
            SkipSet.of(row["skip"]),
            row["evaluator"],
            tuple(PromptRecord.from_json(record) for record in row["per_prompt"]),
            row["metric"],
        )
        for row in document["evaluations"]
    ]
    columns = columns_of(rows, 1.0)
    worker.sql("DELETE FROM evaluations WHERE job_id = :id AND depth > 0", id=job_id)
    names = ", ".join(columns)
    for values in zip(*columns.values(), strict=True):
        skip = skip_of(values[0]).to_list()
        worker.sql(
            f"INSERT INTO evaluations (job_id, skip, depth, {names}) "
            f"VALUES (:id, CAST(:skip AS smallint[]), :depth, {', '.join(f':{name}' for name in columns)})",
            id=job_id,
            skip=skip,
            depth=len(skip),
            **dict(zip(columns, values, strict=True)),
        )


def test_result(ended, skipmap, finished, tmp_path, worker):
    store_evaluations(worker, ended, finished.document)
    assert "Selected" in skipmap("jobs", "result", ended).out
    shown = json.loads(skipmap("jobs", "result", ended, "--json").out)
    assert shown == without_prompts(finished.document)
    out, domain_map = tmp_path / "result.json", tmp_path / "map.json"
    ran = skipmap("jobs", "result", ended, "--per-prompt", "--out", out, "--map", domain_map)
    assert (ran.code, ran.err) == (0, f"skipmap: result: {out}\nskipmap: map: {domain_map}\n")
    assert read_document(out) == finished.document
    assert read_document(domain_map)["domains"]["words"]["skip"] == finished.document["selected"]
    assert skipmap("jobs", "result", ended, "--out", out, "--map", out).code == 2


def test_report(ended, skipmap, tmp_path):
    page = tmp_path / "report.html"
    assert skipmap("jobs", "report", ended, "--out", page) == (0, f"{page}\n", "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_there_is_no_result_yet(submit, skipmap, tmp_path):
    job_id = submit()
    for command in (("result", job_id), ("report", job_id, "--out", tmp_path / "page.html")):
        ran = skipmap("jobs", *command)
        assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)
    assert not (tmp_path / "page.html").exists()
