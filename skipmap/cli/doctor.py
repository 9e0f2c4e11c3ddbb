"""``skipmap doctor``: is this machine set up to profile?"""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import sys
from argparse import Namespace
from dataclasses import asdict, dataclass

from skipmap.errors import ModelFailure, SkipmapError
from skipmap.settings import get_settings
from skipmap.target.known import installed_files

LEAST_FREE_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Check:
    """One finding; ``advice`` says what to do when it is not ok, ``needed`` whether every job needs it."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True


def run(arguments: Namespace) -> int:
    """Print every check; exit code 5 when one that profiling needs fails."""
    checks = [check() for check in (_python, _torch, _kernels, _cache, _demo_model, _datasets)]
    if arguments.json:
        print(json.dumps([asdict(check) for check in checks]))
    else:
        for check in checks:
            mark = "ok  " if check.ok else "FAIL" if check.needed else "note"
            print(f"{mark} {check.name}: {check.found}")
            if not check.ok:
                print(f"     {check.advice}")
    return 0 if all(check.ok or not check.needed for check in checks) else ModelFailure.exit_code


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("python", ok, platform.python_version(), "Skipmap needs Python 3.11 or newer")


def _torch() -> Check:
    import torch

    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    where = ", ".join(devices) if devices else f"CPU, {torch.get_num_threads()} threads"
    return Check("torch", True, f"{torch.__version__} on {where}")


def _kernels() -> Check:
    import torch
    from torch import nn

    from skipmap.target.packed import can_pack

    packed = can_pack(nn.Linear(1, 1))
    found = (
        "oneDNN linear layers"
        if packed
        else "plain linear layers (no oneDNN in this torch): slower on the CPU"
    )
    return Check("kernels", True, f"{found}, {torch.backends.cpu.get_cpu_capability()}")


def _cache() -> Check:
    place = get_settings().cache
    advice = "free some space, or point SKIPMAP_CACHE to another place"
    try:
        place.mkdir(parents=True, exist_ok=True)
        probe = place / ".doctor"
        probe.touch()
        probe.unlink()
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check("cache", False, f"{place}: {error.strerror}", advice)
    return Check("cache", free >= LEAST_FREE_BYTES, f"{place}, {free / 1024**3:.1f} GiB free", advice)


def _demo_model() -> Check:
    try:
        (path,) = installed_files("smollm2-135m-instruct")
    except SkipmapError as error:
        return Check("demo model", False, "absent", str(error), needed=False)
    return Check("demo model", True, str(path))


def _datasets() -> Check:
    has = importlib.util.find_spec("datasets") is not None
    return Check(
        "datasets", True, "installed" if has else "absent: hub data sets need the extra `skipmap[data]`"
    )
