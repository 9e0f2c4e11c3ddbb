"""Engine: the one thread that owns the model and decodes.

It keeps several batches and steps them in turn, so that a long answer does not hold up others; whoever waits enters
the next batch with all that wait for the same skip set.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from skipmap.decoding.run import Run
from skipmap.decoding.speculative import open_run
from skipmap.profiling.memory import give_back_freed, is_out_of_memory
from skipmap.serving.node.batching import next_batch
from skipmap.serving.node.blocks import BlockCounter
from skipmap.serving.node.counters import Counters, Served
from skipmap.serving.node.job import Answer, Job
from skipmap.serving.node.problems import gone, no_memory, queue_full, shutting_down
from skipmap.serving.node.settings import NodeSettings
from skipmap.target.model import TargetModel
from skipmap.visible import one_line

_log = logging.getLogger("skipmap.serving.node")


@dataclass
class _Batch:
    """A run and the jobs of its rows."""

    run: Run
    jobs: list[Job]


class Engine:
    """Decodes jobs. ``submit``, ``drain`` and ``stop`` may be called from any thread."""

    def __init__(self, target: TargetModel, settings: NodeSettings, counters: Counters) -> None:
        self.target = target
        self.blocks = BlockCounter(target)
        self._settings = settings
        self._counters = counters
        self._lock = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._batches: list[_Batch] = []
        self._opening: list[Job] = []
        self._draining = self._stopping = False
        self._thread = threading.Thread(target=self._work, name="skipmap-engine", daemon=True)

    def start(self) -> None:
        """Begin to decode."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread decodes, or waits to."""
        return self._thread.is_alive()

    @property
    def is_draining(self) -> bool:
        """Whether new jobs are refused."""
        return self._draining

    @property
    def queue_length(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs that are being decoded."""
        return len(self._opening) + sum(batch.run.alive for batch in list(self._batches))

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs, all or none; raises ApiProblem when they do not fit the queue or the engine stops."""
        with self._lock:
            self.check_room(len(jobs))
            self._waiting.extend(jobs)
            self._lock.notify_all()

    def check_room(self, jobs: int) -> None:
        """Raise the ApiProblem that submitting so many would raise now."""
        with self._lock:
            if self._draining or not self.is_alive:
                raise shutting_down()
            waiting = sum(not job.cancelled for job in self._waiting)
            if waiting + jobs > self._settings.max_queue:
                raise queue_full(waiting)

    def drain(self, seconds: float) -> bool:
        """Take no more jobs and wait for those there are; False when some did not end in time."""
        with self._lock:
            self._draining = True
            return self._lock.wait_for(lambda: self._is_idle or not self.is_alive, seconds)

    def stop(self, seconds: float = 5.0) -> None:
        """End all jobs with an error and the thread with them."""
        with self._lock:
            self._draining = self._stopping = True
            self._lock.notify_all()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        self.blocks.close()

    @property
    def _is_idle(self) -> bool:
        return not (self._waiting or self._batches or self._opening)

    def _work(self) -> None:
        try:
            while True:
                jobs = self._next()
                if self._stopping:
                    break
                if jobs:
                    self._open(jobs)
                for batch in list(self._batches):
                    if self._stopping:
                        break
                    self._step(batch)
        finally:
            self._end_all()

    def _next(self) -> list[Job]:
        """The next batch, once there is something to do."""
        with self._lock:
            while self._is_idle and not self._stopping:
                self._lock.notify_all()
                self._lock.wait()
            hung_up = [job for job in self._waiting if job.cancelled]
            self._waiting = deque(job for job in self._waiting if not job.cancelled)
            busy = sum(batch.run.alive for batch in self._batches)
            room = self._settings.max_batch - busy
            going = [batch.jobs[0].key for batch in self._batches]
            jobs = [] if self._stopping else next_batch(self._waiting, room, going, busy)
            chosen = set(map(id, jobs))
            self._waiting = deque(job for job in self._waiting if id(job) not in chosen)
            self._opening = jobs
        _fail(hung_up, gone())
        return jobs

    def _open(self, jobs: list[Job]) -> None:
        try:
            run = open_run(self.target, jobs[0].choice.skip, [job.request() for job in jobs], jobs[0].draft)
        except Exception as error:
            self._refuse(jobs, error)
            return
        for job in jobs:
            more = Served(requests=1, prompt_tokens=len(job.prompt), completion_tokens=1)
            self._counters.add(job.choice.domain, job.choice.version, more)
        batch = _Batch(run, jobs)
        self._batches.append(batch)
        self._opening = self._opening[len(jobs) :]
        self._settle(batch)

    def _refuse(self, jobs: list[Job], error: Exception) -> None:
        """A batch that could not be opened: its halves may fit the memory, or leave the one that breaks it alone."""
        is_memory = is_out_of_memory(error)
        if is_memory:
            self._free_memory()
        if len(jobs) > 1 and not any(job.tokens for job in jobs):
            why = "too little memory" if is_memory else one_line(repr(error))
            _log.warning("%d answers could not begin at once (%s); trying half", len(jobs), why)
            half = len(jobs) // 2
            self._open(jobs[:half])
            self._open(jobs[half:])
            return
        if is_memory:
            _log.warning("too little memory for an answer of %d prompt tokens", len(jobs[0].prompt))
        else:
            _log.error("a batch of %d answers could not begin", len(jobs), exc_info=error)
        self._opening = self._opening[len(jobs) :]
        _fail(jobs, no_memory() if is_memory else error)

    def _step(self, batch: _Batch) -> None:
        run = batch.run
        if run.alive:
            going = [i for i, row in enumerate(run.rows) if row.finish is None]
            before = self.blocks.total()
            try:
                run.step()
            except Exception as error:
                self._batches.remove(batch)
                if is_out_of_memory(error):
                    self._free_memory()
                    _log.warning("memory ran out while %d answers were decoded", len(going))
                    _fail(batch.jobs, no_memory())
                else:
                    _log.error("a batch of %d answers failed", len(going), exc_info=error)
                    _fail(batch.jobs, error)
                return
            self._count(batch, going, self.blocks.total() - before)
        self._settle(batch)

    def _count(self, batch: _Batch, rows: Sequence[int], ran: int) -> None:
        for i in rows:
            job, counts = batch.jobs[i], batch.run.rows[i].counts
            job.blocks_run.append(ran)
            more = Served(
                completion_tokens=counts.emitted[-1],
                verification_steps=1,
                emitted_tokens=counts.emitted[-1],
                accepted_drafts=counts.accepted[-1],
                blocks_run=ran,
                blocks_dense=self.target.num_layers,
            )
            self._counters.add(job.choice.domain, job.choice.version, more)

    def _settle(self, batch: _Batch) -> None:
        """Tell of answers that have ended; a batch without others is done."""
        for job, row in zip(batch.jobs, batch.run.rows, strict=True):
            if row.finish is not None:
                job.finish(Answer(tuple(row.new), row.finish, row.counts, tuple(job.blocks_run)))
        if not batch.run.alive:
            self._batches.remove(batch)

    def _free_memory(self) -> None:
        if self.target.device.type == "cuda":
            torch.cuda.empty_cache()
        else:
            give_back_freed()

    def _end_all(self) -> None:
        with self._lock:
            self._draining = True
            jobs = [*(job for batch in self._batches for job in batch.jobs), *self._opening, *self._waiting]
            self._waiting.clear()
            self._batches.clear()
            self._opening = []
            self._lock.notify_all()
        _fail(jobs, shutting_down())


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        job.finish(error)
