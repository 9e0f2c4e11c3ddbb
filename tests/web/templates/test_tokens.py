"""Colours can be read: the contrasts of WCAG 2.2 AA, in both themes."""

from __future__ import annotations

import re

import pytest

from web.frontend.gallery.components import WEB

STYLES = WEB / "frontend" / "src" / "styles"
TOKEN = re.compile(r"(--[\w-]+):\s*([^;]+);")
HEX = r"#(?:[0-9a-f]{6}|[0-9a-f]{8})"
PAIR = re.compile(rf"light-dark\(({HEX}), ({HEX})\)")
MEANINGS = ("good", "warning", "bad", "info", "neutral")
GROUNDS = ("page", "surface", "sunken", "hover")
CHARTS = (
    *(f"chart-{n}" for n in range(1, 7)),
    *(
        f"chart-{name}"
        for name in ("neutral", "negative", "positive", "front", "selected", "floor", "infeasible")
    ),
)

TEXT = [
    *[(text, ground) for text in ("text", "text-soft", "text-muted", "link") for ground in GROUNDS],
    *[("text", ground) for ground in ("pressed", "accent-soft", *(f"{name}-soft" for name in MEANINGS))],
    *[("text-muted", ground) for ground in ("accent-soft", *(f"{name}-soft" for name in MEANINGS))],
    ("text-soft", "pressed"),
    ("link", "accent-soft"),
    *[(name, f"{name}-soft") for name in MEANINGS],
    *[(name, ground) for name in MEANINGS for ground in ("page", "surface")],
    *[("on-accent", f"accent{state}") for state in ("", "-hover", "-pressed")],
    *[
        ("on-accent", ground)
        for ground in ("good-solid", "warning-solid", "bad-solid", "bad-hover", "info-solid")
    ],
    ("chart-text", "surface"),
    ("chart-text", "page"),
]
SHAPES = [
    *[("line-strong", ground) for ground in GROUNDS],
    *[("focus", ground) for ground in (*GROUNDS, "accent-soft", "bad-soft")],
    ("accent", "sunken"),
    ("bad", "bad-soft"),
    *[
        (name, ground)
        for name in ("layer-edge", "layer-skipped", "layer-added")
        for ground in ("surface", "page")
    ],
    *[(name, "layer-runs") for name in ("layer-edge", "layer-skipped", "layer-added")],
    *[("layer-mark", name) for name in ("layer-skipped", "layer-added")],
    *[(name, "surface") for name in CHARTS],
]


SOURCE = (STYLES / "tokens.css").read_text(encoding="utf-8")
TOKENS = {name[2:]: value for name, value in TOKEN.findall(SOURCE.partition("}")[0])}
LIGHT, DARK = ({name: PAIR.sub(rf"\{theme}", value) for name, value in TOKENS.items()} for theme in (1, 2))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(tokens):
    low = {pair: round(contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in TEXT}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_shapes_can_be_seen(tokens):
    low = {pair: round(contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in SHAPES}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 3} == {}


def test_contrast_is_computed_right():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_colour_stands_once_for_both_themes():
    """Else a theme that is chosen and the same one of the system would differ."""
    again = dict(TOKEN.findall(SOURCE.partition("}")[2]))
    assert [name for name in again if "#" in TOKENS[name[2:]]] == []
    assert sum(LIGHT[name] != DARK[name] for name in TOKENS) > 50


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_the_arrow_of_a_select_can_be_seen(tokens):
    colour = "#" + tokens["arrow"].partition("stroke='%23")[2][:6]
    assert {ground for ground in GROUNDS if contrast(colour, tokens[ground]) < 3} == set()


def test_every_token_that_is_used_exists():
    defined = set(LIGHT)
    used, local = set(), set()
    for path in STYLES.glob("*.css"):
        source = path.read_text(encoding="utf-8")
        used |= {name for name, rest in re.findall(r"var\(--([\w-]+)(.)", source) if rest != ","}
        local |= {name[2:] for name, _ in TOKEN.findall(source)}
    assert used - defined - local == set()


def test_all_styles_are_part_of_the_one_that_pages_load():
    source = (STYLES / "app.css").read_text(encoding="utf-8")
    imported = re.findall(r'@import "\./([\w-]+\.css)";', source)
    assert sorted(imported) == sorted(path.name for path in STYLES.glob("*.css") if path.name != "app.css")
