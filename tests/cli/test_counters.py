from __future__ import annotations

import json
from copy import deepcopy

import pytest

COUNTERS = ("accepted_histogram", "proposed_histogram", "tree_size", "draft_seconds", "verify_seconds")


@pytest.fixture
def shown(skipmap, tmp_path):
    """Rows of the drafting table as ``show`` prints it for a document: name -> cells. None without the table."""

    def show(document):
        path = tmp_path / "document.json"
        path.write_text(json.dumps(document))
        ran = skipmap("show", path)
        assert (ran.code, ran.err) == (0, "")
        _, title, table = ran.out.partition(" Drafting ")
        if not title:
            assert "Drafting" not in ran.out
            return None
        lines = [line for line in table.splitlines() if line[:1] in ("┃", "│")]
        assert max(map(len, lines)) <= 140
        rows = [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in lines]
        heads = [" ".join(cells) for cells in zip(*rows[:2], strict=True)][1:]
        return {"": heads} | {name: cells for name, *cells in rows[2:]}

    return show


@pytest.fixture
def document(finished):
    """The finished result with counters that are easy to follow."""
    document = deepcopy(finished.document)
    selected = document["selected"]
    assert selected
    held_out = document["held_out"]

    def of(rows):
        return next(row for row in rows if row["skip"] == selected)

    sides = (
        (document["dense"], [6, 1, 2, 0, 1], [4, 1, 3, 0, 2]),
        (of(document["evaluations"]), [8, 2], [5, 5]),
        (held_out["dense"], [20, 0, 0, 0, 0, 0, 0, 0, 0, 20], [10, 0, 0, 0, 0, 0, 0, 0, 0, 30]),
        (of(held_out["points"]), [40], [40]),
    )
    for row, accepted, proposed in sides:
        row |= {"accepted_histogram": accepted, "proposed_histogram": proposed, "steps": sum(accepted)}
    document["dense"]["tree_size"], of(document["evaluations"])["tree_size"] = 2.5, 3.25
    held_out["dense"] |= {"draft_seconds": 0.02, "verify_seconds": 1.2}
    of(held_out["points"]).update({"draft_seconds": 0.08, "verify_seconds": 0.8})
    for row in (held_out["dense"], of(held_out["points"])):
        for prompt in row["per_prompt"]:
            prompt["scored"] = 80 / len(row["per_prompt"])
    return document


def test_dense_beside_selected_on_both_parts(shown, document):
    skip = ",".join(map(str, document["selected"]))
    assert shown(document) == {
        "": ["calibration dense", f"calibration skip {skip}", "held-out dense", f"held-out skip {skip}"],
        "verification steps": ["10", "10", "40", "40"],
        "positions scored a step": ["2.50", "3.25", "2.00", "2.00"],
        "steps without a draft": ["40.0 %", "50.0 %", "25.0 %", "100.0 %"],
        "steps accepting 0 drafted": ["60.0 %", "80.0 %", "50.0 %", "100.0 %"],
        "steps accepting 1 drafted": ["10.0 %", "20.0 %", "0.0 %", "0.0 %"],
        "steps accepting 2-3 drafted": ["20.0 %", "0.0 %", "0.0 %", "0.0 %"],
        "steps accepting 4-7 drafted": ["10.0 %", "0.0 %", "0.0 %", "0.0 %"],
        "steps accepting 8+ drafted": ["0.0 %", "0.0 %", "50.0 %", "0.0 %"],
        "acceptance at draft position 1": ["66.7 % of 6", "40.0 % of 5", "66.7 % of 30", "n/a"],
        "acceptance at draft position 2": ["60.0 % of 5", "n/a", "66.7 % of 30", "n/a"],
        "acceptance at draft position 3": ["50.0 % of 2", "n/a", "66.7 % of 30", "n/a"],
        "acceptance at draft position 4": ["50.0 % of 2", "n/a", "66.7 % of 30", "n/a"],
        "acceptance at draft position 8": ["n/a", "n/a", "66.7 % of 30", "n/a"],
        "drafting, ms a step": ["n/a", "n/a", "0.500", "2.000"],
        "verifying, ms a step": ["n/a", "n/a", "30.000", "20.000"],
    }


def test_dense_alone_where_nothing_is_selected_or_checked(shown, document):
    changes = {"selected": [], "held_out": {"dense": None, "points": [], "not_checked": []}}
    table = shown(document | changes)
    assert table[""] == ["calibration dense"]
    # Nothing accepted more than 4, nothing drafted deeper, and nothing was timed.
    assert (
        not {
            "steps accepting 8+ drafted",
            "acceptance at draft position 8",
            "drafting, ms a step",
        }
        & table.keys()
    )


def test_results_of_older_versions_are_shown_without_the_table(shown, document):
    held_out = document["held_out"]
    for row in (document["dense"], *document["evaluations"], held_out["dense"], *held_out["points"]):
        for name in COUNTERS:
            row.pop(name, None)
    assert shown(document) is None


def test_counters_of_a_real_job_add_up(shown, finished):
    table = shown(finished.document)
    rows = [finished.document["dense"], finished.document["held_out"]["dense"]]
    assert [table["verification steps"][i] for i in (0, 2)] == [str(row["steps"]) for row in rows]
    shares = [cells for name, cells in table.items() if name.startswith("steps accepting")]
    for column in zip(*shares, strict=True):
        assert sum(float(cell.removesuffix(" %")) for cell in column) == pytest.approx(100, abs=0.3)
    assert all(float(cell) > 0 for cell in table["verifying, ms a step"][2:])
