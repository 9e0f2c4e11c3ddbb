"""``make demo``: profile the demo model on two sample domains and say in plain words what was found."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from skipmap.cli import main as skipmap
from skipmap.maps.document import build_map
from skipmap.profiling.documents import read_document
from skipmap.profiling.report import render_report
from skipmap.profiling.store import write_atomically
from skipmap.profiling.summary import verdict

TARGET = "smollm2-135m-instruct"
DRAFT = "prompt_lookup"
DOMAINS = ("qa", "summarization")
FOLDER = Path("runs/demo")
DEPTH, POOL = 2, 5


def main() -> int:
    """Run the demo; returns an exit code."""
    began = time.monotonic()
    print(f"Target {TARGET}, draft {DRAFT}, sample domains {' and '.join(DOMAINS)}.")
    print(f"Budget: at most {DEPTH} blocks skipped together, from the {POOL} best single blocks.")
    print("This takes three to four minutes on two free cores.", flush=True)
    results = {domain: FOLDER / f"{domain}.json" for domain in DOMAINS}
    for domain, result in results.items():
        print(flush=True)
        code = _profile(domain, result)
        if code:
            return code
    documents = [read_document(result) for result in results.values()]
    domain_map, report = FOLDER / "map.json", FOLDER / "report.html"
    write_atomically(domain_map, json.dumps(build_map(documents, "demo"), indent=2, ensure_ascii=False))
    write_atomically(report, render_report(documents))
    print(f"\nDone in {time.monotonic() - began:.0f} s.")
    for document in documents:
        print(f"  {verdict(document)}")
    print(f"Domain map:  {domain_map}")
    print(f"Report:      {report} (plots and sample texts, to open in a browser)")
    print(
        "Try it:      .venv/bin/skipmap generate --target",
        TARGET,
        "--map",
        domain_map,
        "--domain",
        DOMAINS[0],
        end="",
    )
    print(' --prompt "Anna keeps three hens. Question: How many hens has Anna? Answer in a few words."')
    return 0


def _profile(domain: str, result: Path) -> int:
    # An interrupted demo goes on from its last finished group; a finished one runs again from the start.
    resume = [] if result.exists() else ["--resume"]
    result.unlink(missing_ok=True)
    return skipmap(
        [
            *("profile", "--target", TARGET, "--draft", DRAFT),
            *("--domain", domain, "--calibration", f"sample:{domain}"),
            *("--max-depth", str(DEPTH), "--max-pool", str(POOL), "--max-held-out-points", "2"),
            *("--result", str(result), *resume),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
