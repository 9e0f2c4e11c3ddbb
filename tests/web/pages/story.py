"""Jobs whose result fits what they have stored: every prompt's answer of every configuration is made up by a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from models.calibration_sets import store_set
from models.chunks import run_of, skip_key, skip_of
from models.claim import Claim
from models.jobs import Job
from models.lease import Beat, flush, store_finding
from models.levels import EVALUATED_KINDS
from models.ranks import ranks_of
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.records import Evaluation, PromptRecord
from skipmap.profiling.search import DENSE, Floors, Outcome, floors, next_work
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from tests.models.bench import LAYERS, Bench, make_facts, make_spec, random_table
from tests.profiling.report.conftest import make_held_out, make_result, prompt

STEPS = 100
IDS = [f"item-{number}" for number in range(25)]
HELD_OUT_IDS = [f"held-{number}" for number in range(4)]
PARTS = ("name", "labels", "target", "draft", "domain", "decoding")


def set_content(prompts: Sequence[str] = (), references: Sequence[str] = ()) -> bytes:
    """A set with the prompts of all parts."""
    lines = []
    for number, name in enumerate([*IDS, *HELD_OUT_IDS]):
        text = prompts[number] if number < len(prompts) else f"What is {name}?"
        reference = references[number] if number < len(references) else f"It is {name}."
        lines.append(json.dumps({"id": name, "prompt": text, "reference": reference}))
    return "\n".join(lines).encode()


@dataclass
class Story(Bench):
    """Fake workers on jobs of several prompts, with answers of the tests' choice, by skip set and prompt."""

    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    """Parts of the result document that are to be others."""
    passes_gate: bool = True
    held_out_prompts: int = len(HELD_OUT_IDS)
    """How many the result says there were."""

    def text(self, skip: SkipSet, name: str) -> str:
        """What is answered: every fifth prompt alike by all, the others not."""
        known = self.texts.get((skip_key(skip), name))
        if known is not None:
            return known
        same = IDS.index(name) % 5 == 0 if name in IDS else False
        return f"the answer to {name} is {'short' if same or skip == DENSE else f'long {skip}'}"

    def evaluation(self, skip: SkipSet) -> Evaluation:
        score = self.table(skip)
        emitted = round(score.accept * STEPS)
        rows = tuple(
            PromptRecord(
                id=name,
                steps=STEPS,
                emitted=emitted,
                accepted=emitted - STEPS,
                new_tokens=emitted,
                stats=(score.metric,),
                text=self.text(skip, name),
            )
            for name in IDS
        )
        return Evaluation(skip, "replay", rows, score.metric)

    def store_group(self, claimed: Claim, keys: tuple[str, ...]) -> Beat:
        if claimed.kind in EVALUATED_KINDS:
            rows = [self.evaluation(skip_of(key)) for key in keys]
            return self.database.transaction(flush, self.settings, claimed, rows, self.seconds_per_group)
        if claimed.kind == "result":
            payload = {"document": self.document(claimed.job_id)}
            return self.database.transaction(
                store_finding, self.settings, claimed, keys[0], payload, self.seconds_per_group
            )
        return super().store_group(claimed, keys)

    def tell(self, spec: JobSpec | None = None, **options: Any) -> Job:
        """A job that has gone as far as it goes."""
        job = self.submit(spec or self.spec(), **options)
        self.work_off()
        return self.job(job.id)

    def spec(self, **search: Any) -> JobSpec:
        """A spec of qa; parts of it by name, as in ``name`` and ``domain``, the rest is the search's."""
        parts = {
            key: search.pop(key)
            for key in ("name", "labels", "domain", "draft", "decoding", "target")
            if key in search
        }
        fields = make_spec(**search).search.model_dump(mode="json")
        given = {
            "target": {"id": "tiny"},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "qa", "metric": "f1"},
            "calibration": {"source": "sample:qa"},
            "search": fields,
        }
        return JobSpec.parse(given | parts)

    def with_set(self, content: bytes, **more: Any) -> tuple[JobSpec, str]:
        """A spec on an uploaded set, and the set's id."""
        stored, _ = self.database.transaction(
            store_set, content, "a set", len(content.splitlines()), {"format": "jsonl"}
        )
        spec = self.spec(**more).model_dump(mode="json")
        calibration = spec["calibration"] | {"source": f"set:{stored.id}", "format": "jsonl"}
        return JobSpec.parse(spec | {"calibration": calibration}), stored.id

    def stored(self, job_id: str, measure: str = "accept_length") -> dict[SkipSet, Score]:
        """A and M of all that is stored."""
        rows = self.sql(f"SELECT skip_key, {measure}, metric FROM evaluations WHERE job_id = :id", id=job_id)
        return {skip_of(key): Score(accept, metric) for key, accept, metric in rows}

    def limits(self, job_id: str) -> Floors:
        search = self.job(job_id).parsed_spec.search
        return floors(self.stored(job_id)[DENSE], search.eps, search.tau)

    def document(self, job_id: str) -> dict[str, Any]:
        """A result that fits the stored rows: the cheapest of the front is selected, and checked."""
        job, scores = self.job(job_id), self.stored(job_id)
        limits, dense = self.limits(job_id), scores[DENSE]
        feasible = {s: score for s, score in scores.items() if s != DENSE and limits.admits(score)}
        front = sorted(pareto_front(feasible))
        selected = min(front, key=lambda s: (-len(s), s), default=None)
        sparse = {s.blocks: (score.accept, score.metric) for s, score in sorted(scores.items()) if s != DENSE}
        outcome = job.outcome or {}
        found = make_result(
            sparse,
            num_layers=LAYERS,
            selected=selected.to_list() if selected else (),
            front=[s.to_list() for s in front],
            pool=outcome.get("pool", ()),
            dense=(dense.accept, dense.metric),
            held_out=self._checked(selected) if selected else None,
        )
        found["spec"] = job.spec
        search = job.parsed_spec.search
        if search.strategy != "tss":
            ranks = self.database.read(ranks_of, job_id)
            end = next_work(search, LAYERS, self.stored(job_id), ranks)
            assert isinstance(end, Outcome)
            found["strategy"] = {"name": search.strategy, **end.found}
        found["draft"] = found["draft"] | {"method": job.draft}
        found["target"] = found["target"] | {"id": job.target}
        found["data"] = found["data"] | {"n_calibration": len(IDS), "n_held_out": self.held_out_prompts}
        found["dense"]["per_prompt"] = [row.to_json() for row in self.evaluation(DENSE).prompts]
        return found | self.changes

    def _checked(self, skip: SkipSet) -> dict[str, Any]:
        dense = [prompt(name, 10, 20, [0.5], self.text(DENSE, name)) for name in HELD_OUT_IDS]
        sparse = [
            prompt(name, 10, 19 + (n % 2), [0.5], self.text(skip, name))
            for n, name in enumerate(HELD_OUT_IDS)
        ]
        return make_held_out(skip.to_list(), dense, sparse, passes_gate=self.passes_gate)

    def _held_out(self, claimed: Claim, key: str) -> dict[str, Any]:
        return {"items": list(range(*run_of(key)))}


def make_story(bench: Bench, seed: int = 1, **more: Any) -> Story:
    """A story on the database of a bench."""
    table = more.pop("table", random_table(seed))
    return Story(bench.database, bench.settings, table=table, facts=make_facts(), **more)
