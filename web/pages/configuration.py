"""One configuration: its figures beside dense and the floors, and its answers beside those of dense."""

from __future__ import annotations

import json
from collections.abc import Callable

from flask import Response, request

from api.greenlets import aside
from api.service import Service, current_service
from api.views import evaluation_view
from models.chunks import skip_of
from models.configurations import find_evaluation, held_out_text
from models.evaluations import EvaluationRow
from models.jobs import Job
from models.plots import DENSE_KEY
from models.queries import find_job, glance, prompt_texts
from skipmap.errors import InvalidInput, NotFound
from web.rendering import not_changed, render
from web.routes import Pages
from web.views.answers import LONG_CHARACTERS, AnswerPage, Answers, Part, answer_page
from web.views.configurations import Reference, configuration_row, floor_rows, key_of, read_reference
from web.views.held_out import CheckedPoint, checked_points
from web.views.items import items_of
from web.views.jobs import metric_of, name_of, num_layers_of, tag_for_viewer
from web.views.layers import has_pool
from web.views.results import result_of
from web.views.words import ACCEPT_LENGTH, measure_meaning, measure_name

pages = Pages(section="jobs")
_PAGE_BYTES = 1 << 20
"""What it takes to compare the answers of a page."""

Source = tuple[Callable[[], Answers], int]
"""What reads the records of answers, and of how many characters; to be done aside."""


@pages.get("/jobs/<id:job_id>/configurations/<skip>", access="jobs:read")
def show_configuration(job_id: str, skip: str) -> Response:
    """One configuration of a job; ``skip``: its layers, as in 3,7, or dense."""
    service = current_service()
    tag = tag_for_viewer(service.database.read(glance, job_id, service.stored.lease_seconds).tag)
    if (same := not_changed(tag)) is not None:
        return same
    key = _key(skip)
    job = service.database.read(lambda session: find_job(session, job_id).job)
    row = service.database.read(find_evaluation, job_id, key)
    result = result_of(service, job_id)
    against = service.database.read(read_reference, job, result)
    if against is None:
        raise NotFound(f"job {job_id} has no dense evaluation to compare with")
    view = evaluation_view(row, against.floors, against.search.accept_measure)
    point, shown = _checked(against, key), configuration_row(view, against)
    return render(
        "jobs/configuration.html",
        tag=tag,
        job=job,
        name=name_of(job),
        key=key,
        is_dense=key == DENSE_KEY,
        row=shown,
        verdict=shown.verdict,
        floors=floor_rows(view, against),
        checked=point,
        held_out_dense=result.view.held_out_dense if result and point else None,
        num_layers=num_layers_of(job),
        pool=job.outcome["pool"] if job.outcome and has_pool(against.search) else None,
        answers=_answers(service, job, against, row, point),
        only_differing=_only_differing(),
        long_characters=LONG_CHARACTERS,
        metric=metric_of(job.spec),
        measure=measure_name(against.search.accept_measure),
        measure_meaning=measure_meaning(against.search.accept_measure),
        accept_length=ACCEPT_LENGTH,
    )


def _key(skip: str) -> str:
    try:
        return key_of(skip)
    except InvalidInput as error:
        raise NotFound(f"{skip!r} names no configuration: {error.problem}") from None


def _checked(against: Reference, key: str) -> CheckedPoint | None:
    if against.result is None:
        return None
    return next((point for point in checked_points(against.result.view) if point.key == key), None)


def _only_differing() -> bool:
    return request.args.get("differing") == "true"


def _answers(
    service: Service, job: Job, against: Reference, row: EvaluationRow, point: CheckedPoint | None
) -> AnswerPage | None:
    """The page of answers that the address asks for; None for dense, which has nothing beside it."""
    if row.skip_key == DENSE_KEY:
        return None
    part: Part = "held-out" if request.args.get("part") == "held-out" and point else "calibration"
    source = _held_out_answers if part == "held-out" else _calibration_answers
    read, size = source(service, job.id, against, row)
    number = max(1, request.args.get("page", default=1, type=int))
    items, only = items_of(service, job), _only_differing()
    return aside(lambda: answer_page(read(), items, number, differing_only=only), _PAGE_BYTES + size)


def _calibration_answers(service: Service, job_id: str, against: Reference, row: EvaluationRow) -> Source:
    texts = service.database.read(prompt_texts, job_id, [DENSE_KEY, row.skip_key])
    if len(texts) < 2:
        raise NotFound(f"answers of job {job_id} are gone, for it is being removed")
    dense, sparse, metric = texts[DENSE_KEY], texts[row.skip_key], row.metric

    def read() -> Answers:
        return Answers("calibration", json.loads(dense), json.loads(sparse), against.dense.metric, metric)

    return read, len(dense) + len(sparse)


def _held_out_answers(service: Service, job_id: str, against: Reference, row: EvaluationRow) -> Source:
    text, key = service.database.read(held_out_text, job_id), row.skip_key
    skip = skip_of(key).to_list()

    def read() -> Answers:
        part = json.loads(text) if text else None
        point = next((point for point in part["points"] if point["skip"] == skip), None) if part else None
        if part is None or point is None:
            raise NotFound(f"job {job_id} has not checked {key} on held-out prompts")
        dense = part["dense"]
        return Answers(
            "held-out",
            dense.get("per_prompt", ()),
            point.get("per_prompt", ()),
            dense["metric"],
            point["metric"],
        )

    return read, len(text or "")
