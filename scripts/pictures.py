"""Pictures of pages as small PNG files: 256 colours do for text, lines and flat areas.

The browser that took a picture counts its colours, for it reads PNG faster than anything in Python's own library.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from playwright.sync_api import Page

_SIGNATURE = b"\x89PNG\r\n\x1a\n"

# Colours of the fewest pixels take the nearest of those that stay.
_COUNT = """
async (source) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${source}`)).blob());
  const { width, height } = picture;
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").drawImage(picture, 0, 0);
  const rgba = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  const colours = new Uint32Array(width * height), counts = new Map();
  for (let n = 0; n < colours.length; n += 1) {
    colours[n] = (rgba[4 * n] << 16) | (rgba[4 * n + 1] << 8) | rgba[4 * n + 2];
    counts.set(colours[n], (counts.get(colours[n]) ?? 0) + 1);
  }
  const all = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one));
  const kept = all.slice(0, 256), place = new Map(kept.map((colour, index) => [colour, index]));
  const far = (one, other) =>
    [16, 8, 0].reduce((sum, shift) => sum + (((one >> shift) & 255) - ((other >> shift) & 255)) ** 2, 0);
  for (const colour of all.slice(256)) {
    const distances = kept.map((other) => far(colour, other));
    place.set(colour, distances.indexOf(Math.min(...distances)));
  }
  const indices = new Uint8Array(colours.length);
  for (let n = 0; n < colours.length; n += 1) indices[n] = place.get(colours[n]);
  const text = await new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.split(",")[1]);
    reader.readAsDataURL(new Blob([indices]));
  });
  return { width, height, palette: kept, indices: text };
}
"""


def small(page: Page, picture: bytes) -> bytes:
    """The picture with 256 colours; ``page``: an empty one of a browser."""
    found: dict[str, Any] = page.evaluate(_COUNT, base64.b64encode(picture).decode())
    width, height = found["width"], found["height"]
    pixels = base64.b64decode(found["indices"])
    lines = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    palette = b"".join(colour.to_bytes(3, "big") for colour in found["palette"])
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
