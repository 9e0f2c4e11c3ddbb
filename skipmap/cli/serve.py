"""``skipmap serve``: the reference node, an OpenAI-compatible server that follows a domain map."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skipmap.cli.commands import EXIT_CODES, command
from skipmap.errors import Interrupted, InvalidInput
from skipmap.visible import one_line

if TYPE_CHECKING:
    from skipmap.serving.node.opening import MapOptions
    from skipmap.serving.node.settings import NodeSettings

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_CHANNEL = "production"
_STOP_SECONDS, _FORCED_SECONDS = 5.0, 0.2
_OF_A_CHANNEL = ("--server", "--token-file", "--channel", "--poll-seconds", "--long-poll")
_COUNTS = (("--max-batch", 1), ("--max-queue", 1), ("--max-tokens", 1))


def add_serve_parser(commands: _Commands) -> None:
    """Add ``skipmap serve``."""
    parser = commands.add_parser(
        "serve",
        help="serve a target with the skip sets of a map, OpenAI-compatible",
        description="Serve a target over an OpenAI-compatible HTTP API. With --map the node follows a channel of a "
        "service, with --map-file it uses one map; without either everything runs dense.",
        epilog=EXIT_CODES,
    )
    _model(parser)
    _map(parser)
    _http(parser)
    parser.set_defaults(run=command("serve"))


def run(arguments: argparse.Namespace) -> int:
    """Load the target, take the map, and serve until a signal comes."""
    from skipmap.serving.node.extra import require_extra

    _check(arguments)
    require_extra()
    from skipmap.cli.values import parameters
    from skipmap.serving.node.opening import DraftOptions, open_node
    from skipmap.serving.node.server import NodeServer, address_of, bind
    from skipmap.target.loaded import load_target

    settings, maps = _settings(arguments), _maps(arguments)
    draft = DraftOptions(arguments.draft, parameters(arguments.draft_param))
    listener = bind(arguments.host, arguments.port)
    with listener, _log_to_stderr():
        address = address_of(listener)
        _warn_of_strangers(arguments)
        loaded = load_target(arguments.target, None, arguments.dtype, arguments.device)
        node, stop_source = open_node(loaded, settings, maps, draft, arguments.router)

        def ready() -> None:
            active = node.source.current
            used = f"map {active.document.name} version {active.version or 'local'}" if active else "no map"
            drafts = node.drafts.for_map(active.document if active else None).name
            _say(f"serving {settings.model} at {address}/v1 with {used}, draft {drafts}")

        server = NodeServer(node.start(), ready)
        try:
            server.run([listener])
        finally:
            node.stop(_FORCED_SECONDS if server.force_exit else _STOP_SECONDS)
            if server.force_exit and node.engine.is_alive:
                # A thread deep inside the model cannot be ended in any other way.
                sys.stderr.flush()
                os._exit(Interrupted.exit_code)
            stop_source()
    return Interrupted.exit_code if server.force_exit else 0


def _model(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("what to serve")
    model.add_argument(
        "--target", required=True, metavar="T", help="known name, directory, GGUF file or hub id"
    )
    model.add_argument("--draft", metavar="D", help="draft method, or none (default: the map's, else sam)")
    model.add_argument("--draft-param", action="append", default=[], metavar="K=V", help="its parameters")
    model.add_argument(
        "--prefill",
        default="sparse",
        choices=("sparse", "dense"),
        help="what prompts run with (default sparse)",
    )
    model.add_argument(
        "--dtype", default="auto", help="of the weights: float32, bfloat16, ... (default auto)"
    )
    model.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default auto)")
    model.add_argument("--model-name", metavar="NAME", help="name for clients (default: the target's)")
    model.add_argument("--max-batch", type=int, default=8, metavar="N", help="answers decoded at a time (8)")
    model.add_argument("--max-queue", type=int, default=64, metavar="N", help="answers that may wait (64)")
    model.add_argument("--max-tokens", type=int, default=2048, metavar="N", help="longest answer (2048)")
    model.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="for sampled answers without a seed of their own (default: random)",
    )


def _map(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("which map")
    options.add_argument("--map", metavar="NAME", help="map of a service; needs --keys")
    options.add_argument("--channel", metavar="NAME", help=f"(default {_CHANNEL})")
    options.add_argument(
        "--server", metavar="URL", help="the service (default: SKIPMAP_SERVER, else http://127.0.0.1:8765)"
    )
    options.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file with a token (default: SKIPMAP_TOKEN)"
    )
    options.add_argument("--insecure", action="store_true", help="send the token over plain http, too")
    options.add_argument("--keys", type=Path, metavar="PUB.pem", help="public keys that sign the map")
    options.add_argument(
        "--map-file", type=Path, metavar="FILE", help="a map or an envelope instead of a service's"
    )
    options.add_argument("--bootstrap", type=Path, metavar="FILE", help="envelope to begin with")
    options.add_argument(
        "--poll-seconds", type=float, metavar="S", help="longest pause between two polls (default 60)"
    )
    options.add_argument(
        "--long-poll",
        type=float,
        metavar="S",
        help="let the service answer a poll only when there is news, or after S",
    )
    options.add_argument(
        "--on-expired",
        default="keep",
        choices=("keep", "dense"),
        help="what to do past the map's expiry (default keep it)",
    )
    options.add_argument("--node-id", metavar="ID", help="name in reports (default: host and process)")
    options.add_argument(
        "--router",
        default="auto",
        metavar="auto|off|FILE",
        help="what tells the domain of requests that name none (default auto: the map's router)",
    )


def _http(parser: argparse.ArgumentParser) -> None:
    http = parser.add_argument_group("how to listen")
    http.add_argument("--host", default="127.0.0.1")
    http.add_argument("--port", type=int, default=8900, help="0 takes any free one (default 8900)")
    http.add_argument(
        "--api-key-file", type=Path, metavar="FILE", help="keys that requests bring, one a line"
    )
    http.add_argument(
        "--drain-seconds", type=float, default=30.0, metavar="S", help="for running answers at the end (30)"
    )


def _check(arguments: argparse.Namespace) -> None:
    for option, least in _COUNTS:
        value = getattr(arguments, option[2:].replace("-", "_"))
        if value < least:
            raise InvalidInput(option, f"{value} is given; give at least {least}")
    if arguments.map is not None and arguments.map_file is not None:
        raise InvalidInput("--map-file", "and --map exclude each other; give one of them")
    if arguments.map is not None and arguments.keys is None:
        raise InvalidInput(
            "--keys", "is needed with --map; give the file of public keys that sign its versions"
        )
    if arguments.map is None:
        if arguments.bootstrap is not None:
            raise InvalidInput("--bootstrap", "belongs to --map; give --map-file to use a file alone")
        for option in _OF_A_CHANNEL:
            if getattr(arguments, option[2:].replace("-", "_")) is not None:
                raise InvalidInput(option, "belongs to --map; name the map to follow, or leave this out")
    if not _model_name(arguments):
        raise InvalidInput("--model-name", "is empty; give the name by which clients ask for the model")
    if arguments.draft == "":
        raise InvalidInput("--draft", "is empty; name a draft method, or none for plain decoding")
    if arguments.draft in (None, "none") and arguments.draft_param:
        raise InvalidInput("--draft-param", "belongs to a draft method; give --draft too")
    if not 0 <= arguments.drain_seconds <= 86_400:
        raise InvalidInput("--drain-seconds", f"{arguments.drain_seconds:g} is given; give 0 to 86400")


def _settings(arguments: argparse.Namespace) -> NodeSettings:
    from skipmap.serving.node.opening import read_keys
    from skipmap.serving.node.settings import NodeSettings

    return NodeSettings(
        model=_model_name(arguments),
        max_batch=arguments.max_batch,
        max_queue=arguments.max_queue,
        max_tokens=arguments.max_tokens,
        prefill=arguments.prefill,
        seed=arguments.seed,
        keys=read_keys(arguments.api_key_file) if arguments.api_key_file else (),
        drain_seconds=arguments.drain_seconds,
    )


def _maps(arguments: argparse.Namespace) -> MapOptions:
    from skipmap.client.server import find_server
    from skipmap.serving.node.opening import MapOptions

    more: dict[str, Any] = {}
    if arguments.map is not None:
        server = find_server(arguments.server, arguments.token_file, insecure=arguments.insecure)
        more = {"server": server.url, "token": server.token, "plain_http": arguments.insecure}
    return MapOptions(
        map=arguments.map,
        channel=arguments.channel or _CHANNEL,
        keys=arguments.keys,
        file=arguments.map_file,
        bootstrap=arguments.bootstrap,
        poll_seconds=arguments.poll_seconds,
        long_poll_seconds=arguments.long_poll,
        on_expired=arguments.on_expired,
        node_id=arguments.node_id,
        **more,
    )


def _model_name(arguments: argparse.Namespace) -> str:
    """What clients call the model: of a path its last part, since they need not know the machine's folders."""
    if arguments.model_name is not None:
        return str(arguments.model_name)
    path = Path(arguments.target)
    return path.resolve().name if path.exists() else str(arguments.target)


def _warn_of_strangers(arguments: argparse.Namespace) -> None:
    from skipmap.serving.address import is_loopback

    if not is_loopback(arguments.host) and arguments.api_key_file is None:
        _say(f"warning: anybody who reaches {arguments.host} can use this node; give --api-key-file")


@contextlib.contextmanager
def _log_to_stderr() -> Iterator[None]:
    """What the node logs goes to stderr; a web server's small talk does not."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine("skipmap: %(message)s"))
    ours, web = logging.getLogger("skipmap.serving"), logging.getLogger("uvicorn.error")
    before = (ours.level, web.level)
    ours.addHandler(handler)
    web.addHandler(handler)
    ours.setLevel(logging.INFO)
    web.setLevel(logging.WARNING)
    try:
        yield
    finally:
        ours.removeHandler(handler)
        web.removeHandler(handler)
        ours.setLevel(before[0])
        web.setLevel(before[1])


class _OneLine(logging.Formatter):
    """Keeps what comes from elsewhere in one line; tracebacks follow as they are."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)


def _say(text: str) -> None:
    print(f"skipmap: {one_line(text)}", file=sys.stderr, flush=True)
