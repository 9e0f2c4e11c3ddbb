from __future__ import annotations

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a document (or text) as a file."""

    def make(document):
        path = tmp_path / "document.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    return make


def test_result_as_table(skipmap, finished):
    ran = skipmap("show", finished.result)
    assert (ran.code, ran.err) == (0, "")
    document = finished.document
    head, title, _ = ran.out.partition(" Drafting ")
    assert title
    lines = head.splitlines()
    assert lines[0].startswith("words on ")
    table = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    rows = {row[0]: row for row in table}
    assert len(rows) == 1 + len(document["evaluations"])
    for row in [document["dense"], *document["evaluations"]]:
        shown = rows[",".join(map(str, row["skip"])) or "dense"]
        assert shown[1] == f"{row['accept_length']:.3f}"
        assert shown[3] == f"{row['metric']:.4f}"
        assert shown[4] == f"{row['cost_ratio']:.3f}"
        assert shown[5] == ("yes" if row["feasible"] else "no")
    paper = document["operating_points"]["paper"]
    assert "paper" in rows[",".join(map(str, paper))][6]
    # Feasible ones first, after dense.
    marks = [row[5] for row in table[1:]]
    assert marks == sorted(marks, reverse=True)


def test_what_a_strategy_found_stands_beside_its_configurations(skipmap, finished, write):
    rows = [row | {"admitted": not row["feasible"]} for row in finished.document["evaluations"]]
    strategy = {"name": "beam", "width": 1, "levels": [{"level": 1, "evaluated": 4, "kept": [[2], [3]]}]}
    ran = skipmap("show", write(finished.document | {"evaluations": rows, "strategy": strategy}))
    table = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ran.out.splitlines() if "│" in line]
    # Configurations come first, and other tables begin with small numbers, too.
    shown = {cells[0]: cells for cells in reversed(table)}
    for row in rows:
        marks = ["yes" if row[name] else "no" for name in ("feasible", "admitted")]
        assert shown[",".join(map(str, row["skip"]))][5:7] == marks
    assert ["1", "4", "2", "{2} {3}"] in table
    assert "Each level was grown from at most 1 sets" in ran.out


def test_long_tables_say_how_much_is_left_out(skipmap, finished, write):
    rows = [finished.document["evaluations"][0] | {"skip": [i], "feasible": False} for i in range(100, 140)]
    ran = skipmap("show", write(finished.document | {"evaluations": rows + finished.document["evaluations"]}))
    hidden = len(rows) + len(finished.document["evaluations"]) - 30
    assert f"{hidden} more rows in --json" in ran.out


def test_map_as_table(skipmap, finished):
    ran = skipmap("show", finished.map)
    assert (ran.code, ran.err) == (0, "")
    (row,) = (line for line in ran.out.splitlines() if line.startswith("│"))
    entry = json.loads(finished.map.read_text())["domains"]["words"]
    assert entry["held_out"]["passes_gate"]
    assert [cell.strip() for cell in row.split("│")[1:-1]] == [
        "words",
        ",".join(map(str, entry["skip"])),
        f"{entry['accept_length']['dense']:.3f} -> {entry['accept_length']['sparse']:.3f}",
        f"f1 {entry['metric']['dense']:.4f} -> {entry['metric']['sparse']:.4f}",
        f"{entry['cost_ratio']:.3f}",
        f"{entry['speedup']:.3f}x",
        "{:.3f}x ({:.3f} to {:.3f})".format(
            entry["held_out"]["speedup"], *entry["held_out"]["intervals"]["speedup"]
        ),
        # Four prompts are few.
        "passes, not certain",
    ]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (None, "not checked"),
        ({"passes_gate": False}, "fails"),
        ({"n": 64, "certain": True}, "confirmed"),
        ({"n": 64, "certain": False}, "passes, not certain"),
    ],
)
def test_what_held_out_prompts_say_of_a_map(skipmap, finished, write, changes, verdict):
    document = json.loads(finished.map.read_text())
    entry = document["domains"]["words"]
    entry["held_out"] = None if changes is None else entry["held_out"] | changes
    assert f" {verdict} " in skipmap("show", write(document)).out


def test_json_is_the_document_without_prompts(skipmap, finished):
    ran = skipmap("show", finished.result, "--json")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 1)
    shown = json.loads(ran.out)
    assert "per_prompt" not in ran.out
    assert shown["evaluations"][0]["metric"] == finished.document["evaluations"][0]["metric"]
    assert shown.keys() == finished.document.keys()
    assert json.loads(skipmap("show", finished.map, "--json").out) == json.loads(finished.map.read_text())


def test_names_are_printed_as_they_are(skipmap, finished, write):
    odd = "models/[bold]x[/y] :smile:"
    document = finished.document | {"target": finished.document["target"] | {"id": odd}}
    assert f"words on {odd} with draft" in skipmap("show", write(document)).out
    domain_map = json.loads(finished.map.read_text())
    domain_map["target"]["id"] = odd
    assert f"map words for {odd} (6 blocks)" in skipmap("show", write(domain_map)).out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is no readable JSON document"),
        ("[" * 100_000, "is no readable JSON document"),
        ("[1]", "is neither a skipmap.result/1 nor a skipmap.map/1 document"),
        ('{"schema": ["x"]}', "is neither a skipmap.result/1 nor a skipmap.map/1 document"),
        ('{"schema": "skipmap.result/9"}', "is neither a skipmap.result/1 nor a skipmap.map/1 document"),
        ('{"schema": "skipmap.result/1"}', "lacks baseline, budget, "),
        (
            '{"schema": "skipmap.map/1", "target": {}, "draft": {}, "domains": {}}',
            "lacks fallback, name; make",
        ),
    ],
)
@pytest.mark.parametrize("command", [("show",), ("show", "--json"), ("report",)])
def test_what_is_no_document_is_refused(skipmap, write, tmp_path, command, text, problem):
    path = write(text)
    ran = skipmap(*command, path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {path}: {problem}")
    assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_truncated_or_edited_result_is_named(skipmap, finished, write):
    text = finished.result.read_text()
    path = write(text[: len(text) // 2])
    assert skipmap("show", path).err.startswith(f"skipmap: {path}: is no readable JSON document")
    for part, value in (("dense", {}), ("selected", [99]), ("evaluations", ["x"])):
        path = write(finished.document | {part: value})
        ran = skipmap("show", path)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert ran.err.startswith(f"skipmap: {path}: cannot be used (")
        assert "write it again with `skipmap profile`" in ran.err


def test_file_that_is_not_there(skipmap, tmp_path):
    assert skipmap("show", "none.json") == (3, "", "skipmap: no file 'none.json'\n")
    assert skipmap("show", tmp_path).code == 2
