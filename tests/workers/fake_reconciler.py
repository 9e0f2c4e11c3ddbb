"""The real reconciler with failpoints armed: the argument is a ``Plan`` of tests.workers.fake."""

from __future__ import annotations

import json
import sys

from models.failpoints import arm
from tests.workers.fake import Plan
from workers.reconciler import main

if __name__ == "__main__":
    plan = Plan(**json.loads(sys.argv[1]))
    for name, action in plan.failpoints.items():
        arm(name, lambda name=name, action=action: plan.act(action, name))
    sys.exit(main())
