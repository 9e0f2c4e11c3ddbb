"""The real reconciler with failpoints armed: the argument is a ``Plan`` of tests.workers.fake."""

from __future__ import annotations

import json
import sys

from tests.workers.fake import Plan
from workers.reconciler import main

if __name__ == "__main__":
    Plan(**json.loads(sys.argv[1])).arm()
    sys.exit(main())
