from __future__ import annotations

import pytest

from web.forms.choices import options_of
from web.forms.fields import fields
from web.forms.help import CHOICES, HELP, UNSET
from web.forms.job import has_value
from web.forms.problems import label_of


def test_every_field_of_the_models_has_help_and_nothing_else_does():
    assert set(HELP) == set(fields())


@pytest.mark.parametrize("path", HELP)
def test_help_is_a_sentence_or_two(path):
    found = HELP[path]
    assert found.label[0].isupper()
    assert found.text[0].isupper()
    assert found.text.endswith(".")
    assert len(found.text) < 200
    assert label_of(path) == found.label


def test_every_value_of_a_choice_has_words():
    choices = {path: field for path, field in fields().items() if field.kind == "choice"}
    assert set(CHOICES) == set(choices)
    for path, field in choices.items():
        assert set(CHOICES[path]) == set(field.options)
        assert (path in UNSET) == (not has_value(field))
        values = [value for value, _ in options_of(field)]
        assert values == [*([] if has_value(field) else [""]), *field.options]


def test_what_everybody_needs_is_not_folded_away():
    required = [
        path for path, field in fields().items() if path in ("target.id", "draft.method", "domain.name")
    ]
    assert len(required) == 3
    assert not any(HELP[path].rare for path in required)
