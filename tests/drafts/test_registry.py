from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import ClassVar

import pytest

from skipmap.drafts import registry
from skipmap.drafts.base import DraftParams, Needs, check_tree
from skipmap.drafts.registry import check_params, draft_names, draft_type, is_lossy, make_draft
from skipmap.errors import InvalidInput, ModelFailure
from skipmap.tree import TokenTree


class EchoParams(DraftParams):
    times: int = 1


class Echo:
    """A user's draft method."""

    name: ClassVar[str] = "echo"
    params_type: ClassVar[type[DraftParams]] = EchoParams
    needs: ClassVar[Needs] = Needs()

    def __init__(self, params, resources=None):
        self.params, self.resources = params, resources


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Pretend that installed packages declare these entry points."""
    module = ModuleType("their_drafts")
    module.Echo = Echo
    monkeypatch.setitem(sys.modules, "their_drafts", module)

    def declare(**values: str) -> None:
        points = EntryPoints(EntryPoint(name, value, "skipmap.drafts") for name, value in values.items())
        monkeypatch.setattr(registry, "entry_points", points.select)

    return declare


@pytest.mark.parametrize("name", ["prompt_lookup", "sam"])
def test_built_in_methods_tell_what_they_are(name):
    draft = make_draft(name)
    assert draft.name == name
    assert draft.summary
    assert draft.replayable
    assert not draft.lossy
    assert draft.needs == Needs()
    assert isinstance(draft.params, draft_type(name).params_type)
    assert name in draft_names()


@pytest.mark.parametrize(
    ("name", "params", "field", "says"),
    [
        (
            "sam",
            {"depth": 3},
            "draft.params.depth",
            "no such parameter; known: corpus, growth, max_positions",
        ),
        ("sam", {"growth": 0}, "draft.params.growth", r"greater than 0 \(given: 0\)"),
        ("sam", {"max_positions": "many"}, "draft.params.max_positions", r"integer.*\(given: 'many'\)"),
        ("sam", {"growth": float("nan")}, "draft.params.growth", "given: nan"),
        ("prompt_lookup", {"num_tokens": 257}, "draft.params.num_tokens", "less than or equal to 256"),
        (
            "prompt_lookup",
            {"min_ngram": 4, "max_ngram": 2},
            "draft.params",
            "min_ngram 4 is above max_ngram 2",
        ),
    ],
)
def test_bad_parameter_is_refused_by_its_path(name, params, field, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        make_draft(name, params)
    assert caught.value.field == field


def test_parameters_can_be_checked_alone():
    params = check_params("sam", {"corpus": "/does/not/exist.txt", "growth": 2})
    assert params.growth == 2.0
    with pytest.raises(InvalidInput, match=r"^draft\.params\.growth"):
        check_params("sam", {"growth": -1})


def test_unknown_method_lists_the_known_ones(install):
    install(echo="their_drafts:Echo")
    with pytest.raises(
        InvalidInput, match=r"'eagel' is unknown; known: .*, echo, .*prompt_lookup, sam"
    ) as caught:
        make_draft("eagel")
    assert caught.value.field == "draft.method"


def test_installed_packages_add_methods(install):
    install(echo="their_drafts:Echo")
    assert draft_names() == sorted(["echo", *registry._BUILT_IN])
    draft = make_draft("echo", {"times": 3})
    assert isinstance(draft, Echo)
    assert draft.params.times == 3
    with pytest.raises(InvalidInput, match="echo has no such parameter; known: times"):
        make_draft("echo", {"time": 3})


@pytest.mark.parametrize("value", ["their_drafts:Gone", "no_such_module:Draft"])
def test_broken_plug_in_is_named_and_does_not_hurt_the_others(value, install):
    install(echo=value)
    with pytest.raises(InvalidInput, match=f"plug-in '{value}' for 'echo' cannot be loaded") as caught:
        make_draft("echo")
    assert caught.value.field == "draft.method"
    assert make_draft("sam").name == "sam"


def test_built_in_method_cannot_be_replaced(install):
    install(sam="their_drafts:Echo")
    assert make_draft("sam").name == "sam"


def test_lossiness_may_depend_on_parameters():
    assert not is_lossy("sam")
    assert not is_lossy("medusa")
    assert not is_lossy("medusa", {"acceptance": "greedy"})
    assert is_lossy("medusa", {"head": "h", "acceptance": "typical"})
    assert is_lossy("bild")
    with pytest.raises(InvalidInput, match="is unknown"):
        is_lossy("eagel")


def test_drafts_load_without_the_model_libraries():
    code = (
        "import sys, skipmap.drafts.registry as r; [r.make_draft(n) for n in ('sam', 'samd', 'token_recycling')];"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (TokenTree.chain(range(11)), "proposed 11 tokens, but promised at most 10"),
        (TokenTree.chain([96, 97]), r"a token outside of the vocabulary \(0..96\)"),
        (TokenTree.chain([-1]), "a token outside of the vocabulary"),
    ],
)
def test_proposals_that_break_a_promise_name_the_method(tree, problem):
    draft = make_draft("prompt_lookup")
    check_tree(TokenTree.chain(range(10)), draft, 97)
    with pytest.raises(
        ModelFailure, match=f"draft prompt_lookup proposed .*{problem.removeprefix('proposed ')}"
    ):
        check_tree(tree, draft, 97)
