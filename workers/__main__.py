"""``python -m workers``: one worker, for one GPU or one place on the CPU."""

from __future__ import annotations

import os
import sys

from models.settings import get_settings
from skipmap.errors import SkipmapError
from skipmap.settings import get_settings as get_library_settings
from workers.boot import run_worker
from workers.engine import Engine
from workers.settings import read_worker_settings
from workers.slot import places, take_place


def main() -> int:
    """Run the worker that the environment describes; returns an exit code."""
    try:
        settings, options = get_settings(), read_worker_settings()
        library = get_library_settings()

        def make_engine() -> Engine:
            # Only the child loads torch.
            from workers.library import LibraryEngine

            return LibraryEngine(place.device_class, options.loaded_targets)

        folder = library.home / "run"
        folder.mkdir(parents=True, exist_ok=True)
        # A hub id must not be taken for a folder that happens to lie where the worker was started.
        os.chdir(folder)
        place, lock = take_place(places(options), folder)
        place.enter()
        return run_worker(settings, place, lock, make_engine)
    except SkipmapError as error:
        print(f"skipmap worker: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
