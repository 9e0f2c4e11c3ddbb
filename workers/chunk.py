"""One chunk from its claim to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from models.advance import try_advance
from models.cache import look_up
from models.calibration_sets import set_file
from models.chunks import Keys, run_of, skip_of
from models.claim import Claim
from models.database import Database
from models.errors import LostLease, TooSlow, Unavailable
from models.failpoints import reach
from models.finish import finish
from models.jobs import Facts
from models.lease import Beat, fail, flush, pin_target, stop, store_finding, store_ranks
from models.levels import EVALUATED_KINDS
from models.parts import evaluations_at, read_parts
from models.settings import ServiceSettings
from skipmap.errors import InvalidInput, ModelFailure
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from workers.engine import Engine, OpenJob
from workers.pulse import Pulse, Stopped

P = ParamSpec("P")
T = TypeVar("T")

_AWAY_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class Broken(Exception):
    """The process cannot go on: its device is lost."""


class Workbench:
    """What every chunk of a process is worked on with."""

    def __init__(self, database: Database, settings: ServiceSettings, engine: Engine, pulse: Pulse) -> None:
        self.database, self.settings, self.engine, self.pulse = database, settings, engine, pulse

    def persist(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a transaction, however long the database is away.

        Raises Unavailable when draining without a database, and ModelFailure for what takes too long every time.
        """
        while True:
            try:
                return self.database.transaction(work, *args, **kwargs)
            except TooSlow as error:
                raise ModelFailure(f"storing or reading took too long: {error}") from error
            except Unavailable:
                if self.pulse.is_draining:
                    raise
                self.pulse.wait()
                time.sleep(_AWAY_SECONDS)

    def work_on(self, claim: Claim) -> None:
        """Evaluate and store what is pending of a chunk, and end it in one way or another.

        Raises Broken when this process must end, and Unavailable when it is draining without a database.
        """
        log = _log.bind(job=claim.job_id, chunk=claim.chunk_id, kind=claim.kind, attempt=claim.attempt)
        log.info("chunk claimed", groups=len(claim.pending))
        began = time.monotonic()
        try:
            with self.pulse.watching(claim):
                self._evaluate(claim)
        except Stopped as stopped:
            log.info("chunk left", reason=stopped.reason or "lost")
            self._leave(claim, stopped)
        except LostLease:
            log.warning("chunk lost to another worker")
        except Unavailable:
            raise
        except Exception as error:
            if self.engine.is_broken(error):
                # The claim goes down with the process, which counts as this worker's crash.
                raise Broken(str(error)) from error
            permanent = isinstance(error, InvalidInput)
            log.exception("chunk failed", permanent=permanent)
            self._fail(claim, error, permanent)
        else:
            if self._finish(claim):
                log.info("chunk done", seconds=round(time.monotonic() - began, 3))
            else:
                log.warning("chunk lost to another worker")

    def _evaluate(self, claim: Claim) -> None:
        set_id = claim.calibration_set_id
        uploaded = None if set_id is None else partial(self.persist, set_file, set_id)
        spec = JobSpec.parse(dict(claim.spec))
        opened = self.engine.open(claim.job_id, spec, uploaded, self.pulse.tick)
        facts = self.persist(pin_target, claim, opened.facts)
        for keys in claim.pending:
            self.pulse.tick()
            self.pulse.heed(self._store(claim, opened, facts, keys))

    def _store(self, claim: Claim, opened: OpenJob, facts: Facts, keys: Keys) -> Beat:
        if claim.kind == "dense":
            known = self.persist(look_up, facts.content_key, DENSE)
            if known is not None:
                evaluation, seconds = known
                return self.persist(flush, self.settings, claim, [evaluation], seconds, cached=True)
        began = time.perf_counter()
        reach("worker.evaluate")
        payload = self._find(claim, opened, keys)
        seconds = time.perf_counter() - began
        reach("worker.before_flush")
        if claim.kind in EVALUATED_KINDS:
            beat = self.persist(flush, self.settings, claim, payload, seconds)
        elif claim.kind == "rank":
            beat = self.persist(store_ranks, self.settings, claim, payload, seconds)
        else:
            beat = self.persist(store_finding, self.settings, claim, keys[0], payload, seconds)
        reach("worker.after_flush")
        return beat

    def _find(self, claim: Claim, opened: OpenJob, keys: Keys) -> Any:
        """What is to be stored of a group."""
        if claim.kind in EVALUATED_KINDS:
            return opened.evaluate([skip_of(key) for key in keys])
        if claim.kind == "rank":
            (dense,) = self.persist(evaluations_at, claim.job_id, [DENSE])
            return opened.rank([skip_of(key) for key in keys], dense)
        if claim.kind == "held_out":
            points = [SkipSet.of(blocks) for blocks in claim.plan["points"]]
            return opened.held_out(points, *run_of(keys[0]))
        parts = read_parts(self.persist, claim.job_id)
        return opened.cost(parts) if claim.kind == "cost" else opened.result(parts)

    def _finish(self, claim: Claim) -> bool:
        """Whether the chunk was still the claim's."""
        reach("worker.before_finish")
        try:
            self.persist(finish, claim)
        except LostLease:
            return False
        reach("worker.before_advance")
        self._advance(claim)
        return True

    def _leave(self, claim: Claim, stopped: Stopped) -> None:
        if stopped.reason is None:
            return
        try:
            self.persist(stop, claim, stopped.reason)
        except LostLease:
            return
        if stopped.reason == "time":
            self._advance(claim)

    def _fail(self, claim: Claim, error: Exception, permanent: bool) -> None:
        try:
            self.persist(fail, self.settings, claim, _described(error), permanent=permanent)
        except LostLease:
            return

    def _advance(self, claim: Claim) -> None:
        try:
            try_advance(self.database, claim.level_id)
        except Unavailable:
            # A reconciler advances what its last finisher could not.
            return


def _described(error: Exception) -> str:
    """An error for the job's page; a database's without statement and values, which may be prompts."""
    text = str(error.orig if isinstance(error, DBAPIError) else error)
    return f"{type(error).__name__}: {text}"
