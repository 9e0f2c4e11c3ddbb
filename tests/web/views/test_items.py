from __future__ import annotations

import pytest

from api.service import Service
from models.jobs import Job
from skipmap.calibration.items import Item
from skipmap.calibration.sources import load_source
from skipmap.spec import CalibrationSpec
from tests.web.pages.story import make_story, set_content
from web.views import set_files
from web.views.items import items_of, shown_item


@pytest.fixture
def service(app) -> Service:
    return app.extensions["skipmap"]


def job_of(bench, calibration, set_id=None) -> Job:
    story = make_story(bench)
    spec = story.spec().model_copy(update={"calibration": CalibrationSpec.model_validate(calibration)})
    return story.submit(spec, calibration_set_id=set_id)


def test_items_of_a_sample_are_its_own(service, bench):
    found = items_of(service, job_of(bench, {"source": "sample:qa"}))
    assert found == {item.id: item for item in load_source(CalibrationSpec(source="sample:qa")).items}


def test_items_of_an_uploaded_set_are_read_from_it(service, bench):
    spec, set_id = make_story(bench).with_set(set_content(["First?"], ["One."]))
    job = bench.submit(spec, calibration_set_id=set_id)
    found = items_of(service, job)
    assert found is not None
    assert (found["item-0"].turns, found["item-0"].scored_references) == (("First?",), ("One.",))


def test_a_set_is_read_once(service, bench, monkeypatch):
    spec, set_id = make_story(bench).with_set(set_content(["First?"], ["One."]))
    job = bench.submit(spec, calibration_set_id=set_id)
    first = items_of(service, job)
    monkeypatch.setattr(set_files, "set_file", lambda *_: pytest.fail("the set is read again"))
    assert items_of(service, job) is first


@pytest.mark.parametrize(
    "calibration",
    [
        {"source": "owner/name", "format": "datasets"},
        {"source": "/somewhere/items.jsonl"},
        {"source": "sample:none"},
        {"source": "sample:qa", "category": "unknown"},
    ],
)
def test_items_that_are_not_here_are_none(service, bench, calibration):
    assert items_of(service, job_of(bench, calibration)) is None


def test_a_multiple_choice_shows_its_options_and_the_right_one():
    item = Item("a", ("Which is a colour?",), choices=("cat", "red"), answer=1)
    shown = shown_item(item)
    assert "A. cat\nB. red" in shown.turns[0]
    assert shown.references == ("B. red",)


def test_several_turns_are_shown_each():
    item = Item("a", ("First", "Second"), ((), ("yes",)))
    assert shown_item(item).turns == ("First", "Second")
    assert shown_item(item).references == ("yes",)


def test_no_reference_is_none():
    assert shown_item(Item("a", ("Only a prompt",))).references == ()
