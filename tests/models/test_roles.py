from __future__ import annotations

from itertools import pairwise

from models.roles import ROLES, SCOPES, scopes_of


def test_what_each_role_allows():
    assert scopes_of("viewer") == {"jobs:read", "maps:read"}
    assert scopes_of("editor") == {"jobs:read", "maps:read", "jobs:write"}
    assert scopes_of("publisher") == {"jobs:read", "maps:read", "jobs:write", "maps:publish"}
    assert scopes_of("admin") == set(SCOPES)


def test_each_role_allows_more_than_the_one_before_it():
    assert all(scopes_of(less) < scopes_of(more) for less, more in pairwise(ROLES))


def test_only_administrators_hold_what_is_for_nodes():
    assert [role for role in ROLES if "nodes:report" in scopes_of(role)] == ["admin"]
