from __future__ import annotations

import pytest


@pytest.mark.parametrize(("proxies", "limited"), [(0, True), (1, False), (2, True)])
def test_callers_without_a_token_are_told_apart_by_what_trusted_proxies_say(make_app, proxies, limited):
    """Of the addresses that a request brings along, only those that our own proxies have added count."""
    client = make_app(trusted_proxies=proxies, reads_per_minute=1).test_client()
    statuses = [
        # The last address is the one that the proxy has seen; those before it are the client's own words.
        client.get("/api/v1/me", headers={"X-Forwarded-For": f"10.0.0.1, 10.0.1.{number}"}).status_code
        for number in range(10)
    ]
    assert (429 in statuses) == limited
