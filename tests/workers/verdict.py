"""What must hold after a run of faults, whatever they were: found from the stored rows and the log of the workers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from models.chunks import skip_key
from models.evaluations import scores_of
from models.findings import finding
from models.invariants import broken_levels, broken_rules
from models.jobs import ENDED, Job
from tests.models.bench import Table
from tests.workers.cluster import Cluster

REPEATED_SHARE = 0.1
"""Of what is stored, so much may have been evaluated again, beside what faults interrupted."""


@dataclass
class Witness:
    """Looks at stored evaluations and ranking figures again and again: none may change or vanish."""

    cluster: Cluster
    seen: dict[tuple[str, str], str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Compare with what was there the last time."""
        now = {
            (job, key): value
            for job, key, value in self.cluster.sql(
                "SELECT job_id, skip_key, coalesce(claim_token::text, 'cached') || md5(prompts::text) FROM evaluations "
                "UNION ALL SELECT job_id, 'rank ' || skip_key, claim_token || ' ' || value FROM ranks"
            )
        }
        for unit, value in self.seen.items():
            if now.get(unit) != value:
                self.wrong.append(f"a stored value was {'replaced' if unit in now else 'lost'}: {unit}")
        self.seen = now


@dataclass(frozen=True)
class Tally:
    """What a run came to."""

    jobs: Counter[str]
    stored: int
    repeated: int
    crashed: int

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.jobs.items()))
        return (
            f"jobs: {states}; units stored: {self.stored}, evaluated again: {self.repeated}; "
            f"claims that crashed: {self.crashed}"
        )


def tally(cluster: Cluster) -> Tally:
    """Count what a run came to; units that were begun twice count as evaluated again, finished or not."""
    begun = Counter(
        (entry["job"], key) for entry in cluster.log() if entry["what"] == "begin" for key in entry["keys"]
    )
    (stored,) = cluster.sql(
        "SELECT (SELECT count(*) FROM evaluations) + (SELECT count(*) FROM ranks) + (SELECT count(*) FROM findings)"
    )
    (crashed,) = cluster.sql("SELECT count(*) FROM attempts WHERE outcome = 'crashed'")
    return Tally(
        Counter(cluster.sql("SELECT state FROM jobs")),
        stored,
        sum(times - 1 for times in begun.values()),
        crashed,
    )


def judge(cluster: Cluster, table: Table, interrupted: int) -> list[str]:
    """What is wrong, in words; empty when all is well.

    Every worker evaluates from ``table``; faults may have interrupted as many units as ``interrupted`` says.
    """
    found = cluster.database.transaction(broken_rules)
    for job_id in cluster.sql("SELECT id FROM jobs"):
        found += cluster.database.transaction(_judge_job, job_id, table)
    came_to = tally(cluster)
    if came_to.repeated > interrupted + REPEATED_SHARE * came_to.stored:
        found.append(
            f"{came_to.repeated} units were evaluated again, of {came_to.stored}; {interrupted} interrupted"
        )
    return found


def _judge_job(session: Session, job_id: str, table: Table) -> list[str]:
    job = session.get_one(Job, job_id)
    found = [f"job {job_id}: {line}" for line in broken_levels(session, job_id)]
    if job.state not in ENDED or job.state == "failed":
        found.append(f"job {job_id} is {job.state}: {job.error}")
    scores = scores_of(session, job_id, job.parsed_spec.search.accept_measure)
    wrong = sorted(skip for skip, score in scores.items() if score != table(skip))
    if wrong:
        found.append(f"job {job_id} has other figures than its workers found, for {wrong[:5]}")
    if job.state == "succeeded":
        document = (finding(session, job_id, "result") or {}).get("document", {})
        if document.get("evaluated") != sorted(map(skip_key, scores)):
            found.append(f"the result of job {job_id} lacks evaluations")
    return found
