from __future__ import annotations

import pytest

from skipmap.client.server import ADMIN_TOKEN_FILE, DEFAULT_SERVER, Server, find_server
from skipmap.errors import InvalidInput, NotFound
from skipmap.settings import get_settings

TOKEN = "tok-123"


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.delenv("SKIPMAP_SERVER", raising=False)
    monkeypatch.delenv("SKIPMAP_TOKEN", raising=False)


@pytest.fixture
def admin_token():
    path = get_settings().home / ADMIN_TOKEN_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("admin-secret\n")
    yield "admin-secret"
    path.unlink()


def test_defaults():
    assert find_server() == Server(DEFAULT_SERVER, None)


def test_option_before_environment_before_default(monkeypatch):
    monkeypatch.setenv("SKIPMAP_SERVER", "https://one.example/base/")
    assert find_server().url == "https://one.example/base"
    assert find_server("http://localhost:1").url == "http://localhost:1"


def test_token_of_the_file_before_the_environment_before_the_home(monkeypatch, tmp_path, admin_token):
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert find_server().token == admin_token
    monkeypatch.setenv("SKIPMAP_TOKEN", "from-env")
    assert find_server().token == "from-env"
    assert find_server(token_file=file).token == TOKEN


@pytest.mark.parametrize("url", ["https://other.example", "http://other.example"])
def test_the_admin_token_of_this_machine_stays_on_it(admin_token, url):
    assert find_server(url).token is None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.9:1", "http://[::1]:1", "http://localhost", "https://a.example"]
)
def test_addresses_that_get_a_token(monkeypatch, url):
    monkeypatch.setenv("SKIPMAP_TOKEN", TOKEN)
    assert find_server(url).token == TOKEN


@pytest.mark.parametrize("url", ["http://a.example", "http://10.0.0.1:80", "http://127.0.0.1.example"])
def test_no_token_in_the_clear(monkeypatch, url):
    monkeypatch.setenv("SKIPMAP_TOKEN", TOKEN)
    with pytest.raises(
        InvalidInput, match=r"--server: a token would go to .* in the clear; use https"
    ) as caught:
        find_server(url)
    assert TOKEN not in str(caught.value)
    assert find_server(url, insecure=True).token == TOKEN


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://a", "http://", "http://a?x=1", "http://a:99999", "http://[a"]
)
def test_what_is_no_address(url):
    with pytest.raises(
        InvalidInput, match=r"--server: must be an address such as http://127.0.0.1:8765 \(given"
    ):
        find_server(url)


def test_passwords_in_addresses_are_refused_and_not_repeated():
    with pytest.raises(InvalidInput, match="give a token instead") as caught:
        find_server("https://user:hidden@a.example")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "two words", "gehe\u00efm", "a\x00b", "x" * 5000])
def test_what_is_no_token_is_not_repeated(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(InvalidInput, match="--token-file: holds no token: one word") as caught:
        find_server(token_file=file)
    assert not text or text not in str(caught.value)


def test_a_token_file_that_cannot_be_read(tmp_path):
    with pytest.raises(NotFound, match="--token-file: no file"):
        find_server(token_file=tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="cannot read"):
        find_server(token_file=tmp_path)


def test_the_token_is_in_no_representation():
    assert TOKEN not in repr(Server("http://a", TOKEN))


def test_the_service_of_this_home_is_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path))
    monkeypatch.delenv("SKIPMAP_SERVER", raising=False)
    get_settings.cache_clear()
    assert find_server().url == "http://127.0.0.1:8765"
    place = tmp_path / "manager" / "manager.json"
    place.parent.mkdir()
    place.write_text('{"url": "http://127.0.0.1:9999"}')
    assert find_server().url == "http://127.0.0.1:9999"
    assert find_server("https://example.org").url == "https://example.org"
    place.write_text("[")
    assert find_server().url == "http://127.0.0.1:8765"
    get_settings.cache_clear()
