"""The real reconciler, with the failpoints of a plan armed."""

from __future__ import annotations

from tests.workers.fake import Plan
from workers.reconciler import main


def run(plan: Plan) -> int:
    plan.arm()
    return main()
