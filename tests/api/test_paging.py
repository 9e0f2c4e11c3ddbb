from __future__ import annotations

import pytest

from api.paging import make_cursor

_NO_PLACES = [
    *(-1, 10**19, 10**30, 10**400, True, 1.5, float("inf"), float("nan"), {}, [], [[[]]]),
    *("\ud800", "a\0b", [1.0, "\ud800"], [1.0, "\0"], [10**400, "x"], [float("nan"), "x"], [True, "x"]),
    *([1], [1, 2, 3], ["x", 1], {"a": 1}, [1, ["x"]], [1, [-1]], [1, [2**15]], [1, [True]], [1, None]),
]


@pytest.fixture
def lists(admin, make_spec, shop) -> dict[str, str]:
    """Address of every list, and what its cursors are made for."""
    job = admin.post("/jobs", json=make_spec()).get_json()["id"]
    lines = admin.upload(b'{"id": 1, "prompt": "One?"}\n{"id": 2, "prompt": "Two?"}\n').get_json()["id"]
    table = admin.upload("One?,a,b,c,d,A\nTwo?,a,b,c,d,B\n", content_type="text/csv").get_json()["id"]
    shop.publish()
    shop.move(1)
    orders = {
        f"/jobs/{job}/evaluations?sort={sort}&order={order}&": f"evaluations {sort} {order}"
        for sort in ("skip", "metric", "accept_length")
        for order in ("asc", "desc")
    }
    items = {f"/calibration-sets/{one}/items?": f"items {one}" for one in (lines, table)}
    plain = {
        "/jobs": "jobs",
        "/tokens": "tokens",
        "/users": "users",
        "/workers": "workers",
        "/maps": "maps",
        "/maps/main/versions": "versions main",
        "/maps/main/channels/production/history": "history main production",
        "/nodes": "nodes",
        "/calibration-sets": "calibration sets",
        **{f"/{name}": name for name in ("targets", "drafts", "domains")},
    }
    return orders | items | {f"{path}?": kind for path, kind in plain.items()}


def test_what_is_no_cursor_of_a_list_is_refused(admin, lists):
    wrong = []
    for path, kind in lists.items():
        assert admin.get(f"{path}limit=1").status_code == 200
        for place in _NO_PLACES:
            answer = admin.get(f"{path}cursor={make_cursor(kind, place)}")
            if (answer.status_code, answer.get_json().get("field")) != (422, "cursor"):
                wrong.append((path, place, answer.status_code))
    assert wrong == []


def test_cursors_of_items_lead_to_where_an_item_begins(admin, lists):
    starts = {}
    for path in (path for path in lists if path.endswith("/items?")):
        page = admin.get(f"{path}limit=1").get_json()
        assert len(page["items"]) == 1
        rest = admin.get(f"{path}cursor={page['next_cursor']}").get_json()
        assert (len(rest["items"]), rest["next_cursor"]) == (1, None)
        statuses = [
            admin.get(f"{path}cursor={make_cursor(lists[path], place)}").status_code for place in range(80)
        ]
        starts[path] = [place for place, status in enumerate(statuses) if status == 200]
        assert set(statuses) == {200, 422}
    assert list(starts.values()) == [[0, 28], [0, 1]]
