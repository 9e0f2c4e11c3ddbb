"""Built files: which are served, and for how long browsers keep them."""

from __future__ import annotations

import json

import pytest

from web import assets

FOREVER = "public, max-age=31536000, immutable"


@pytest.fixture
def dist(tmp_path, monkeypatch):
    """A build; ``written``: change what it holds."""
    monkeypatch.setattr(assets, "DIST", tmp_path)
    cached = (assets.manifest, assets.build_id, assets._files_of_last_build)

    def write(manifest: dict[str, str], *earlier: str) -> None:
        # Pages of errors need them.
        manifest = {"app.css": "app.css", "theme.js": "theme.js", **manifest}
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        (tmp_path / "earlier.json").write_text(json.dumps(earlier))
        for name in (*manifest.values(), *earlier, "stray.js"):
            (tmp_path / name).write_text(f"// {name}")
        for function in cached:
            function.cache_clear()

    write({"app.js": "app-2.js", "licenses.txt": "licenses.txt"}, "app-1.js")
    yield write
    for function in cached:
        function.cache_clear()


def test_pages_of_the_last_build_find_their_files(visitor, dist):
    for name in ("app-2.js", "app-1.js"):
        answer = visitor.get(f"/static/{name}", buffered=True)
        assert (answer.status_code, answer.get_data(as_text=True)) == (200, f"// {name}")
        assert answer.headers["Cache-Control"] == FOREVER


def test_a_file_whose_name_stays_is_asked_about_again(visitor, dist):
    answer = visitor.get("/static/licenses.txt", buffered=True)
    assert answer.headers["Cache-Control"] == "public, no-cache"
    again = visitor.get(
        "/static/licenses.txt", headers={"If-None-Match": answer.headers["ETag"]}, buffered=True
    )
    assert again.status_code == 304


@pytest.mark.parametrize(
    "name", ["stray.js", "manifest.json", "earlier.json", "../assets.py", "app.js", "nothing.js"]
)
def test_nothing_else_is_served(visitor, dist, name):
    assert visitor.get(f"/static/{name}", buffered=True).status_code == 404


def test_each_build_has_an_id_of_its_own(dist):
    first = assets.build_id()
    dist({"app.js": "app-3.js"})
    assert assets.build_id() != first
    dist({"app.js": "app-2.js", "licenses.txt": "licenses.txt"})
    assert assets.build_id() == first


def test_a_build_without_an_earlier_one(visitor, dist, tmp_path):
    (tmp_path / "earlier.json").unlink()
    assert visitor.get("/static/app-2.js", buffered=True).status_code == 200
    assert visitor.get("/static/app-1.js", buffered=True).status_code == 404
