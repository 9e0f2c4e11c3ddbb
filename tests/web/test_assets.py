"""Built files: which are served, and for how long browsers keep them."""

from __future__ import annotations

import json
import shutil

import pytest

from web import assets

FOREVER = "public, max-age=31536000, immutable"


@pytest.fixture
def dist(tmp_path, monkeypatch):
    """A build; call it to put another one in its place."""
    monkeypatch.setattr(assets, "DIST", tmp_path / "dist")

    def write(manifest: dict[str, str], *earlier: str) -> None:
        # Pages of errors need them.
        manifest = {"app.css": "app.css", "theme.js": "theme.js", **manifest}
        part = tmp_path / "dist.part"
        part.mkdir()
        (part / "manifest.json").write_text(json.dumps(manifest))
        (part / "earlier.json").write_text(json.dumps(earlier))
        for name in (*manifest.values(), *earlier, "stray.js"):
            (part / name).write_text(f"// {name}")
        if assets.DIST.exists():
            assets.DIST.rename(tmp_path / "dist.old")
        part.rename(assets.DIST)
        shutil.rmtree(tmp_path / "dist.old", ignore_errors=True)

    write({"app.js": "app-2.js", "licenses.txt": "licenses.txt"}, "app-1.js")
    return write


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


def test_a_running_server_takes_up_a_new_build(visitor, dist):
    assert assets.manifest()["app.js"] == "app-2.js"
    dist({"app.js": "app-3.js"}, "app-2.js")
    assert str(visitor.page("/sign-in").one("script[type=module]")["src"]) == "/static/app-3.js"
    for name, status in (("app-3.js", 200), ("app-2.js", 200), ("app-1.js", 404)):
        assert visitor.get(f"/static/{name}", buffered=True).status_code == status


def test_while_a_build_is_put_in_place_the_last_one_holds(dist, monkeypatch):
    first = assets.build_id()
    monkeypatch.setattr(assets, "DIST", assets.DIST.with_name("gone"))
    assert (assets.build_id(), assets.manifest()["app.js"]) == (first, "app-2.js")


def test_a_server_does_not_start_without_a_build(dist, monkeypatch):
    monkeypatch.setattr(assets, "DIST", assets.DIST.with_name("gone"))
    monkeypatch.setattr(assets, "_last", None)
    with pytest.raises(assets.NotBuilt, match="make setup"):
        assets.manifest()


def test_a_build_without_an_earlier_one(visitor, dist, monkeypatch):
    dist({"app.js": "app-2.js"}, "app-1.js")
    (assets.DIST / "earlier.json").unlink()
    monkeypatch.setattr(assets, "_last", None)
    assert visitor.get("/static/app-2.js", buffered=True).status_code == 200
    assert visitor.get("/static/app-1.js", buffered=True).status_code == 404
