"""RunFolder: finished groups of one job on disk, so that an interrupted job loses at most one group."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skipmap.canonical import canonical_json, digest
from skipmap.errors import InvalidInput, ModelFailure
from skipmap.profiling.records import Evaluation, Ranking
from skipmap.skipset import SkipSet


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises ModelFailure naming the path when the disk refuses.

    A symbolic link stays one: the file that it names is replaced.
    """
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise ModelFailure(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another place"
        ) from error
    finally:
        # Also when interrupted; after the replacement there is nothing left to remove.
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


@contextlib.contextmanager
def only_one(folder: Path, field: str, does: str) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if need be.

    Raises InvalidInput for ``field`` where another process is in it, of which ``does`` says what it does; ModelFailure
    where it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise ModelFailure(f"cannot write {folder}: {error.strerror}; choose another place") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(field, f"another process {does} in {folder}; wait for it or stop it") from None
        except OSError as error:
            raise ModelFailure(f"cannot lock {folder}: {error.strerror}; choose another place") from error
        yield


class RunFolder:
    """Groups, cost and held-out rows of one job. ``key`` is what makes stored rows comparable with this job's."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self._key = key

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes out of the folder while a job runs in it."""
        return only_one(self.path, "run", "is profiling the same job")

    def clear(self) -> None:
        """Forget stored groups."""
        shutil.rmtree(self.path / "groups", ignore_errors=True)

    def load(self, kind: str, group: Sequence[SkipSet]) -> tuple[list[Evaluation], float] | None:
        """Evaluations of a finished group and the seconds they took; None when absent or of another job."""
        data = self.load_document(kind, [skip.to_list() for skip in group])
        if data is None:
            return None
        try:
            return [Evaluation.from_json(row) for row in data["evaluations"]], float(data["seconds"])
        except (LookupError, TypeError, ValueError, AttributeError):
            # Written by another version, or changed: as good as absent.
            return None

    def save(
        self, kind: str, group: Sequence[SkipSet], evaluations: Sequence[Evaluation], seconds: float
    ) -> None:
        """Keep a finished group."""
        rows = [evaluation.to_json() for evaluation in evaluations]
        self.save_document(
            kind, [skip.to_list() for skip in group], {"evaluations": rows, "seconds": seconds}
        )

    def load_ranks(self, strategy: str, group: Sequence[SkipSet]) -> tuple[list[Ranking], float] | None:
        """Ranking figures of a finished group and the seconds they took; None when absent or of another job."""
        data = self.load_document("rank", [strategy, [skip.to_list() for skip in group]])
        if data is None:
            return None
        try:
            return [Ranking(SkipSet.of(skip), float(value)) for skip, value in data["ranks"]], float(
                data["seconds"]
            )
        except (LookupError, TypeError, ValueError):
            return None

    def save_ranks(self, strategy: str, rankings: Sequence[Ranking], seconds: float) -> None:
        """Keep the ranking figures of a finished group."""
        skips = [ranking.skip.to_list() for ranking in rankings]
        values = [ranking.value for ranking in rankings]
        ranks = [list(pair) for pair in zip(skips, values, strict=True)]
        self.save_document("rank", [strategy, skips], {"ranks": ranks, "seconds": seconds})

    def load_document(self, kind: str, what: Any) -> dict[str, Any] | None:
        """Stored JSON of a piece of work, or None; a file that cannot be read counts as absent."""
        try:
            data = json.loads(self._file(kind, what).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("key") == self._key else None

    def save_document(self, kind: str, what: Any, data: Mapping[str, Any]) -> None:
        """Keep the JSON of a piece of work."""
        write_atomically(self._file(kind, what), canonical_json({"key": self._key, **data}))

    def _file(self, kind: str, what: Any) -> Path:
        return self.path / "groups" / f"{kind}-{digest(what)[:16]}.json"
