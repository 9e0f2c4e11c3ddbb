"""What the prompts of a job will look like: sizes of the two parts, and the first prompts as the target sees them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sqlalchemy.orm import Session

from api.admission import expand
from api.greenlets import aside
from api.sections import checked_domain
from api.service import Service
from models.base import is_id
from models.calibration_sets import find_set
from skipmap.calibration.domains import resolve
from skipmap.calibration.items import Item
from skipmap.calibration.prepare import CalibrationData, prepare
from skipmap.calibration.shots import answer_text, render_user
from skipmap.calibration.sources import SAMPLE_PREFIX
from skipmap.calibration.templates import Template, get_template, render_prompt
from skipmap.client.documents import SET_SOURCE
from skipmap.errors import InvalidInput, NotFound
from skipmap.metrics.registry import get_metric
from skipmap.spec import JobSpec
from web.forms.job import Typed, read_form
from web.forms.problems import label_of, plain, request_of
from web.views.kept import Kept
from web.views.set_files import file_of

_SHOWN = 3
_KEPT_CHARACTERS = 4 << 20
_MOST_CHARACTERS = 6000
_ANSWER = "(the model's own answer to the turn before)"
_OF_THE_HUB = (
    "The workers fetch a data set of the hub when they take the job up, so its prompts cannot be shown here."
)


@dataclass(frozen=True)
class Passage:
    """A piece of a prompt. ``role``: who says it in a chat, empty in a plain text; ``more``: characters left out."""

    role: str
    text: str
    more: int = 0


@dataclass(frozen=True)
class Prompt:
    """A prompt as the target sees it, and what good answers are."""

    id: str
    passages: tuple[Passage, ...]
    references: tuple[Passage, ...]


@dataclass(frozen=True)
class Preview:
    """What can be shown. ``note``: why there are no prompts although nothing is wrong."""

    problems: tuple[str, ...] = ()
    note: str = ""
    template: str = ""
    metric: str = ""
    calibration: int = 0
    held_out: int = 0
    shots: int = 0
    left_out: tuple[tuple[str, int], ...] = ()
    prompts: tuple[Prompt, ...] = ()

    @property
    def is_chat(self) -> bool:
        """Whether the target's own chat template writes the prompts."""
        return any(passage.role for prompt in self.prompts for passage in prompt.passages)

    @property
    def characters(self) -> int:
        """Of all that is shown."""
        shown = [passage for prompt in self.prompts for passage in (*prompt.passages, *prompt.references)]
        return sum(len(passage.text) for passage in shown)


# By set and spec: of neither does a preview change.
_kept: Kept[tuple[str, str], Preview] = Kept(_KEPT_CHARACTERS, lambda found: 1000 + found.characters)


def preview(service: Service, form: Typed) -> Preview:
    """Load and split the prompts that a form asks for, as a job will, and write the first ones."""
    _, wrong = request_of(form)
    problems = [
        f"{label_of(path)}: {plain(text)}"
        for path, text in wrong.items()
        if path.startswith(("domain.", "calibration."))
    ]
    if problems:
        return Preview(problems=tuple(problems))
    try:
        spec = service.database.read(_spec, read_form(form))
        source = spec.calibration.source
        if source.startswith(SAMPLE_PREFIX):
            return _shown(spec)
        if source.startswith(SET_SOURCE):
            return _of_set(service, spec, source.removeprefix(SET_SOURCE))
    except InvalidInput as error:
        return Preview(problems=(f"{label_of(error.field) or error.field}: {plain(error.problem)}",))
    except NotFound as error:
        return Preview(problems=(plain(str(error)),))
    return Preview(note=_OF_THE_HUB)


def _spec(session: Session, data: Mapping[str, Any]) -> JobSpec:
    """A spec with the prompts of the form, for any target and draft."""
    spec = JobSpec.parse(
        {
            "target": {"id": "-"},
            "draft": {"method": "-"},
            "domain": data["domain"],
            "calibration": data["calibration"],
        }
    )
    spec = expand(session, spec)
    checked_domain(spec.domain)
    return resolve(spec)


def _of_set(service: Service, spec: JobSpec, set_id: str) -> Preview:
    if not is_id(set_id):
        raise InvalidInput("calibration.source", f"there is no calibration set {set_id!r}; choose another")
    kind: str = service.database.read(lambda session: find_set(session, set_id).statistics["format"])
    if spec.calibration.format not in ("auto", kind):
        raise InvalidInput("calibration.format", f"the set is {kind} (given: {spec.calibration.format})")
    key = set_id, spec.model_dump_json()
    found = _kept.get(key, lambda: _read_set(service, spec, set_id, kind))
    assert found is not None
    return found


def _read_set(service: Service, spec: JobSpec, set_id: str, kind: str) -> Preview:
    file = file_of(service, set_id)
    with tempfile.TemporaryDirectory(prefix="skipmap-set-") as folder:
        path = str(file.write(Path(folder)))
        local = spec.calibration.model_copy(update={"source": path, "format": kind})
        try:
            return aside(lambda: _shown(spec.model_copy(update={"calibration": local})), len(file.content))
        except InvalidInput as error:
            raise InvalidInput(error.field, error.problem.replace(path, "the set")) from None


def _shown(spec: JobSpec) -> Preview:
    domain = spec.domain
    assert domain.metric
    assert domain.template
    assert domain.shots is not None
    template = get_template(domain.template)
    data = prepare(spec.calibration, domain.shots, get_metric(domain.metric))
    return Preview(
        template=template.name,
        metric=domain.metric,
        calibration=len(data.calibration),
        held_out=len(data.held_out),
        shots=len(data.shots),
        left_out=tuple(data.left_out.items()),
        prompts=tuple(_prompt(template, item, data) for item in data.calibration[:_SHOWN]),
    )


def _prompt(template: Template, item: Item, data: CalibrationData) -> Prompt:
    written = _Written()
    # With a tokenizer's face, so that the template itself does all of the writing.
    render_prompt(template, item, (), data.shots, cast(Any, written))
    later = [
        passage
        for turn in range(1, len(item.turns))
        for passage in (
            Passage("assistant", _ANSWER),
            _passage("user", render_user(item, turn, instruct=template.instructs)),
        )
    ]
    return Prompt(
        item.id, (*written.passages, *later), tuple(_passage("", text) for text in _references(item))
    )


def _references(item: Item) -> Sequence[str]:
    if item.scored_references:
        return item.scored_references
    return (answer_text(item),) if item.choices and item.answer is not None else ()


def _passage(role: str, text: str) -> Passage:
    return Passage(role, text[:_MOST_CHARACTERS], max(0, len(text) - _MOST_CHARACTERS))


class _Written:
    """Takes what a template hands to a tokenizer: one text, or the messages of a chat."""

    chat_template = "the target's own"
    eos_token, eos_token_id = "", None

    def __init__(self) -> None:
        self.passages: list[Passage] = []

    def __call__(self, text: str) -> dict[str, list[int]]:
        self.passages = [_passage("", text)]
        return {"input_ids": []}

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
        self.passages = [_passage(message["role"], message["content"]) for message in messages]
        return []

    def get_chat_template(self) -> str:
        return self.chat_template
