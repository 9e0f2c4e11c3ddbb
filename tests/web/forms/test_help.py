from __future__ import annotations

import pytest

from skipmap.profiling.strategies.registry import STRATEGIES
from skipmap.spec import READ_BY
from web.forms.choices import options_of
from web.forms.fields import Field, fields
from web.forms.help import CHOICES, HELP, UNSET, choices_of, help_of, paths_of
from web.forms.job import has_value
from web.forms.problems import label_of


def test_help_is_of_fields_that_there_are():
    assert set(HELP) <= set(fields())
    choices = {path: set(field.options) for path, field in fields().items() if field.kind == "choice"}
    assert set(CHOICES) <= set(choices)
    assert all(set(words) <= choices[path] for path, words in CHOICES.items())
    assert set(UNSET) <= {path for path in choices if not has_value(fields()[path])}


@pytest.mark.parametrize("path", fields())
def test_help_is_a_sentence_or_two(path):
    found = help_of(path)
    assert found.label[0].isupper()
    assert found.text[0].isupper()
    assert found.text.endswith(".")
    assert len(found.text) < 200
    assert label_of(path) == found.label


def test_every_value_of_a_choice_has_words():
    for path, field in fields().items():
        if field.kind != "choice":
            continue
        options = dict(options_of(field))
        assert set(options) == {*field.options, *([] if has_value(field) else [""])}, path
        assert all(options.values()), path
        assert len(set(options.values())) == len(options), path


def test_what_the_library_registers_says_itself_what_it_is():
    field = fields()["search.strategy"]
    assert [name for name, _ in choices_of(field)] == list(STRATEGIES)
    for name, words in choices_of(field):
        assert words.endswith(STRATEGIES[name].summary.replace("block", "layer"))
    assert set(STRATEGIES) == set(field.options)
    assert "search.strategy" not in CHOICES


def test_what_nobody_has_described_has_words_all_the_same(monkeypatch):
    new = Field("search.new_bound", "number", default=3, about="most of something")
    bare = Field("search.other_choice", "choice", options=("one_way", "none"), default="none")
    monkeypatch.setattr("web.forms.help.fields", lambda: {**fields(), new.path: new, bare.path: bare})
    found = help_of("search.new_bound")
    assert (found.label, found.text, found.rare) == ("New bound", "Most of something.", True)
    assert help_of("search.other_choice").text.endswith(".")
    assert choices_of(bare) == [("one_way", "one way"), ("none", "none")]
    assert paths_of("search")[-2:] == ["search.new_bound", "search.other_choice"]


def test_the_order_of_a_section_leaves_nothing_out():
    sections = {field.section for field in fields().values()}
    assert sorted(path for section in sections for path in paths_of(section)) == sorted(fields())


def test_what_depends_on_the_strategy_stands_after_it():
    order = paths_of("search")
    assert all(order.index("search.strategy") < order.index(f"search.{name}") for name in READ_BY)


def test_what_everybody_needs_is_not_folded_away():
    assert not any(help_of(path).rare for path in ("target.id", "draft.method", "domain.name"))
