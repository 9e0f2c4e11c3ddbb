"""All that Skipmap needs on one machine: started in order, watched, stopped in order.

Only the manager's own lines go to the terminal; every process writes to a log file of its own.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from deploy.standalone.admin import ensure_admin
from deploy.standalone.children import Application, Child, applications
from deploy.standalone.console import Console, short
from deploy.standalone.errors import AlreadyRunning, FolderInUse, ServerFailed, StandaloneError
from deploy.standalone.locks import FileLock
from deploy.standalone.ports import DEFAULT_PORT, HOST, PORT_VARIABLE, take_port, url_of
from deploy.standalone.readiness import ask_ready, missing
from deploy.standalone.restarts import Watch
from deploy.standalone.running import Manager, RunFolder
from deploy.standalone.server import Server
from deploy.standalone.servers import BROKER_VARIABLE, DATABASE_VARIABLE, Service, broker, database
from deploy.standalone.signals import StopRequest
from migrations.run import upgrade
from migrations.schema import WrongSchema
from models.database import Database
from models.settings import read_settings
from skipmap.client.server import ADMIN_TOKEN_FILE
from skipmap.maps.keys import DEFAULT_KEY_FILE, ensure_key_file, public_file
from skipmap.settings import DEFAULT_HOME, get_settings

KEY_FILE_VARIABLE = "SKIPMAP_SIGNING_KEY_FILE"
LOCK_SECONDS = 20.0
"""How long the processes of a killed manager may take to end."""
READY_SECONDS = 180.0
READY_ENDS = 3
"""What ends this often before all is ready will not start."""
LOOK_SECONDS = 0.5
HURRY_SECONDS = 1.0
"""What a process that has nothing to finish needs to end."""


@dataclass(frozen=True)
class _Running:
    """A server as something to watch."""

    server: Server

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def is_running(self) -> bool:
        return self.server.is_running

    def start(self) -> None:
        self.server.start()

    def how_it_ended(self) -> str:
        return f"ended (see {short(self.server.log.path)})"


class Stack:
    """Skipmap on a home. ``run`` returns after a stop was asked for; whatever happens, it leaves no process behind."""

    def __init__(
        self,
        home: Path,
        port: int,
        *,
        console: Console,
        stop: StopRequest,
        programs: Callable[[int], Sequence[Application]] = applications,
    ) -> None:
        self._home = home
        self._port = port
        self._console = console
        self._stop = stop
        self._programs = programs
        self._run = RunFolder(home)
        self._watches: list[Watch] = []
        self._children: list[Child] = []

    def run(self) -> None:
        """Start all, follow it until a stop is asked for, and stop all.

        Raises AlreadyRunning when another process does so on this home, InvalidInput when the port is not free, and
        StandaloneError or Unavailable when a part does not start.
        """
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._home / "stack.lock") as lock, ExitStack() as at_the_end:
            self._take(lock)
            port = take_port(self._port)
            url, since = url_of(port), time.time()
            at_the_end.callback(self._run.clear)
            self._run.write(url, since, ready=False)
            self._console.say(f"Starting Skipmap on {short(self._home)}")
            try:
                if self._start(at_the_end, lock, port, url):
                    self._run.write(url, since, ready=True)
                    self._introduce(url)
                    self._follow()
            finally:
                self._console.say("Stopping" + (" at once" if self._stop.hurried else ""))
        self._console.say("Stopped")

    def _take(self, lock: FileLock) -> None:
        deadline = time.monotonic() + LOCK_SECONDS
        waits = False
        while not lock.try_acquire():
            manager = self._run.manager()
            if manager is not None:
                raise AlreadyRunning(already_running(self._home, manager))
            if self._stop.asked:
                raise AlreadyRunning(
                    f"the last Skipmap on {short(self._home)} has not quite ended; try again"
                )
            if time.monotonic() > deadline:
                raise FolderInUse(
                    f"process {lock.holder()}, or one that it started, holds {lock.path} and does not end: "
                    "stop it first"
                )
            if not waits:
                self._console.say("Waiting for the end of the last Skipmap on this home")
                waits = True
            self._stop.wait(LOOK_SECONDS / 5)
        self._run.clear()

    def _start(self, at_the_end: ExitStack, lock: FileLock, port: int, url: str) -> bool:
        """Start everything; returns whether it is ready, False when a stop was asked for meanwhile."""
        addresses: dict[str, str] = {}
        for variable, service in (
            (DATABASE_VARIABLE, database(self._home)),
            (BROKER_VARIABLE, broker(self._home)),
        ):
            if self._stop.asked:
                return False
            self._start_service(at_the_end, service)
            addresses[variable] = service.url
        if self._stop.asked:
            return False
        self._prepare(addresses)
        environment = self._environment(port) | addresses
        for program in reversed(self._programs(port)):
            child = Child(
                program, environment=environment, logs=self._home / "logs", run=self._run, lock=lock
            )
            at_the_end.callback(self._stop_child, child)
            watch = Watch(child)
            watch.start(time.monotonic())
            self._children.append(child)
            self._watches.append(watch)
        self._console.say(f"  {', '.join(child.name for child in reversed(self._children))} started")
        return self._becomes_ready(url)

    def _start_service(self, at_the_end: ExitStack, service: Service) -> None:
        began = time.monotonic()
        if not isinstance(service, Server):
            return
        watch = Watch(_Running(service))
        at_the_end.callback(service.stop)
        watch.start(began)
        self._watches.append(watch)
        self._console.say(f"  {service.name} runs ({time.monotonic() - began:.1f} s)")

    def _prepare(self, addresses: dict[str, str]) -> None:
        settings = read_settings(database_url=addresses[DATABASE_VARIABLE])
        try:
            upgrade(settings.database_url)
        except WrongSchema as error:
            service = database(self._home)
            ours = f" (move {short(service.data_dir)} away)" if isinstance(service, Server) else ""
            raise StandaloneError(f"{error}{ours}") from error
        store = Database(settings, name="skipmap-standalone")
        try:
            token = ensure_admin(store, self._token_file)
        finally:
            store.close()
        self._console.say("  The database is up to date")
        if token is not None:
            self._console.secret("Admin token", token, self._token_file)
        # What signs lies outside the database: who can write there still cannot speak to nodes.
        ensure_key_file(self._key_file)

    def _environment(self, port: int) -> dict[str, str]:
        """What the processes see; relative paths would mean another place to them."""
        settings = get_settings()
        given = {
            **os.environ,
            "SKIPMAP_HOME": str(self._home),
            "SKIPMAP_CACHE": str(settings.cache),
            "SKIPMAP_HOST": HOST,
            PORT_VARIABLE: str(port),
            KEY_FILE_VARIABLE: str(self._key_file),
            "PYTHONUNBUFFERED": "1",
        }
        if settings.model_roots:
            given["SKIPMAP_MODEL_ROOTS"] = os.pathsep.join(map(str, settings.model_roots))
        return given

    def _becomes_ready(self, url: str) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while not self._stop.asked:
            self._look()
            for child, watch in zip(self._children, self._watches[-len(self._children) :], strict=True):
                if watch.ends >= READY_ENDS:
                    raise ServerFailed(
                        f"{child.name} does not start. The end of {child.log.path}:\n{child.log.tail()}"
                    )
            problems = missing(ask_ready(url))
            # The last worker of an earlier run may still count as alive.
            problems += [f"{child.name} does not run" for child in self._children if not child.is_running]
            if not problems:
                return True
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"Skipmap is not ready after {READY_SECONDS:.0f} s ({', '.join(problems)}); "
                    f"see {short(self._home / 'logs')}"
                )
            self._stop.wait(LOOK_SECONDS)
        return False

    def _introduce(self, url: str) -> None:
        where = "" if url == url_of(DEFAULT_PORT) else f" --server {url}"
        self._console.say(f"Skipmap is ready: {url}")
        self._console.say(f"  Dashboard     {url}/ (sign in with the token)")
        self._console.say(f"  Token         {short(self._token_file)}")
        self._console.say(f"  Nodes trust   {short(public_file(self._key_file))}")
        self._console.say(f"  Logs          {short(self._home / 'logs')}")
        self._console.say(f"  Data          {short(self._home)}")
        home = (
            "" if self._home == DEFAULT_HOME.expanduser() else f"SKIPMAP_HOME={shlex.quote(str(self._home))} "
        )
        self._console.say(
            f"  Submit a job  {home}.venv/bin/skipmap jobs submit --target smollm2-135m-instruct "
            f"--draft prompt_lookup --domain qa --calibration sample:qa{where}"
        )
        self._console.say(f"  Stop          Ctrl-C, or {home}make down")

    def _follow(self) -> None:
        while not self._stop.asked:
            self._look()
            self._stop.wait(LOOK_SECONDS)

    def _look(self) -> None:
        for watch in self._watches:
            happened = watch.tick(time.monotonic())
            if happened:
                self._console.note(happened)
        for child in self._children:
            child.log.make_room()

    def _stop_child(self, child: Child) -> None:
        if not child.is_running:
            return
        more = child.application.while_stopping
        self._console.say(f"  {child.name}" + (f": {more}" if more and not self._stop.hurried else ""))
        child.ask_to_stop()
        asked = time.monotonic()
        while child.is_running and time.monotonic() < asked + child.application.stop_seconds:
            if self._stop.hurried and time.monotonic() > asked + HURRY_SECONDS:
                child.ask_to_stop()
            self._stop.wait(LOOK_SECONDS / 5)
        child.stop()

    @property
    def _key_file(self) -> Path:
        given = os.environ.get(KEY_FILE_VARIABLE)
        return Path(given).expanduser().absolute() if given else self._home / DEFAULT_KEY_FILE

    @property
    def _token_file(self) -> Path:
        return self._home / ADMIN_TOKEN_FILE


def already_running(home: Path, manager: Manager) -> str:
    """What to tell somebody who starts Skipmap on a home where it runs."""
    state = "" if manager.ready else ", still starting"
    return (
        f"Skipmap runs on {short(home)} already (process {manager.pid}, {manager.url}{state}): "
        "use it, or stop it with 'make down'"
    )
