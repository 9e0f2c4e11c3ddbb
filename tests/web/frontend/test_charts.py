"""Each chart draws what its data say, in both themes and at both widths, and leads to where its marks lead."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.web.frontend import samples
from tests.web.frontend.charts import NAMES, PLOT, Visit, chart, colour
from tests.web.frontend.gallery import State

PLACES = """
(plot) => {
  const box = plot.getBoundingClientRect();
  const svg = plot.querySelector("svg").getBoundingClientRect();
  const texts = [...plot.querySelectorAll("svg text")].map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect();
    const across = left >= box.left - 1 && right <= box.right + 1;
    const style = getComputedStyle(text);
    const inside = across && top >= box.top - 1 && bottom <= box.bottom + 1;
    return [text.textContent, style.fontFamily, parseFloat(style.fontSize), inside];
  });
  return { plot: [box.width, box.height], svg: [svg.width, svg.height], texts };
}
"""


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_are_drawn_in_their_place_with_text_that_is_read(visit: Visit, theme: str, width: int):
    page = visit("/", theme=theme, width=width).page
    family = page.evaluate("getComputedStyle(document.body).fontFamily")
    for name in [*NAMES, "fetched"]:
        found = page.eval_on_selector(chart(page, name), PLACES)
        assert found["svg"] == pytest.approx(found["plot"], abs=1), name
        assert found["texts"], name
        for words, font, size, inside in found["texts"]:
            assert (font, inside) == (family, True), (name, words)
            assert size >= 11, (name, words)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["heatmap", "pareto", "cost", "intervals", "bars"])
def test_a_press_on_a_mark_leads_to_what_it_stands_for(visit: Visit, name: str):
    page = visit(f"/chart/{name}").page
    plot = page.locator(chart(page, name))
    plot.focus()
    page.keyboard.press("ArrowRight")
    if name in ("pareto", "cost"):
        page.keyboard.press("ArrowRight")  # The first is dense or selected, which may lie under another.
    tip = page.locator(f"#chart-{name} .chart-tip")
    expect(tip).to_contain_text("Press to open")
    page.keyboard.press("Enter")
    page.wait_for_url("**/opened?*")


def test_a_bar_is_pressed_with_the_pointer(visit: Visit, state: State):
    page = visit("/chart/bars").page
    chart(page, "bars")
    fill = colour(page, "chart-1")
    bars = page.locator(f"#chart-bars svg path[fill='{fill}'], #chart-bars svg rect[fill='{fill}']")
    # The first is in the legend.
    box = bars.nth(1).bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    expect(page.locator("#chart-bars .chart-tip")).to_contain_text("translation, prompt_lookup")
    page.mouse.click(*middle)
    page.wait_for_url("**/opened?domain=translation&draft=prompt_lookup")


def test_keys_go_through_the_marks_and_read_them_out(visit: Visit):
    page = visit("/chart/heatmap").page
    plot = page.locator(chart(page, "heatmap"))
    expect(plot).to_have_attribute("tabindex", "0")
    expect(plot).to_have_attribute("aria-label", re.compile("^What skipping one layer changes. 60 values"))
    plot.focus()
    said = plot.locator("[aria-live]")
    for key, layer, row in (
        ("ArrowRight", 0, "Accept length"),
        ("ArrowRight", 1, "Accept length"),
        ("PageDown", 11, "Accept length"),
        ("End", 29, "BLEU"),
        ("Home", 0, "Accept length"),
    ):
        page.keyboard.press(key)
        expect(said).to_contain_text(f"Layer {layer}: {row}")
        expect(page.locator("#chart-heatmap .chart-tip")).to_contain_text(f"Layer {layer}: {row}")
    page.keyboard.press("Escape")
    expect(page.locator("#chart-heatmap .chart-tip")).not_to_be_visible()


def test_what_people_gave_is_never_markup(visit: Visit):
    page = visit("/chart/names").page
    plot = page.locator(chart(page, "names"))
    plot.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#chart-names .chart-tip")).to_contain_text(samples.DANGEROUS)
    assert page.locator("#chart-names img, #chart-names b").count() == 0
    assert page.title() == "Charts"


def test_samples_of_many_say_so(visit: Visit):
    page = visit("/chart/pareto").page
    chart(page, "pareto")
    note = page.locator("#chart-pareto .chart-note")
    expect(note).to_have_text("2,000 of 20,000 shown")
    page.get_by_role("button", name="Zoom in").click()
    expect(note).to_have_text(re.compile(r"^2,000 of 20,000 shown; [\d,]+ lie outside$"))
    page.get_by_role("button", name="Zoom in").click()
    expect(note).to_have_text("2,000 of 20,000 shown")


def test_nothing_is_relative_to_zero(visit: Visit):
    page = visit("/chart/zero").page
    plot = page.locator(chart(page, "zero"))
    texts = plot.locator("svg text").all_text_contents()
    # Of six cells one is hatched; the dash of the legend comes on top.
    assert (texts.count("\u2013"), texts.count("Dense is 0")) == (6, 1)
    plot.focus()
    page.keyboard.press("End")
    tip = page.locator("#chart-zero .chart-tip")
    expect(tip).to_contain_text("Layer 5: BLEU")
    expect(tip).to_contain_text("not relative: dense is 0")
    expect(tip).not_to_contain_text("%")
    expect(tip).to_contain_text("0.200")


def test_timed_costs_are_ringed_and_say_so(visit: Visit):
    page = visit("/chart/cost").page
    plot = page.locator(chart(page, "cost"))
    assert "Timed itself" in plot.locator("svg text").all_text_contents()
    expect(plot).to_have_attribute(
        "aria-label", re.compile("12 of them timed, the others from the cost model")
    )
    rings = page.eval_on_selector_all(
        "#chart-cost svg path[fill='none'], #chart-cost svg circle[fill='none']",
        "(all) => all.filter((it) => { const { width, height } = it.getBBox();"
        " return Math.abs(width - 20) < 1 && Math.abs(height - 20) < 1; }).length",
    )
    assert rings == 12
    plot.focus()
    said = set()
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        said.add(page.inner_text("#chart-cost .chart-tip dd:nth-of-type(3), #chart-cost .chart-tip dl"))
    assert any("timed itself" in words for words in said)
    assert any("fitted: from the cost model" in words for words in said)


def test_what_fails_the_held_out_check_is_hollow_and_says_so(visit: Visit):
    page = visit("/chart/judged").page
    plot = page.locator(chart(page, "judged"))
    assert "Hollow: fails the held-out check" in plot.locator("svg text").all_text_contents()
    surface = colour(page, "surface")
    # One in the legend, one in the plot.
    assert plot.locator(f"svg path[fill='{surface}'][stroke-width='2']").count() == 2
    plot.focus()
    for words in ("confirmed", "fails"):
        page.keyboard.press("ArrowRight")
        expect(page.locator("#chart-judged .chart-tip")).to_contain_text(words)
    page = visit("/chart/intervals").page
    assert "Hollow" not in page.inner_text(chart(page, "intervals"))


def test_a_floor_on_another_figure_is_told_and_not_drawn(visit: Visit):
    page = visit("/chart/drafts").page
    plot = page.locator(chart(page, "drafts"))
    texts = plot.locator("svg text").all_text_contents()
    assert "Floor of BLEU" in texts
    assert "Floors: feasible above both" not in texts
    plot.focus()
    page.keyboard.press("End")
    expect(page.locator("#chart-drafts .chart-tip")).to_contain_text("Accepted drafts")
    page.get_by_role("button", name="Zoom in").click()
    expect(page.locator("#chart-drafts .chart-note")).to_have_text(re.compile(r"^\d+ lie outside$"))


def test_without_data_it_says_what_is_missing(visit: Visit):
    page = visit("/chart/nothing").page
    expect(page.locator(f"#chart-nothing {PLOT}")).to_have_text("No configuration has been evaluated yet.")


def test_marks_differ_without_colour(visit: Visit):
    """Bars are hatched and dots have shapes: with all colours taken away, no two series look the same."""
    page = visit("/chart/bars").page
    chart(page, "bars")
    assert page.locator("#chart-bars svg pattern").count() >= len(samples.DRAFTS) - 1
    page.goto(page.url.replace("bars", "intervals"))
    chart(page, "intervals")
    paths = page.eval_on_selector_all(
        "#chart-intervals svg path",
        "(paths) => paths.map((it) => [it.getAttribute('fill'), it.getAttribute('d')])",
    )
    shapes = {fill: _outline(path) for fill, path in paths if fill != "none"}
    assert len(shapes) == len(samples.DRAFTS)
    assert len(set(shapes.values())) == len(shapes)


def _outline(path: str) -> tuple[float, ...]:
    """The path as if it began at the origin."""
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", path)]
    return tuple(round(each - numbers[place % 2], 1) for place, each in enumerate(numbers))


def test_a_change_of_theme_draws_again(visit: Visit):
    page = visit("/chart/rollout").page
    plot = chart(page, "rollout")
    before = page.inner_html(plot)
    page.get_by_role("button", name="dark").click()
    expect(page.get_by_role("button", name="dark")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.inner_html(plot) != before
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="dark")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="system").click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")


def test_it_follows_the_width(visit: Visit):
    page = visit("/chart/heatmap").page
    plot = page.locator(chart(page, "heatmap"))
    high = plot.bounding_box()
    page.set_viewport_size({"width": 360, "height": 900})
    page.wait_for_function(
        "(plot) => plot.querySelector('svg').getAttribute('width') == plot.clientWidth",
        arg=plot.element_handle(),
    )
    narrow = plot.bounding_box()
    assert high is not None
    assert narrow is not None
    assert narrow["height"] > high["height"]


def test_samples_are_json():
    """The gallery's data are what a server could send."""
    for _, _, _, data in samples.all_samples():
        assert json.loads(json.dumps(data, allow_nan=False)) == data
