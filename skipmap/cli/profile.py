"""``skipmap profile``: run one job in this process and write map, result and report."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skipmap.canonical import canonical_json
from skipmap.cli.display import progress_display
from skipmap.cli.places import spec_from
from skipmap.cli.values import require_writable
from skipmap.errors import Interrupted, InvalidInput, ModelFailure
from skipmap.maps.document import build_map
from skipmap.profiling.check import check_job
from skipmap.profiling.documents import without_prompts
from skipmap.profiling.job import open_job
from skipmap.profiling.report import render_report
from skipmap.profiling.result import build_result
from skipmap.profiling.run import run_folder, run_job
from skipmap.profiling.store import RunFolder, write_atomically
from skipmap.profiling.summary import summary
from skipmap.spec import JobSpec


def run(arguments: Namespace) -> int:
    """Profile a domain; the exit code is 0 also when nothing is feasible."""
    checked = check_job(JobSpec.parse(spec_from(arguments)))
    folder = run_folder(checked.spec.digest, arguments.runs)
    files = _files(arguments, folder, checked.spec)
    _say(f"loading {checked.spec.target.id}")
    job = open_job(checked)
    try:
        with progress_display() as listener:
            store = RunFolder(folder, job.content_key)
            document = build_result(run_job(job, store, resume=arguments.resume, listener=listener))
        _write(files, document)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {_kept(folder)}") from None
    except ModelFailure as error:
        if not (folder / "groups").is_dir():
            raise
        raise ModelFailure(f"{error}; {_kept(folder)}") from error
    if arguments.json:
        print(json.dumps(without_prompts(document), ensure_ascii=False))
    else:
        print("\n".join(summary(document)))
    for name, path in files.items():
        _say(f"{name}: {path}")
    return 0


def _files(arguments: Namespace, folder: Path, spec: JobSpec) -> dict[str, Path]:
    """Where to write; none of the places is another one's or that of an input, and all can be written."""
    places = {
        "map": (arguments.out or folder / "map.json", "--out" if arguments.out else "--runs"),
        "result": (arguments.result or folder / "result.json", "--result" if arguments.result else "--runs"),
        "report": (folder / "report.html", "--runs"),
    }
    inputs = [Path(spec.calibration.source), *([arguments.spec] if arguments.spec else [])]
    files = {name: require_writable(path, option, inputs) for name, (path, option) in places.items()}
    if len({os.path.realpath(path) for path in files.values()}) < len(files):
        raise InvalidInput("--out", "map, result and report need a file each; give different names")
    return files


def _write(files: Mapping[str, Path], document: Mapping[str, Any]) -> None:
    domain_map = build_map([document], document["spec"]["domain"]["name"])
    write_atomically(files["result"], canonical_json(document))
    write_atomically(files["map"], json.dumps(domain_map, indent=2, ensure_ascii=False))
    write_atomically(files["report"], render_report([document]))


def _kept(folder: Path) -> str:
    return f"finished groups are kept in {folder}, add --resume to go on from there"


def _say(text: str) -> None:
    print(f"skipmap: {text}", file=sys.stderr)
