"""A tiny target on disk, a calibration file that it answers perfectly, and the command line in this process."""

from __future__ import annotations

import contextlib
import io
import json
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from structlog.testing import capture_logs
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from skipmap.cli import main

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from models.database import Database
    from models.settings import ServiceSettings
    from tests.cli.service import Api, Worker

LAYERS = 6
QUIET_BLOCKS = (1, 2, 4)
"""Blocks that hardly change the hidden state, so that skipping them hardly changes answers."""

NEW_TOKENS = 16
WORDS = [f"w{i}" for i in range(94)]


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test has a working folder of its own, and leaves the signals as they were."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; the chat template closes each turn with w0."""
    words = {word: i for i, word in enumerate(["<unk>", "<s>", "</s>", *WORDS])}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", bos_token="<s>")
    tokenizer.chat_template = "<s> {% for m in messages %}{{ m['content'] }} w0 {% endfor %}"
    return tokenizer


@pytest.fixture(scope="session")
def save_target(
    tiny_model: Callable[[str], PreTrainedModel],
    tokenizer: PreTrainedTokenizerFast,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Path]:
    """Save the tiny model of a family; ``quiet`` scales what the quiet blocks of a Llama add."""

    def save(family: str = "llama", *, quiet: float = 1.0, eos: int | None = None) -> Path:
        folder = tmp_path_factory.mktemp("targets") / family
        tiny_model(family).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            for index in QUIET_BLOCKS:
                block = model.base_model.layers[index]
                block.self_attn.o_proj.weight *= quiet
                block.mlp.down_proj.weight *= quiet
        model.generation_config.eos_token_id = eos
        model.save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def target(save_target: Callable[..., Path]) -> Path:
    """A Llama with quiet blocks."""
    return save_target(quiet=0.002)


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    """Six random prompts; few words make repeats, which drafts live on."""
    rng = random.Random(3)
    return [" ".join(rng.choices(WORDS[:12], k=rng.randint(5, 20))) for _ in range(6)]


@pytest.fixture(scope="session")
def write_items(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[dict[str, Any]]], Path]:
    """Write rows as a calibration file."""

    def write(rows: list[dict[str, Any]]) -> Path:
        path = tmp_path_factory.mktemp("data") / "items.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def answered(
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[str],
    write_items: Callable[[list[dict[str, Any]]], Path],
) -> Callable[[Path], Path]:
    """Calibration file for a target whose references are what plain Hugging Face generation answers."""

    def make(target: Path) -> Path:
        model = AutoModelForCausalLM.from_pretrained(target)
        rows = []
        for i, prompt in enumerate(prompts):
            ids = tokenizer(f"<s> {prompt} w0", return_tensors="pt")
            answer = model.generate(**ids, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)
            text = tokenizer.decode(answer[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
            rows.append({"id": f"item-{i}", "prompt": prompt, "reference": text})
        return write_items(rows)

    return make


@pytest.fixture(scope="session")
def items(target: Path, answered: Callable[[Path], Path]) -> Path:
    """Calibration file that the quiet target answers perfectly."""
    return answered(target)


@pytest.fixture(scope="session")
def job(target: Path, items: Path) -> list[str]:
    """Options of a small job with feasible pairs of blocks."""
    return [
        *("profile", "--target", str(target), "--draft", "prompt_lookup", "--domain", "words"),
        *("--metric", "f1", "--calibration", str(items), "--max-new-tokens", str(NEW_TOKENS)),
        *("--eps", ".3", "--tau", ".3", "--max-depth", "2", "--max-pool", "3"),
    ]


@pytest.fixture
def skipmap(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process."""

    def run(*argv: object) -> Ran:
        capsys.readouterr()
        try:
            code = main([str(part) for part in argv])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


class Finished(NamedTuple):
    """Files of a finished job, and its result."""

    result: Path
    map: Path
    document: dict[str, Any]


@pytest.fixture(scope="session")
def finished(job: list[str], tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The small job, run once."""
    folder = tmp_path_factory.mktemp("finished")
    places = {"--result": folder / "result.json", "--out": folder / "map.json", "--runs": folder / "runs"}
    before = signal.getsignal(signal.SIGTERM)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([*job, *(str(part) for pair in places.items() for part in pair)]) == 0
    signal.signal(signal.SIGTERM, before)
    result, domain_map = places["--result"], places["--out"]
    return Finished(result, domain_map, json.loads(result.read_text(encoding="utf-8")))


@pytest.fixture
def worker(database: Database, settings: ServiceSettings, finished: Finished) -> Worker:
    """A fake worker of the service, whose jobs end with the small job's result."""
    from tests.cli.service import Worker

    return Worker(database, settings, document=finished.document)


@pytest.fixture
def token(database: Database) -> str:
    """A token that may read and write jobs, and publish maps."""
    from models.accounts import create_token, create_user

    def make(session: Session) -> str:
        user = create_user(session, "somebody")
        scopes = ["jobs:read", "jobs:write", "maps:read", "maps:publish", "nodes:report"]
        return create_token(session, user.id, "test", scopes)[1]

    return database.transaction(make)


@pytest.fixture
def api(worker: Worker, token: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The API, which the command line is told of."""
    from tests.cli.service import Api

    monkeypatch.setenv("SKIPMAP_TOKEN", token)
    # The API logs in this process, and its lines are none of a command's.
    with capture_logs():
        api = Api(worker)
        monkeypatch.setenv("SKIPMAP_SERVER", api.url)
        yield api
        api.stop()


@pytest.fixture
def submit(api: Api, skipmap: Callable[..., Ran]) -> Callable[..., str]:
    """Submit a job; its id."""
    from tests.cli.service import SAMPLE, SPEC

    def run(*options: object) -> str:
        ran = skipmap("jobs", "submit", *SPEC, *SAMPLE, *options)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.strip()

    return run


@pytest.fixture
def ended(submit: Callable[..., str], worker: Worker) -> str:
    """Id of a job that has succeeded."""
    job_id = submit()
    worker.work_off()
    assert worker.state(job_id) == "succeeded"
    return job_id
