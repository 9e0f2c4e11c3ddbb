"""A look at the form of a job before it is sent: what is wrong, and what is to be known of what it names."""

from __future__ import annotations

from api.admission import admit
from api.service import Service
from skipmap.errors import InvalidInput
from skipmap.spec import JobSpec
from web.forms.job import Typed, control_of, read_form
from web.forms.problems import all_problems, by_control, request_of
from web.forms.targets import target_note

_NOTED = ("target.choice", "target.id")
"""Controls with a note."""


def errors_of(service: Service, form: Typed, *, closely: bool = False) -> dict[str, str]:
    """Everything that can be told to be wrong, by control; ``closely``: with a look into the prompts as well."""
    wrong = all_problems(service, form)
    asked, _ = request_of(form)
    if closely and not wrong and asked is not None:
        try:
            admit(service, JobSpec(**{name: getattr(asked, name) for name in JobSpec.model_fields}))
        except InvalidInput as error:
            wrong = {error.field: error.problem}
    return by_control(wrong, form)


def notes_of(service: Service, form: Typed) -> dict[str, str]:
    """A note for each control that has one; empty where there is nothing to say."""
    note = service.database.read(target_note, read_form(form), service.library.model_roots)
    return {**dict.fromkeys(_NOTED, ""), control_of("target.id", form): note}
