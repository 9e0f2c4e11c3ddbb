"""A small process in place of one of Skipmap's: it writes down what happens to it.

``part.py NAME FOLDER PORT``: in the folder, ``happened`` gets a line for each start and each orderly stop; a file
``NAME.fails`` makes it end at once, ``NAME.stubborn`` makes it ignore SIGTERM. With a port it answers ``/readyz``.
``NAME.pid`` says that it can now be signalled: its start is noted and its handlers are in place.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        workers = 0 if (folder / "worker.fails").exists() else 1
        answer = {"status": "ready", "database": True, "broker": True, "reconciler": True}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer | {"workers": {"cpu": workers}}).encode())


name, folder, port = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
stop = threading.Event()


def note(what: str) -> None:
    with (folder / "happened").open("a") as file:
        file.write(f"{name} {what}\n")


if (folder / f"{name}.stubborn").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Like a pool process: a child that heeds nobody.
    helper = subprocess.Popen([sys.executable, "-c", "import signal; signal.sigwait({2}) or input()"])
    (folder / f"{name}.helper").write_text(str(helper.pid))
else:
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
note("starts")
(folder / f"{name}.pid").write_text(f"{os.getpid()}\n")
print("a line of", name, flush=True)
if (folder / f"{name}.fails").exists():
    sys.exit("it fails")
if port:
    server = http.server.HTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
while not stop.wait(0.05):
    pass
note("stops")
