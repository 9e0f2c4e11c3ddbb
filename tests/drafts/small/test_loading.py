from __future__ import annotations

import gc
import weakref

import pytest

from skipmap.drafts.base import Resources
from skipmap.drafts.small import loading
from skipmap.drafts.small.loading import open_small
from skipmap.drafts.small.reader import Reading
from skipmap.errors import InvalidInput, ModelFailure, NotFound
from skipmap.settings import get_settings


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch):
    """Set a variable of the environment for the library."""

    def change(name: str, value: object) -> None:
        monkeypatch.setenv(f"SKIPMAP_{name}", str(value))
        get_settings.cache_clear()

    yield change
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the models whose weights were read."""
    seen: list[str] = []
    read = loading.load_model

    def watched(resolved, *more):
        seen.append(resolved.id)
        return read(resolved, *more)

    monkeypatch.setattr(loading, "load_model", watched)
    return seen


@pytest.fixture
def beside(tiny_target, numbers):
    """Resources of a tiny target."""
    return Resources(target=tiny_target("llama"), tokenizer=numbers())


def test_model_runs_as_the_target_does(beside, small, small_model, next_logits):
    seen, name = [], small("llama", "pruned")
    found = open_small(name, None, beside, "mine")
    # Whoever works with the target may change its hook at any time.
    beside.target.hook = seen.append
    logits = found.reader.read([Reading()], [[3, 4, 5]], [4])[0]
    assert logits.argmax() == next_logits(small_model("llama", "pruned"), [3, 4, 5])[-1].argmax()
    assert [report.kind for report in seen] == ["prefill", "step"]
    beside.target.hook = None
    assert found.reader.model.geometry.dtype == beside.target.geometry.dtype
    assert len(found.fingerprint) == 64
    assert found.fingerprint != open_small(small("llama", "same"), None, beside, "mine").fingerprint


def test_weights_are_read_once(beside, small, loads):
    names = [small("llama", "pruned"), small("llama", "other")]
    models = [open_small(name, None, beside, "mine").reader.model.model for name in [*names, *names]]
    assert loads == names
    assert models[0] is models[2]


def test_weights_go_with_the_target(small, tiny_target, numbers):
    beside = Resources(target=tiny_target("llama"), tokenizer=numbers())
    model = weakref.ref(open_small(small("llama", "other"), None, beside, "mine").reader.model.model)
    gc.collect()
    assert model() is not None
    del beside
    gc.collect()
    assert model() is None


def test_few_models_are_kept(beside, save, build, loads):
    names = [save(build(seed)) for seed in range(loading.KEPT + 1)]
    for name in [*names, names[1], names[0]]:
        open_small(name, None, beside, "mine")
    assert loads == [*names, names[0]]


@pytest.mark.parametrize("lacking", ["all", "target", "tokenizer"])
def test_a_target_is_needed(lacking, beside):
    given = {
        "all": None,
        "target": Resources(tokenizer=beside.tokenizer),
        "tokenizer": Resources(target=beside.target),
    }
    with pytest.raises(InvalidInput, match=r"^draft\.method: mine runs beside a loaded target"):
        open_small("owner/name", None, given[lacking], "mine")


@pytest.mark.parametrize(
    ("name", "revision", "error", "says"),
    [
        ("owner/name", None, NotFound, "draft.params.model: owner/name .* cannot be fetched"),
        ("owner/name", "v1", NotFound, "draft.params.model: owner/name at revision v1"),
        ("/nowhere/model", None, NotFound, "draft.params.model: /nowhere/model does not exist"),
        ("../../x/y/z", None, NotFound, "draft.params.model: .* does not exist"),
        ("not a name", None, NotFound, "draft.params.model: not a name does not exist"),
        ("smollm2-135m-instruct", "v1", InvalidInput, "draft.params.revision: 'v1' given, but smollm2"),
        ("\0", None, InvalidInput, "draft.params.model: "),
    ],
)
def test_names_that_lead_nowhere_are_refused(name, revision, error, says, beside):
    with pytest.raises(error, match=f"^{says}"):
        open_small(name, revision, beside, "mine")


def test_paths_outside_the_model_folders_are_refused(beside, small, settings, tmp_path):
    name = small("llama", "other")
    settings("MODEL_ROOTS", tmp_path)
    with pytest.raises(InvalidInput, match=r"^draft\.params\.mine: .* lies outside the model folders"):
        open_small(name, None, beside, "mine", ("mine", "version"))
    (tmp_path / "link").symlink_to(name)
    with pytest.raises(InvalidInput, match=r"^draft\.params\.model: .* outside"):
        open_small(str(tmp_path / "link"), None, beside, "mine")


def test_another_vocabulary_is_refused_before_weights_are_read(beside, save, build, numbers, loads):
    name = save(build(0), numbers(97, {5: "five"}))
    with pytest.raises(
        InvalidInput, match=r"^draft\.params\.model: .* vocabulary .*: 1, of which 5 is '5' .* 'five'"
    ):
        open_small(name, None, beside, "mine")
    # Rows of an embedding that no token uses are another matter.
    padded = save(build(0, vocab_size=128), numbers(97))
    assert open_small(padded, None, beside, "mine").reader.model.vocabulary_size == 128
    assert loads == [padded]


def test_files_that_are_no_model_are_refused(beside, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(InvalidInput, match=r"^draft\.params\.model: .* can run code when loaded"):
        open_small(str(tmp_path), None, beside, "mine")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises((InvalidInput, ModelFailure), match=r"^draft\.params\.model: .*mamba"):
        open_small(str(tmp_path), None, beside, "mine")
