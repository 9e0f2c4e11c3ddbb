"""The audit: what it shows, and what can be taken away."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from models.accounts import create_token
from models.audit import record
from models.sessions import end_sessions
from tests.models.bench import make_spec
from tests.web.pages.administration import grace
from tests.web.site import COOKIE, Site
from web.filters import NONE

__all__ = ["grace"]


class TestAudit:
    @pytest.fixture
    def filled(self, site, grace, database):
        def work(session: Any) -> None:
            for number in range(3):
                record(session, site.user_id, "channel.move", "chat/production", f"r{number}", version=number)
            record(session, grace, "map.publish", "=HYPERLINK(1)", None, reason="a, b", parts=[1, 2])
            record(session, "visitor", "session.refuse", "unknown", None)

        database.transaction(work)

    def test_entries_are_readable(self, site, filled):
        rows = site.page("/admin/audit").table("audit")
        assert rows[0][1:5] == ["visitor", "session.refuse", "unknown", NONE]
        assert rows[1][1:4] == ["grace", "map.publish", "=HYPERLINK(1)"]
        # PostgreSQL orders the names.
        assert set(rows[1][4].split("; ")) == {"reason a, b", "parts [1, 2]"}
        assert rows[2][4:] == ["version 2", "r2"]

    def test_things_go_by_their_names_with_their_ids_behind(self, site, bench, database, grace):
        named, unnamed = (
            bench.submit(make_spec().model_copy(update={"name": "Nightly"})).id,
            bench.submit().id,
        )
        gone = "01900000-0000-7000-8000-000000000000"
        token, _ = database.transaction(create_token, grace, "of a node", ["nodes:report"])

        def work(session: Any) -> None:
            for action, subject in (
                ("job.submit", named),
                ("job.cancel", unnamed),
                ("job.delete", gone),
                ("token.create", token.id),
                ("user.disable", grace),
            ):
                record(session, site.user_id, action, subject, None)
            jobs = {"qa": named, "math": gone}
            record(session, site.user_id, "map.publish", "chat/1", None, jobs=jobs, scopes=["a", "b"], n=3)

        database.transaction(work)
        page = site.page("/admin/audit")
        rows = {row[2]: row for row in page.table("audit")}
        assert rows["job.submit"][3] == f"Nightly {named[-8:]}"
        assert rows["job.cancel"][3] == f"words on tiny with prompt_lookup {unnamed[-8:]}"
        assert rows["job.delete"][3] == gone
        assert rows["token.create"][3] == f"of a node of grace {token.id[-8:]}"
        assert rows["user.disable"][3] == f"grace {grace[-8:]}"
        details = set(rows["map.publish"][4].split("; "))
        assert details == {f"jobs qa: Nightly , math: {gone}", "scopes a, b", "n 3"}
        assert {str(each["title"]) for each in page.all("#audit td:nth-child(5) span[title]")} == {named}
        # What is shown can be asked for.
        assert [row[2] for row in site.page("/admin/audit?subject=Nightly").table("audit")] == ["job.submit"]
        (line,) = csv.DictReader(
            io.StringIO(site.get("/admin/audit.csv?action=job.submit").get_data(as_text=True))
        )
        assert (line["subject_name"], line["subject"]) == ("Nightly", named)

    @pytest.mark.parametrize(
        ("query", "amount"),
        [
            ("actor=grace", 1),
            ("actor=nobody", 0),
            ("action=channel.move", 3),
            ("action=channel", 0),
            ("subject=chat/production", 3),
            ("actor=grace&action=channel.move", 0),
            ("actor=visitor", 1),
            ("actor=%00&action=%00&subject=%00", 0),
        ],
    )
    def test_filters_are_in_the_address(self, site, filled, query, amount):
        page = site.page(f"/admin/audit?{query}")
        assert len(page.table("audit")) == amount
        if not amount:
            assert "Nothing fits" in page.text

    def test_the_list_is_paged(self, site, filled, monkeypatch):
        monkeypatch.setattr("web.pages.admin_audit._LINES_A_PAGE", 2)
        first = site.page("/admin/audit?action=channel.move")
        assert [row[4] for row in first.table("audit")] == ["version 2", "version 1"]
        second = site.page(first.links["Next"])
        assert [row[4] for row in second.table("audit")] == ["version 0"]
        assert second.links["Back to the start"] == "/admin/audit?action=channel.move"
        assert site.get("/admin/audit?cursor=%00").status_code == 422

    def test_all_of_it_can_be_taken_away(self, site, filled, monkeypatch):
        monkeypatch.setattr("web.pages.admin_audit._CSV_LINES", 2)
        answer = site.get("/admin/audit.csv")
        assert answer.mimetype == "text/csv"
        assert "attachment" in answer.headers["Content-Disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
        assert [row["action"] for row in rows] == ["session.refuse", "map.publish", *["channel.move"] * 3]
        assert rows[1]["subject"] == "'=HYPERLINK(1)"
        assert rows[1]["actor"] == "grace"
        few = site.get("/admin/audit.csv?action=map.publish").get_data(as_text=True)
        assert len(few.splitlines()) == 2

    def test_what_signs_in_and_out_is_there(self, site, app, database, grace):
        database.transaction(end_sessions, grace)
        other = Site(app.test_client())
        token = other.page("/sign-in").all('input[name="csrf_token"]')[0]["value"]
        other.client.post("/sign-in", data={"csrf_token": token, "way": "token", "token": "skm_wrong"})
        assert site.page("/admin/audit").table("audit")[0][2] == "session.refuse"
        assert other.client.get_cookie(COOKIE) is not None
