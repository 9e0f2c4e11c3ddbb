"""``make demo``: profile the demo model on two sample domains and say in plain words what was found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from skipmap.canonical import canonical_json
from skipmap.cli.display import progress_display
from skipmap.errors import Interrupted, SkipmapError
from skipmap.maps.document import build_map
from skipmap.profiling.job import check_job, open_job
from skipmap.profiling.report import render_report
from skipmap.profiling.result import build_result
from skipmap.profiling.run import run_folder, run_job
from skipmap.profiling.store import RunFolder, write_atomically
from skipmap.profiling.summary import summary
from skipmap.spec import JobSpec

TARGET = "smollm2-135m-instruct"
DRAFT = "prompt_lookup"
DOMAINS = ("summarization", "qa")
FOLDER = Path("runs/demo")
BUDGET = {"max_depth": 2, "max_pool": 5, "max_held_out_points": 2}


def main() -> int:
    """Run the demo; returns an exit code."""
    try:
        return _demo()
    except SkipmapError as error:
        print(f"skipmap: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(
            "skipmap: interrupted; run the demo again to go on from the last finished group", file=sys.stderr
        )
        return Interrupted.exit_code


def _demo() -> int:
    began = time.monotonic()
    print(
        f"Target {TARGET}, draft {DRAFT}, domains {' and '.join(DOMAINS)} (sample prompts that ship with Skipmap)."
    )
    print(
        f"Budget: at most {BUDGET['max_depth']} blocks skipped together, from the {BUDGET['max_pool']} best single "
        f"blocks; {BUDGET['max_held_out_points']} operating points checked on held-out prompts."
    )
    results = [_profile(name) for name in DOMAINS]
    domain_map = build_map(results, "demo")
    files = {"map": FOLDER / "map.json", "report": FOLDER / "report.html"}
    write_atomically(files["map"], json.dumps(domain_map, indent=2, ensure_ascii=False))
    write_atomically(files["report"], render_report(results))
    for result in results:
        print("\n" + "\n".join(summary(result)))
    print(f"\nDone in {time.monotonic() - began:.0f} s.")
    print(f"Domain map: {files['map']}")
    print(f"Report with plots and sample texts, to open in a browser: {files['report']}")
    print(
        f"Try it: .venv/bin/skipmap generate --target {TARGET} --map {files['map']} --domain {DOMAINS[0]} "
        '--prompt "Summarize the following text in one sentence. ..."'
    )
    return 0


def _profile(domain: str) -> dict[str, Any]:
    checked = check_job(
        JobSpec.parse(
            {
                "target": {"id": TARGET},
                "draft": {"method": DRAFT},
                "domain": {"name": domain},
                "calibration": {"source": f"sample:{domain}"},
                "search": BUDGET,
            }
        )
    )
    folder = run_folder(checked.spec.digest)
    finished = folder / "result.json"
    print(f"\nProfiling {domain} ({len(checked.data.calibration)} calibration prompts, ", end="")
    print(f"{len(checked.data.held_out)} held-out prompts) in {folder}", flush=True)
    with progress_display() as listener:
        job = open_job(checked)
        # An interrupted demo goes on; a finished one runs again from the start.
        found = run_job(
            job, RunFolder(folder, job.content_key), resume=not finished.exists(), listener=listener
        )
    finished.unlink(missing_ok=True)
    document = build_result(found)
    write_atomically(finished, canonical_json(document))
    return document


if __name__ == "__main__":
    sys.exit(main())
