from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from skipmap.errors import InvalidInput
from skipmap.profiling.report import render_comparison

Make = Callable[..., Any]
EVIL = '<script>alert("1")</script>\'&'
SCORES = {
    "qa": {"samd": 1.8, "sam": 1.5, "token_recycling:update=accepted": 1.25},
    "mmlu": {"samd": 1.1, "sam": 1.4, "token_recycling:update=accepted": 1.0},
}


def heads(found: Any) -> list[str]:
    return [text for _, text in found.all("h1")]


def test_page_is_self_contained_and_has_no_script(comparison: Make) -> None:
    html = render_comparison(comparison(SCORES))
    assert html == render_comparison(comparison(SCORES))
    assert "://" not in html
    assert "@import" not in html
    assert "<script" not in html
    assert all(target.startswith("#") for target in re.findall(r'\b(?:src|href|action)="([^"]*)', html))


def test_ids_are_unique_and_pictures_are_named(comparison: Make, page: Make) -> None:
    elements = page(render_comparison(comparison(SCORES))).elements
    ids = [attrs["id"] for _, attrs, _ in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    named = " ".join(attrs.get("aria-labelledby", "") for _, attrs, _ in elements).split()
    assert named
    assert set(named) <= set(ids)
    pictures = [attrs for tag, attrs, _ in elements if tag == "svg" and "aria-hidden" not in attrs]
    assert [attrs["role"] for attrs in pictures] == ["img", "img"]


def test_tables_have_every_figure(comparison: Make, page: Make) -> None:
    found = page(render_comparison(comparison(SCORES)))
    cells = [text for _, text in found.all("td", "num")]
    # A and its interval by draft, then domain.
    assert cells[:6] == [
        *("1.801.60 to 2.30", "1.100.90 to 1.60"),
        *("1.501.30 to 2.00", "1.401.20 to 1.90"),
        *("1.251.05 to 1.75", "1.000.80 to 1.50"),
    ]
    assert [text[:4] for _, text in found.all("td", "best")] == ["1.80", "1.40"]
    # Accepted drafts, positions, steps, share without an accepted draft, acceptance at positions 1 to 4.
    assert cells[6:14] == ["0.80", "3.5", "10", "60.0 %", "50.0 %", "12.5 %", "–", "–"]  # noqa: RUF001
    assert len(cells) == 6 + 2 * 3 * 8
    assert [text for attrs, text in found.all("th") if attrs.get("scope") == "rowgroup"] == ["qa", "mmlu"]


def test_words_and_record_are_on_the_page(comparison: Make, page: Make) -> None:
    document = comparison(SCORES, skip=[1, 3], notes=["needy is left out"])
    text = page(render_comparison(document)).text
    for sentence in (
        "3 draft methods on tiny, 2 blocks of 4 skipped, {1,3}.",
        "Calibration prompts alone were used (4 of qa, 4 of mmlu); held-out prompts took no part.",
        "bonus token included; plain decoding = 1. More is better",
        "The bonus token, which the target adds to the accepted drafts, counts",
        "needy is left out",
        "Copies what came before.",
        "f" * 64,
    ):
        assert sentence in text


def test_headline_names_the_leaders(comparison: Make, page: Make) -> None:
    def headline(scores: Any) -> str:
        (text,) = heads(page(render_comparison(comparison(scores))))
        return str(text)

    assert headline(SCORES) == "Longest accept length: samd in qa; sam in mmlu"
    qa = {"qa": SCORES["qa"]}
    assert headline(qa) == "Longest accept length in qa: samd, 1.80 tokens a step"
    assert headline({"qa": SCORES["qa"] | {"sam": 1.8}}) == (
        "Longest accept length in qa: 2 methods alike, 1.80 tokens a step"
    )
    assert headline({"qa": {"sam": 1.8, "samd": 1.8}}) == (
        "Longest accept length in qa: all alike, 1.80 tokens a step"
    )
    assert (
        headline({"qa": {"sam:growth=2": 1.8}}) == "Accept length of sam (growth=2) in qa: 1.80 tokens a step"
    )
    assert headline({d: {"sam": 1.8} for d in ("qa", "rag")}) == "Accept length of sam in 2 domains"
    assert headline({"qa": {"sam": None}}) == "No accept length: no answer took a verification step"
    four = {f"d{n}": {f"m{m}": 2.0 if m == n else 1.5 for m in range(4)} for n in range(4)}
    assert headline(four) == "Accept length of 4 draft methods in 4 domains"


def test_lossy_drafts_are_marked(comparison: Make, page: Make) -> None:
    document = comparison(SCORES)
    assert not page(render_comparison(document)).all("span", "tag")
    document["drafts"]["sam"]["lossy"] = True
    found = page(render_comparison(document))
    assert [text for _, text in found.all("span", "tag")] == ["lossy"]
    assert "Lossy: its acceptance rule changes the answers." in found.text


def test_user_text_stays_text(comparison: Make, page: Make) -> None:
    document = comparison({EVIL: {f"{EVIL}:x={EVIL}": 1.5, "sam": 1.2}}, notes=[EVIL])
    document["target"]["id"] = document["drafts"]["sam"]["summary"] = EVIL
    found = page(render_comparison(document))
    assert not found.all("script")
    assert EVIL in found.all("li")[0][1]
    assert not any("alert" in name for _, attrs, _ in found.elements for name in attrs)


def test_anything_but_a_comparison_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^comparison: schema is 'skipmap.result/1', not"):
        render_comparison({"schema": "skipmap.result/1"})
