from __future__ import annotations

import pytest

from web.agents import browser

_CHROME = "Mozilla/5.0 ({}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


@pytest.mark.parametrize(
    ("agent", "wanted"),
    [
        (_CHROME.format("Windows NT 10.0; Win64; x64"), "Chrome on Windows"),
        (_CHROME.format("Macintosh; Intel Mac OS X 10_15_7"), "Chrome on macOS"),
        (_CHROME.format("Linux; Android 10; K"), "Chrome on Android"),
        (_CHROME.format("X11; CrOS x86_64 14541.0.0"), "Chrome on ChromeOS"),
        (_CHROME.format("Windows NT 10.0; Win64; x64") + " Edg/140.0.0.0", "Edge on Windows"),
        (_CHROME.format("X11; Linux x86_64") + " OPR/120.0.0.0", "Opera on Linux"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.0 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.5.0", "curl"),
        ("python-httpx2/2.16.2", "Python"),
        ("", "an unknown program"),
        ("<script>", "an unknown program"),
    ],
)
def test_browsers(agent, wanted):
    assert browser(agent) == wanted
