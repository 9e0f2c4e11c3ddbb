"""Charts that are taken away: their points, and pictures of them."""

from __future__ import annotations

import base64
import csv
import io
import json
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from tests.web.frontend import samples
from tests.web.frontend.charts import NAMES, Visit, chart, colour


def test_points_are_exported_whole_with_what_they_are(visit: Visit):
    page = visit("/chart/drafts").page
    chart(page, "drafts")
    data = samples.pareto_of_drafts()
    rows = json.loads(exported(page, "drafts", "json"))
    assert rows[0] == {
        "Skipped layers": "dense",
        "Level": 0,
        data["x"]: 2.1,
        "BLEU": 0.31,
        "Accepted drafts": None,
        "Feasible": None,
        "Front": False,
        "Selected": False,
    }
    assert [list(row.values()) for row in rows[1:]] == [
        [
            *(",".join(map(str, point["skip"])), point["level"], point["x"], point["y"], point["limited"]),
            *(point["feasible"], point["front"], point["selected"]),
        ]
        for point in data["points"]
    ]


def test_an_export_of_some_points_says_of_how_many(visit: Visit):
    page = visit("/chart/pareto").page
    chart(page, "pareto")
    # What is out of view is exported as well.
    page.get_by_role("button", name="Zoom in").click()
    text = exported(page, "pareto", "csv", "pareto-2000-of-20000.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 1 + 2000
    assert {row["Sample"] for row in rows} == {"2000 of 20000 configurations"}
    points = samples.pareto()["points"]
    for name, key in (("Feasible", "feasible"), ("Front", "front"), ("Selected", "selected")):
        assert [row[name] == "true" for row in rows[1:]] == [point[key] for point in points]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_have_title_and_ground(visit: Visit, theme: str):
    page = visit("/", theme=theme).page
    ground = colour(page, "surface")
    for name in NAMES:
        chart(page, name)
        label = page.inner_text(f"#chart-{name} .chart-label")
        svg = exported(page, name, "svg").decode()
        assert ElementTree.fromstring(svg).tag.endswith("}svg")
        assert label in svg
        assert f'fill="{ground}"' in svg
        # A picture that was drawn has more than a handful of colours.
        png = base64.b64encode(exported(page, name, "png")).decode()
        width, colours = page.evaluate(COLOURS, f"data:image/png;base64,{png}")
        assert width == 2 * 960
        assert colours > 20, name


def exported(page: Page, name: str, kind: str, file: str = "") -> bytes:
    """The file that the chart's menu gives; ``file``: what it is called, where that is not the chart's own name."""
    page.locator(f"#card-{name} summary").click()
    with page.expect_download() as taken:
        page.locator(f"#card-{name} [data-export={kind}]").click()
    assert taken.value.suggested_filename == (file or f"{name}.{kind}")
    return taken.value.path().read_bytes()


COLOURS = """
async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const drawing = canvas.getContext("2d");
  drawing.drawImage(image, 0, 0);
  const dots = new Uint32Array(drawing.getImageData(0, 0, image.width, image.height).data.buffer);
  return [image.width, new Set(dots).size];
}
"""
