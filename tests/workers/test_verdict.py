"""The judge of chaos notices what it is there for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.models.bench import Bench, make_spec, random_table
from tests.workers.verdict import Witness, judge, tally

TABLE = random_table(4)


@dataclass
class Ended(Bench):
    """A database with a finished job, and the log of who worked on it."""

    entries: list[dict[str, Any]] = field(default_factory=list)

    def log(self) -> list[dict[str, Any]]:
        return self.entries

    def begin(self, *keys: str) -> None:
        self.entries.append({"what": "begin", "job": "a job", "keys": list(keys)})


@pytest.fixture
def ended(database, settings) -> Ended:
    ended = Ended(database, settings, TABLE)
    ended.submit(make_spec(eps=0.2, tau=0.2))
    ended.work_off()
    keys = ended.sql("SELECT skip_key FROM evaluations")
    ended.begin(*keys)
    document = json.dumps({"document": {"evaluated": sorted(keys)}})
    ended.sql("UPDATE findings SET payload = :document WHERE kind = 'result'", document=document)
    return ended


def test_a_sound_run_is_found_sound(ended):
    assert judge(ended, TABLE, 0) == []
    assert "1 succeeded" in str(tally(ended))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("UPDATE evaluations SET metric = 0.001 WHERE skip_key = '0'", "other figures"),
        ("DELETE FROM evaluations WHERE skip_key = '0'", "missing"),
        ("UPDATE findings SET payload = '{}' WHERE kind = 'result'", "lacks evaluations"),
        ("UPDATE jobs SET state = 'failed', error = 'bad luck'", "is failed: bad luck"),
        ("UPDATE jobs SET state = 'running', finished_at = NULL", "is running"),
        ("DELETE FROM events WHERE seq = 2", "events of a job are numbered"),
    ],
)
def test_harm_is_noticed(ended, harm, words):
    ended.sql(harm)
    assert any(words in line for line in judge(ended, TABLE, 0)), judge(ended, TABLE, 0)


def test_work_that_is_done_again_and_again_is_noticed(ended):
    for _ in range(4):
        ended.begin("0")
    assert judge(ended, TABLE, interrupted=4) == []
    assert "evaluated again" in judge(ended, TABLE, interrupted=0)[0]


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        ("UPDATE evaluations SET prompts = '[]' WHERE skip_key = '0'", "replaced"),
        ("UPDATE evaluations SET claim_token = gen_random_uuid() WHERE skip_key = '0'", "replaced"),
        ("DELETE FROM evaluations WHERE skip_key = '0'", "lost"),
    ],
)
def test_a_stored_value_that_changes_is_noticed(ended, harm, word):
    witness = Witness(ended)
    witness.look()
    witness.look()
    assert witness.wrong == []
    ended.sql(harm)
    witness.look()
    assert len(witness.wrong) == 1
    assert word in witness.wrong[0]
