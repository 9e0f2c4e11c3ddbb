"""Chromium for the browser tests: root gets Debian's with apt; without one those tests are skipped and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.browser import find_chromium

_INSTALL = ("install", "--yes", "--no-install-recommends", "chromium")
_SECONDS = 600


def main() -> int:
    """Install Chromium where that needs no question; never fails."""
    apt = shutil.which("apt-get")
    if find_chromium() is not None or apt is None or os.geteuid() != 0:
        return 0
    print("Installing Chromium for the browser tests.", flush=True)
    for arguments in (("update",), _INSTALL):
        try:
            done = subprocess.run(
                [apt, *arguments],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"Chromium was not installed: {error}", file=sys.stderr)
            return 0
    if done.returncode:
        print(f"Chromium was not installed: {done.stderr.strip()[-500:]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
