"""A configuration's answers beside those of dense."""

from __future__ import annotations

from models.chunks import skip_key, skip_of
from skipmap.profiling.search import DENSE
from tests.web.pages.story import HELD_OUT_IDS, IDS, set_content
from tests.web.pages.test_configurations import address


def pairs(page):
    return [
        (
            article.h3.span.get_text(strip=True),
            [
                side.select_one(".diff-text").get_text()
                for side in article.select(".diff")[-1].select(".diff-side")
            ],
        )
        for article in page.all("#answers article")
    ]


def test_answers_stand_side_by_side_a_page_at_a_time(site, story):
    job = story.tell()
    first = site.page(address(job, "/0"))
    assert pairs(first) == [
        (name, [story.text(DENSE, name), story.text(skip_of("0"), name)]) for name in IDS[:20]
    ]
    second = site.page(first.links["Next"].split("#")[0])
    assert [name for name, _ in pairs(second)] == IDS[20:]
    assert second.links["Back"].split("#")[0] == address(job, "/0?part=calibration")


def test_only_where_answers_differ(site, story):
    job = story.tell()
    page = site.page(address(job, "/0?differing=true"))
    differing = [name for number, name in enumerate(IDS) if number % 5]
    assert [name for name, _ in pairs(page)] == differing
    assert f"{len(differing)} of {len(IDS)}\u00a0answers differ" in page.one("#answers").get_text()


def test_marks_are_ins_and_del_on_the_words_that_differ(site, story):
    story.texts = {
        ("dense", IDS[0]): "the quick brown fox",
        ("0", IDS[0]): "the slow brown fox runs",
    }
    job = story.tell()
    article = site.page(address(job, "/0")).all("#answers article")[0]
    assert [mark.get_text().strip() for mark in article.find_all("del")] == ["quick"]
    assert [mark.get_text().strip() for mark in article.find_all("ins")] == ["slow", "runs"]


def test_held_out_answers_are_those_of_the_check(site, story):
    job = story.tell()
    best = ",".join(map(str, job.best["skip"]))
    page = site.page(address(job, f"/{best}?part=held-out"))
    assert [name for name, _ in pairs(page)] == HELD_OUT_IDS
    assert "score 0.500" in page.text
    # Of one that was not checked there are none: the calibration part is shown.
    other = next(skip for skip in story.stored(job.id) if skip != DENSE and list(skip) != job.best["skip"])
    assert [name for name, _ in pairs(site.page(address(job, f"/{skip_key(other)}?part=held-out")))] == IDS[
        :20
    ]


def test_prompts_and_references_are_shown_where_the_service_has_them(site, story):
    spec, set_id = story.with_set(set_content(["Which river?"], ["The Rhine."]))
    job = story.tell(spec, calibration_set_id=set_id)
    article = site.page(address(job, "/0")).all("#answers article")[0]
    assert "Which river?" in article.get_text()
    assert "The Rhine." in article.get_text()


def test_prompts_that_are_not_here_are_named_by_their_ids(site, story):
    job = story.tell()
    assert "Prompts are named by their ids alone" in site.page(address(job, "/0")).text


def test_dense_has_no_answers_beside_it(site, story):
    page = site.page(address(story.tell(), "/dense"))
    assert page.heading == "Dense"
    assert not page.all("#answers")


def test_very_long_texts_are_folded(site, story):
    long = "word " * 400
    story.texts = {("0", IDS[0]): long, ("0", IDS[1]): "short"}
    job = story.tell()
    first, second = site.page(address(job, "/0")).all("#answers article")[:2]
    assert len(first.select(".diff-side details")) == 1
    assert not second.select(".diff-side details")
    assert first.select(".diff-side details .diff-text")[0].get_text() == long


def test_a_page_of_answers_is_304_when_nothing_is_new(site, story):
    job = story.tell()
    first = site.get(address(job, "/0"))
    assert site.get(address(job, "/0"), headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
