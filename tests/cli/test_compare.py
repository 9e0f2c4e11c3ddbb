from __future__ import annotations

import json

import pytest

from skipmap.calibration.sources import sample_names
from skipmap.drafts import registry
from skipmap.drafts.prompt_lookup import PromptLookup, PromptLookupParams
from skipmap.drafts.registry import draft_names, draft_type
from skipmap.target import loading


@pytest.fixture
def words(target, items):
    """Options of a comparison on the tiny target's own domain."""
    return [
        *("compare", "--target", str(target), "--domain", "words", "--metric", "f1"),
        *("--calibration", str(items), "--max-new-tokens", "12"),
    ]


def cells(out):
    """Rows of the printed table."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│" in line]


def test_table_document_and_page_agree(skipmap, words):
    drafts = "sam,token_recycling,token_recycling:update=accepted:width=3,none"
    ran = skipmap(*words, "--drafts", drafts, "--skip", "1,4", "--out", "deep/page.html")
    assert ran.code == 0
    assert ran.out.splitlines()[0].endswith(
        ", skip {1,4}; calibration prompts: 2 of words; held-out prompts took no part"
    )
    assert "bonus token included; plain decoding = 1" in ran.out
    for line in ("skipmap: loading ", "words: 0/2", "words: 2/2", "skipmap: page: deep/page.html"):
        assert f"\n{line}" in f"\n{ran.err}"
    document = json.loads(skipmap(*words, "--drafts", drafts, "--skip", "1,4", "--json").out)
    assert (document["schema"], document["skip"]) == ("skipmap.comparison/1", [1, 4])
    rows = document["domains"]["words"]["rows"]
    assert {row["draft"]: row["evaluator"] for row in rows} == {
        "sam": "replay",
        "token_recycling": "live",
        "token_recycling:update=accepted:width=3": "replay",
    }
    assert document["drafts"]["token_recycling:update=accepted:width=3"]["params"]["width"] == 3
    table = cells(ran.out)
    assert [row[0] for row in table] == [row["draft"] for row in rows]
    for shown, row in zip(table, rows, strict=True):
        low, high = row["interval"]
        assert shown[1] == f"{row['accept_length']:.3f} ({low:.2f} to {high:.2f})"
        assert shown[2:] == [
            f"{row['accepted_drafts']:.3f}",
            f"{row['tree_size']:.1f}",
            str(row["steps"]),
            row["evaluator"],
        ]
    with open("deep/page.html", encoding="utf-8") as file:
        page = file.read()
    assert page.startswith("<!doctype html>")
    assert all(f">{row['accept_length']:.2f}<" in page for row in rows)


def test_calibration_part_alone_is_compared_on(skipmap, words, items):
    document = json.loads(skipmap(*words, "--drafts", "sam", "--json").out)
    data = document["domains"]["words"]["data"]
    # 6 items, of which a fifth, rounded up, calibrates.
    assert (document["part"], data["n_calibration"], data["n_held_out"]) == ("calibration", 2, 4)
    assert items.read_text().count("\n") == 6


def test_several_domains_use_their_samples_and_one_loaded_target(skipmap, target, monkeypatch):
    loads = []
    real = loading.load_model

    def load(*args, **options):
        loads.append(args)
        return real(*args, **options)

    monkeypatch.setattr("skipmap.target.loaded.load_model", load)
    ran = skipmap(
        *("compare", "--target", target, "--domain", "translation, qa", "--drafts", "sam,prompt_lookup"),
        *("--limit", "10", "--max-new-tokens", "8", "--json"),
    )
    assert ran.code == 0
    assert len(loads) == 1
    domains = json.loads(ran.out)["domains"]
    assert list(domains) == ["translation", "qa"]
    for name, domain in domains.items():
        assert domain["spec"]["calibration"]["source"] == f"sample:{name}"
        assert domain["data"]["n_calibration"] == 2
    assert "\ntranslation: 1/1" in ran.err
    assert "\nqa: 1/1" in ran.err


def test_domains_are_columns(skipmap, target):
    ran = skipmap(
        *("compare", "--target", target, "--domain", "translation,qa", "--drafts", "sam"),
        *("--limit", "10", "--max-new-tokens", "1"),
    )
    assert ran.code == 0
    assert "A, translation" in ran.out
    assert "A, qa" in ran.out
    assert cells(ran.out) == [["sam", "no step", "no step"]]


class NeedyParams(PromptLookupParams):
    checkpoint: str


class Needy(PromptLookup):
    """A user's draft method that cannot be made without a checkpoint."""

    params_type = NeedyParams


