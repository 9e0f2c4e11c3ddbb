"""``make mutants``: take away, one at a time, what keeps the service correct, and see that a named test notices.

Works on a copy of the sources. Every mutation must fit its file exactly, every test must pass without it and fail with
it, and must say what the mutation lets happen; anything else is an error of this list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("deploy", "migrations", "models", "skipmap", "tests", "workers", "pyproject.toml")
TEST_SECONDS = 150
PASSED, FAILED = 0, 1
"""Exit codes of pytest; others mean that the test did not run."""


@dataclass(frozen=True)
class Mutant:
    """``old`` in ``file`` becomes ``new``; ``test`` then fails, with ``shows`` in what it says."""

    name: str
    file: str
    old: str
    new: str
    test: str
    shows: str


MUTANTS = (
    Mutant(
        "a group is stored without a look at the claim token",
        "models/lease.py",
        "WHERE {MINE} AND c.state = 'running'\n        RETURNING",
        "WHERE c.id = :chunk_id AND CAST(:token AS uuid) IS NOT NULL AND c.state = 'running'\n        RETURNING",
        "tests/models/test_lease.py::test_a_stale_owner_changes_nothing[lose_to_another-flush]",
        "DID NOT RAISE",
    ),
    Mutant(
        "the value stored last stays, not the first",
        "models/lease.py",
        "ON CONFLICT DO NOTHING\n        RETURNING skip_key",
        "ON CONFLICT (job_id, skip_key) DO UPDATE SET metric = excluded.metric, prompts = excluded.prompts\n"
        "        RETURNING evaluations.skip_key",
        "tests/models/test_lease.py::test_the_first_stored_value_stays",
        "AssertionError",
    ),
    Mutant(
        "a level is advanced without its lock",
        "models/advance.py",
        ".with_for_update(key_share=True, skip_locked=not waits)",
        "",
        "tests/models/test_advance.py::test_one_who_comes_late_waits_and_finds_the_level_done",
        "Error",
    ),
    Mutant(
        "nobody looks again for open chunks under the lock",
        "models/advance.py",
        "    if has_open_chunk(session, level_id):\n        return Advance.OPEN\n    job =",
        "    job =",
        "tests/models/test_advance.py::test_a_level_with_an_open_chunk_is_left_alone",
        "is Advance.OPEN",
    ),
    Mutant(
        "who finishes a chunk does not look, after the commit, whether it was the last",
        "workers/chunk.py",
        '        reach("worker.before_advance")\n        self._advance(claim)\n',
        '        reach("worker.before_advance")\n',
        "tests/workers/test_chunk.py::test_who_finishes_the_last_chunk_makes_the_next_level",
        "('dense', 'running')",
    ),
    Mutant(
        "a chunk is finished although groups of it are missing",
        "models/finish.py",
        'f"{MINE} AND cardinality({MISSING_UNITS}) = 0"',
        'f"{MINE}"',
        "tests/models/test_finish.py::test_a_chunk_with_a_group_missing_cannot_be_finished",
        "DID NOT RAISE",
    ),
    Mutant(
        "leases expire right after an outage",
        "models/crash.py",
        '"c.lease_expires_at < clock_timestamp() AND clock_timestamp() > "\n    "greatest(',
        '"c.lease_expires_at < clock_timestamp() AND \'-infinity\' < "\n    "greatest(',
        "tests/models/test_crash.py::test_after_an_outage_no_lease_expires_for_one_lease[server start]",
        "assert 1 == 0",
    ),
    Mutant(
        "a chunk is claimed however often it has killed its process",
        "models/claim.py",
        "AND c.crash_count < :max_crashes AND",
        "AND",
        "tests/models/test_claim.py::test_a_chunk_that_must_wait_or_has_failed_too_often_is_left_alone"
        "[crash_count = 3, attempt = 3]",
        "is None",
    ),
    Mutant(
        "claims wait for one another",
        "models/claim.py",
        "LIMIT 1 FOR NO KEY UPDATE OF c SKIP LOCKED",
        "LIMIT 1 FOR NO KEY UPDATE OF c",
        "tests/models/test_claim.py::test_a_chunk_that_is_being_claimed_is_passed_over",
        "lock timeout",
    ),
    Mutant(
        "one worker may own two running chunks",
        "migrations/versions/0001_first_tables.py",
        '"uq_chunks_owner_running",\n        "chunks",\n        ["owner"],\n        unique=True,',
        '"uq_chunks_owner_running",\n        "chunks",\n        ["owner"],\n        unique=False,',
        "tests/models/test_claim.py::test_two_processes_of_one_slot_are_told",
        "assert 2 == 1",
    ),
    Mutant(
        "a new process leaves alone what the one before it left behind",
        "workers/child.py",
        "lost = reclaim(session, self._settings, self._slot.owner)",
        "lost = 0 if reclaim else 1",
        "tests/workers/test_faults_processes.py"
        "::test_a_killed_worker_takes_its_chunk_back_as_soon_as_it_is_started_again",
        "not within",
    ),
    Mutant(
        "a place may have two processes",
        "workers/slot.py",
        "fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        "tests/workers/test_slot.py::test_a_place_is_taken_once",
        "DID NOT RAISE",
    ),
    Mutant(
        "a forward may hang for ever",
        "workers/pulse.py",
        "if now - self._moved_at > self._limit:",
        "if now - self._moved_at > 1e9:",
        "tests/workers/test_pulse.py::test_a_hung_forward_ends_the_process",
        "heart.died.wait",
    ),
    Mutant(
        "a worker drains only when its chunk is done",
        "workers/pulse.py",
        "        if self._lock.is_draining:\n            if self._loading:",
        "        if self._limit < 0:\n            if self._loading:",
        "tests/workers/test_pulse.py::test_a_drain_needs_no_database",
        "it has not come in time",
    ),
    Mutant(
        "nobody notices that the broker has lost its messages",
        "workers/reconciler.py",
        "        if is_new:\n",
        "        if is_new and not reachable:\n",
        "tests/workers/test_reconciler.py::test_a_chunk_gets_one_message_and_another_when_the_broker_has_lost_it",
        "assert 0 == 1",
    ),
)


def main(names: Sequence[str]) -> int:
    """Try the mutants whose name holds one of ``names``, or all; returns 1 when one is not noticed."""
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    if not chosen:
        print(f"no mutant is called {' or '.join(names)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="skipmap-mutants-") as folder:
        copy = Path(folder)
        _copy_sources(copy)
        problems = [problem for mutant in chosen if (problem := _misfit(copy, mutant)) is not None]
        problems = problems or _plain(copy, chosen) or _mutated(copy, chosen)
    for problem in problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _copy_sources(folder: Path) -> None:
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)


def _misfit(folder: Path, mutant: Mutant) -> str | None:
    count = (folder / mutant.file).read_text(encoding="utf-8").count(mutant.old)
    return None if count == 1 else f"{mutant.name}: its text is in {mutant.file} {count} times, not once"


def _plain(folder: Path, mutants: Sequence[Mutant]) -> list[str]:
    tests = sorted({mutant.test for mutant in mutants})
    print(f"{len(tests)} tests without a mutation", flush=True)
    code, said = _run(folder, tests)
    return [] if code == PASSED else [f"they do not pass (exit code {code}):\n{said}"]


def _mutated(folder: Path, mutants: Sequence[Mutant]) -> list[str]:
    problems = []
    for mutant in mutants:
        path = folder / mutant.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        code, said = _run(folder, [mutant.test])
        path.write_text(text, encoding="utf-8")
        noticed = code == FAILED and mutant.shows in said
        print(f"{'noticed' if noticed else 'MISSED '}  {mutant.name}", flush=True)
        if code != FAILED:
            problems.append(f"{mutant.name}: exit code {code} of {mutant.test}\n{said}")
        elif not noticed:
            problems.append(f"{mutant.name}: {mutant.test} fails without saying {mutant.shows!r}\n{said}")
    return problems


def _run(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    # Stale byte code of a mutation, of the same size and second, would be taken for the source.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    options = ("-q", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
