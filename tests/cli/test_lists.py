from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from skipmap.drafts import registry
from skipmap.drafts.base import DraftParams
from skipmap.drafts.registry import check_params, draft_names, draft_type
from skipmap.errors import NotFound
from skipmap.settings import get_settings
from skipmap.spec import READ_BY, StrategyName
from skipmap.target.known import KNOWN_TARGETS


@pytest.fixture
def one_known(monkeypatch):
    """Of the known targets only the demo model is installed."""

    def installed(name):
        if name != "smollm2-135m-instruct":
            raise NotFound(f"target: {name} needs a package; run: pip install it")
        return [Path("demo.gguf")]

    monkeypatch.setattr("skipmap.cli.models.installed_files", installed)
    monkeypatch.setattr("skipmap.cli.doctor.installed_files", installed)


@pytest.fixture
def settings(monkeypatch):
    """Set SKIPMAP_... variables for one test."""

    def change(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"SKIPMAP_{name}", str(value))
        get_settings.cache_clear()

    yield change
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.mark.usefixtures("one_known")
def test_models_says_where_they_are_or_how_to_get_them(skipmap):
    ran = skipmap("models")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == sorted(KNOWN_TARGETS)
    assert "run: pip install it" in lines[0]
    assert lines[1].endswith("demo.gguf")
    assert "LlamaForCausalLM" in lines[-1]
    found = json.loads(skipmap("models", "--json").out)
    assert found["known"]["smollm2-135m-instruct"]["missing"] is None
    assert found["known"]["gemma3-270m"]["path"] is None
    assert "Qwen3ForCausalLM" in found["architectures"]


def test_models_with_a_setting_that_cannot_be_used(skipmap, settings):
    settings(HOME="~no-such-user-here/x")
    ran = skipmap("models")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("skipmap: SKIPMAP_HOME: Could not determine home directory")
    assert ran.err.count("\n") == 1


def test_strategies_lists_what_each_alone_reads(skipmap):
    found = json.loads(skipmap("strategies", "--json").out)
    assert set(found) == set(get_args(StrategyName))
    for name, entry in found.items():
        assert set(entry["reads"]) == {field for field, names in READ_BY.items() if name in names}
    # Not what it looks at on its way, which may be nothing at all: what a set must keep to be chosen.
    assert found["accept_only"]["admits_by"] == "accept length"
    assert found["random"]["admits_by"] == "accept length and metric"
    ran = skipmap("strategies")
    assert (ran.code, ran.err) == (0, "")
    assert "tss: every set of the blocks that keep accept length or metric, level by level\n" in ran.out
    assert "    search.beam_width = 8\n" in ran.out


def test_drafts_lists_parameters_with_their_defaults(skipmap):
    found = json.loads(skipmap("drafts", "--json").out)
    assert sorted(found) == draft_names()
    for name, entry in found.items():
        fields = draft_type(name).params_type.model_fields
        assert {parameter for parameter, field in entry["params"].items() if field["required"]} == {
            parameter for parameter, field in fields.items() if field.is_required()
        }
        if not any(field.is_required() for field in fields.values()):
            defaults = {parameter: field["default"] for parameter, field in entry["params"].items()}
            assert defaults == check_params(name).model_dump()
    ran = skipmap("drafts")
    assert (ran.code, ran.err) == (0, "")
    assert (
        "prompt_lookup: copies what followed an earlier occurrence of the last n-gram (replayable)" in ran.out
    )
    assert "    num_tokens = 10  drafted tokens a step, 1 to 256\n" in ran.out
    assert (
        "    anchors (required)  file of anchors that `skipmap anchors` has made for the target\n" in ran.out
    )
    assert "    update = all  drafted tokens whose successors are learnt, all or accepted\n" in ran.out


def test_drafts_says_what_can_be_replayed(skipmap):
    found = json.loads(skipmap("drafts", "--json").out)
    lines = {line.split(":")[0]: line for line in skipmap("drafts").out.splitlines()}
    assert (found["sam"]["replayable"], found["sam"]["replayable_with"]) == (True, {})
    assert lines["sam"].endswith("(replayable)")
    for name in ("samd", "token_recycling"):
        assert found[name]["replayable"] is False
        assert found[name]["replayable_with"] == {"update": ["accepted"]}
        assert lines[name].endswith("(live only, replayable with update = accepted)")


def test_drafts_says_what_makes_a_method_lossy(skipmap):
    found = json.loads(skipmap("drafts", "--json").out)
    line = next(line for line in skipmap("drafts").out.splitlines() if line.startswith("medusa"))
    assert (found["medusa"]["lossy"], found["medusa"]["lossy_with"]) == (True, {"acceptance": "typical"})
    assert line.endswith("(live only, lossy with acceptance = typical)")
    assert (found["eagle"]["lossy"], found["eagle"]["lossy_with"]) == (False, {})


class NeedyParams(DraftParams):
    checkpoint: str


class Needy:
    """A user's draft method that cannot be made without a checkpoint."""

    summary = "proposes what a checkpoint says"
    params_type = NeedyParams
    lossy = True

    def __init__(self, params, resources=None):
        self.params = params
        self.replayable = True


def test_method_that_needs_more_than_defaults_is_listed_all_the_same(skipmap, monkeypatch):
    monkeypatch.setitem(registry._BUILT_IN, "needy", Needy)
    assert json.loads(skipmap("drafts", "--json").out)["needy"]["replayable"] is None
    line = next(line for line in skipmap("drafts").out.splitlines() if line.startswith("needy"))
    assert line == "needy: proposes what a checkpoint says (replayable or not by its parameters, lossy)"


@pytest.mark.usefixtures("one_known")
def test_doctor_finds_a_good_machine_good(skipmap, settings, tmp_path):
    settings(CACHE=tmp_path / "cache")
    ran = skipmap("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(ran.out)}
    assert checks.keys() == {"python", "torch", "kernels", "cache", "demo model", "datasets"}
    assert all(check["ok"] for name, check in checks.items() if name != "cache")
    assert ran.code == (0 if checks["cache"]["ok"] else 5)
    assert not list((tmp_path / "cache").iterdir())


def test_doctor_names_what_is_wrong_and_what_to_do(skipmap, settings, monkeypatch, tmp_path):
    def missing(name):
        raise NotFound("run: pip install the-model")

    monkeypatch.setattr("skipmap.cli.doctor.installed_files", missing)
    # A folder cannot lie under a file, not even for root.
    (tmp_path / "file").write_text("")
    settings(CACHE=tmp_path / "file" / "cache")
    ran = skipmap("doctor")
    assert ran.code == 5
    lines = ran.out.splitlines()
    failed = [(line, lines[i + 1].strip()) for i, line in enumerate(lines) if line[:4] in ("FAIL", "note")]
    assert failed == [
        (
            f"FAIL cache: {tmp_path / 'file' / 'cache'}: Not a directory",
            "free some space, or point SKIPMAP_CACHE to another place",
        ),
        ("note demo model: absent", "run: pip install the-model"),
    ]
