"""Pictures of pages with few colours, pixel by pixel, and with more than a palette holds."""

from __future__ import annotations

import base64
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from playwright.sync_api import Browser

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "pictures.py"
_PIXELS = """
async (source) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${source}`)).blob());
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return [...canvas.getContext("2d").getImageData(0, 0, picture.width, picture.height).data];
}
"""
_GRADIENT = "<body style='margin:0;height:60px;background:linear-gradient(90deg,#000,#f80,#08f)'></body>"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_few_colours_stay_as_they_are_and_many_come_near(browser: Browser, pictures: ModuleType) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 60})

    def pixels(picture: bytes) -> list[int]:
        found: list[int] = page.evaluate(_PIXELS, base64.b64encode(picture).decode())
        return found

    def both(content: str) -> tuple[list[int], list[int]]:
        page.set_content(content)
        taken = page.screenshot()
        return pixels(taken), pixels(pictures.small(page, taken))

    before, after = both("<body style='background:#fff'><b style='background:#2450c8'>x</b></body>")
    assert after == before
    before, after = both(_GRADIENT)
    assert len({tuple(before[n : n + 3]) for n in range(0, len(before), 4)}) > 256
    assert max(abs(one - other) for one, other in zip(before, after, strict=True)) <= 8
    page.close()