def test_every_method_is_compared_unless_told_otherwise(skipmap, words, monkeypatch):
    monkeypatch.setitem(registry._BUILT_IN, "needy", Needy)
    ran = skipmap(*words, "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    needing = [
        name
        for name in draft_names()
        if any(field.is_required() for field in draft_type(name).params_type.model_fields.values())
    ]
    assert sorted(document["drafts"]) == [name for name in draft_names() if name not in needing]
    assert [note.partition(" ")[0] for note in document["notes"]] == needing
    note = document["notes"][needing.index("needy")]
    assert note == (
        "needy is left out: it cannot be used with its defaults (checkpoint: Field required (given: {}))"
    )
    assert f"\nskipmap: note: {note}\n" in f"\n{ran.err}"
    given = json.loads(skipmap(*words, "--draft-param", "needy.checkpoint=a,b:c", "--json").out)
    assert given["drafts"]["needy:checkpoint=a,b:c"]["params"]["checkpoint"] == "a,b:c"
    assert [note.partition(" ")[0] for note in given["notes"]] == [
        name for name in needing if name != "needy"
    ]


def test_shared_parameters_yield_to_a_variants_own(skipmap, words):
    options = ("--drafts", "sam,sam:min_match=3,prompt_lookup", "--draft-param", "sam.min_match=2")
    drafts = json.loads(skipmap(*words, *options, "--json").out)["drafts"]
    assert {name: draft["params"].get("min_match") for name, draft in drafts.items()} == {
        "sam:min_match=2": 2,
        "sam:min_match=3": 3,
        "prompt_lookup": None,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--drafts", "oracle"], "--drafts: 'oracle' is unknown; known: "),
        (["--drafts", "sam,,pia"], "--drafts: 'sam,,pia' has an empty name; "),
        (["--drafts", "none"], "--drafts: none is plain decoding, whose accept length is 1; name a"),
        (["--drafts", "sam:depth=3"], "--drafts: sam: depth: sam has no such parameter; known: corpus, "),
        (["--drafts", "sam:min_match=0"], "--drafts: sam: min_match: Input should be greater than or equal"),
        (["--drafts", "sam:min_match"], "--drafts: sam:min_match: 'min_match' is not of the form name=value"),
        (["--drafts", "sam,pia,sam"], "--drafts: 'sam' is given twice; leave one out"),
        (
            ["--drafts", "sam,sam:min_match=1"],
            "--drafts: 'sam:min_match=1' is given twice, which is sam with its parameters; leave one out",
        ),
        (["--draft-param", "min_match=2"], "--draft-param: 'min_match' names no draft method; give NAME.key"),
        (
            ["--drafts", "sam", "--draft-param", "pia.x=2"],
            "--draft-param: 'pia' is not compared; compared are sam",
        ),
        (
            ["--drafts", "sam", "--draft-param", "sam.min_match=0"],
            "--draft-param: sam: min_match: Input should be",
        ),
        (["--domain", "qa,qa"], "--domain: 'qa' is given twice; name each domain once"),
        (["--domain", "qa,mmlu"], "--calibration: belongs to one domain, and --domain names 2; leave it out"),
        (["--skip", "3,x"], "--skip: 'x' is no block index"),
        (["--skip", "9"], "--skip: block 9 does not exist; the target has blocks 0..5"),
        (["--max-new-tokens", "0"], "--max-new-tokens: Input should be greater than or equal to 1"),
        (["--dtype", "int8"], "--dtype: Input should be 'auto', 'float32'"),
        (["--category", "cooking"], "--category: "),
        (["--out", "."], "--out: . is a folder; give a file"),
    ],
)
def test_bad_option_is_one_line_that_names_it(skipmap, words, options, message):
    one = () if "--drafts" in options else ("--drafts", "sam")
    ran = skipmap(*words, *options, *one)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("poems", "--domain: no preset 'poems'; presets are "),
        ("qa,poems", "--domain: no preset 'poems'; presets are "),
        ("qa,", "--domain: "),
        ("math", f"--calibration: no sample is shipped for 'math' (there are {', '.join(sample_names())}); "),
    ],
)
def test_domains_without_prompts_are_told_what_to_give(skipmap, target, domain, message):
    ran = skipmap("compare", "--target", target, "--domain", domain, "--drafts", "sam")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {message}")
    assert ran.err.count("\n") == 1


def test_prompts_are_not_overwritten_by_the_page(skipmap, words, items):
    before = items.read_bytes()
    ran = skipmap(*words, "--out", items)
    assert ran.code == 2
    assert ran.err.startswith(f"skipmap: --out: {items} is what is read; give another file")
    assert items.read_bytes() == before
