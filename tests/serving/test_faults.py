"""What a node does when something goes wrong: requests go on with the last good map, or dense, and it says why."""

from __future__ import annotations

import contextlib
import gzip
import os
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skipmap.serving.address import Service
from skipmap.serving.events import DiskProblem, MapActivated, MapRefused, StateChanged
from skipmap.serving.fetching import Fetcher, FetchFault
from skipmap.serving.map_client import MapClient
from tests.serving.channel_server import (
    FINGERPRINT,
    NUM_LAYERS,
    ChannelServer,
    Fault,
    Handler,
    envelope,
    map_json,
    new_keys,
)
from tests.serving.following import Events, FakeClock, client_of, following, until

_READERS = 50
_MOVES = 20
_BOMB_BYTES = 64 * 2**20


@pytest.fixture
def service() -> Iterator[ChannelServer]:
    with ChannelServer().running() as running:
        running.publish()
        yield running


def _stands_on_the_last_good_map(client: MapClient, *reason: str) -> None:
    until(lambda: client.status().state == "STALE" and all(r in client.status().reason for r in reason))
    assert client.current is not None
    assert client.current.version == 1
    assert client.skip_for("translation").to_list() == [2, 3]


def _is_dense(client: MapClient, *reason: str) -> None:
    until(lambda: all(r in client.status().reason for r in reason))
    assert (client.status().state, client.current) == ("NONE", None)
    assert client.skip_for("translation").to_list() == []


def _recovers(client: MapClient, service: ChannelServer) -> None:
    service.fault = None
    service.publish(version=7, skip=(4,), sequence=7)
    until(lambda: client.skip_for("translation").to_list() == [4])
    assert client.refresh(5)
    assert client.status().state == "FRESH"


def _tampered(service: ChannelServer) -> bytes:
    data = service.publish(version=2)
    place = data.index(b'"payload":"') + 200
    return data[:place] + (b"B" if data[place : place + 1] == b"A" else b"A") + data[place + 1 :]


def _of_another_model(service: ChannelServer) -> bytes:
    return service.publish(version=2, target={"id": "x", "fingerprint": "e" * 64, "num_layers": NUM_LAYERS})


def _of_another_size(service: ChannelServer) -> bytes:
    return service.publish(version=2, target={"id": "x", "fingerprint": FINGERPRINT, "num_layers": 30})


_BAD_MAPS: dict[str, tuple[Callable[[ChannelServer], bytes], str, str]] = {
    "tampered byte": (_tampered, "signature", "was changed on its way"),
    "wrong key": (lambda _: envelope(new_keys(), map_json(2), 2), "signature", "trusted"),
    "expired": (lambda s: s.publish(2, valid_seconds=0.001), "expired", "expired at"),
    "another model": (_of_another_model, "target", "another model"),
    "another number of blocks": (_of_another_size, "layers", "30 blocks"),
    "another channel": (lambda s: envelope(s.keys, map_json(2), 2, channel="canary"), "channel", "canary"),
    "no envelope": (lambda _: b"<html>sign in</html>", "envelope", "JSON"),
}


@pytest.mark.parametrize("kind", _BAD_MAPS)
def test_a_bad_map_is_refused_and_the_last_good_one_stays(service, kind):
    make, check, words = _BAD_MAPS[kind]
    events = Events()
    with following(service, on_event=events) as client:
        assert client.wait(10)
        service.put(make(service), 2)
        _stands_on_the_last_good_map(client, words, f"({check})")
        _recovers(client, service)
    assert {event.kind for event in events.of(MapRefused)} == {check}
    assert [event.version for event in events.of(MapActivated)] == [1, 7]


@pytest.mark.parametrize("kind", _BAD_MAPS)
def test_without_a_good_map_a_bad_one_leaves_everything_dense(service, kind):
    make, check, words = _BAD_MAPS[kind]
    service.put(make(service), 2)
    with following(service) as client:
        _is_dense(client, words, f"({check})")
        _recovers(client, service)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_replayed_older_answer_is_refused(service, tmp_path, restarted):
    old = service.body
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
        service.publish(version=2, skip=(1,))
        until(lambda: client.current.version == 2)
        if not restarted:
            service.put(old, 1)
            until(lambda: "replayed" in client.status().reason)
            assert (client.status().state, client.current.version) == ("STALE", 2)
    if restarted:
        service.put(old, 1)
        with following(service, cache_dir=tmp_path) as client:
            until(lambda: "replayed" in client.status().reason)
            assert (client.status().state, client.current.version) == ("STALE", 2)


def test_a_sequence_that_no_trusted_key_has_signed_counts_for_nothing(service, tmp_path):
    """Whoever had a key that leaked may have sent any sequence; with new keys the copy on the disk is no hindrance."""
    service.publish(version=2, sequence=2**62)
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
    service.keys = new_keys()
    service.publish(version=3, sequence=6)
    for _ in range(2):
        with following(service, cache_dir=tmp_path) as client:
            until(lambda: client.current is not None)
            assert client.current.sequence == 6
        # The second time the copy of the first one counts.
    service.publish(version=1, sequence=4)
    with following(service, cache_dir=tmp_path) as client:
        until(lambda: client.status().state == "STALE")
        assert client.current.version == 3


def test_a_running_client_drops_a_map_whose_key_is_not_trusted_any_more(service, tmp_path):
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(service.keys.public_pem())
    service.publish(version=9, sequence=2**62)
    with following(service, trusted_keys=trusted, cache_dir=tmp_path) as client:
        assert client.wait(10)
        service.keys = new_keys()
        trusted.write_text(service.keys.public_pem())
        service.publish(version=3, sequence=6)
        assert client.refresh(15)
        assert (client.current.version, client.current.sequence) == (3, 6)


@pytest.mark.parametrize("tag", ['"\\xe9"', '"' + "x" * 60_000 + '"', "that of the next version"])
def test_a_tag_that_a_header_gives_is_never_asked_with(service, tmp_path, tag):
    """What is asked with follows from what was signed: a header may be anybody's."""
    first = service.publish(version=1, sequence=1)
    second = service.publish(version=2, sequence=2)
    wrong = service.etag if tag.startswith("that") else tag

    def spoilt(handler: Handler) -> None:
        _raw(handler, f"HTTP/1.1 200 OK\nETag: {wrong}\nContent-Length: {len(first)}\n\n", first)

    service.fault = spoilt
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
        assert client.current.version == 1
        service.fault = None
        service.put(second, 2)
        assert client.refresh(15)
        assert client.current.version == 2


def _raw(handler: Handler, head: str, body: bytes = b"") -> None:
    handler.wfile.write(head.replace("\n", "\r\n").encode() + body)


def _cut_short(handler: Handler) -> None:
    body = handler.server.channel.body
    _raw(handler, f'HTTP/1.1 200 OK\nETag: "x"\nContent-Length: {len(body)}\n\n', body[:-40])


def _cut_chunks(handler: Handler) -> None:
    body = handler.server.channel.body[:100]
    _raw(handler, "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n64\n", body)


def _cut_gzip(handler: Handler) -> None:
    handler.answer(200, gzip.compress(handler.server.channel.body)[:-20], Content_Encoding="gzip")


def _cut_without_length(handler: Handler) -> None:
    _raw(handler, "HTTP/1.1 200 OK\nConnection: close\n\n", handler.server.channel.body[:-40])


def _damaged_gzip(handler: Handler) -> None:
    handler.answer(200, b"\x1f\x8b\x08\x00" + b"\xff" * 60, Content_Encoding="gzip")


def _bomb(handler: Handler) -> None:
    handler.answer(200, gzip.compress(b" " * _BOMB_BYTES), Content_Encoding="gzip")


def _endless(handler: Handler) -> None:
    _raw(handler, "HTTP/1.1 200 OK\nConnection: close\n\n")
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" " * 65536)


def _drip(handler: Handler, pieces: bytes) -> None:
    """Slow loris: always a little more, never an end."""
    with contextlib.suppress(OSError):
        for number in range(100_000):
            handler.wfile.write(pieces[number % len(pieces)].to_bytes())
            time.sleep(0.05)


def _drip_head(handler: Handler) -> None:
    _raw(handler, "HTTP/1.1 200 OK\n")
    _drip(handler, b"X-A: b\r\n")


def _drip_body(handler: Handler) -> None:
    _raw(handler, "HTTP/1.1 200 OK\nContent-Length: 1000000\n\n")
    _drip(handler, b" ")


def _silent(handler: Handler) -> None:
    # Until the client goes.
    handler.connection.settimeout(20)
    with contextlib.suppress(OSError):
        handler.rfile.read(1)


def _elsewhere(handler: Handler) -> None:
    handler.answer(302, b"", Location="http://192.0.2.1/")


def _error(status: int) -> Fault:
    return lambda handler: handler.answer(status, b'{"detail": "try\\u0007 later"}')


_FAULTS: dict[str, tuple[Fault, str]] = {
    "truncated body": (_cut_short, "broke off"),
    "truncated chunks": (_cut_chunks, "broke off"),
    "truncated gzip": (_cut_gzip, "broke off"),
    "truncated without a length": (_cut_without_length, "(envelope)"),
    "damaged gzip": (_damaged_gzip, "damaged"),
    "gzip bomb": (_bomb, "longer than"),
    "endless body": (_endless, "longer than"),
    "unknown packing": (lambda h: h.answer(200, b"x", Content_Encoding="br"), "packed as 'br'"),
    "server error": (_error(500), "500: try  later"),
    "busy": (_error(503), "503"),
    "token refused": (_error(403), "give a token"),
    "no channel": (_error(404), "404"),
    "redirect": (_elsewhere, "points elsewhere"),
    "no content": (lambda h: h.answer(204, b""), "204"),
    "hangs up": (lambda h: h.connection.close(), "broke off"),
    "no HTTP": (lambda h: _raw(h, "220 smtp ready\n\n"), "broke off"),
    "timeout": (_silent, "silent"),
    "slow loris in the head": (_drip_head, "within 1 s"),
    "slow loris in the body": (_drip_body, "within 1 s"),
}


@pytest.mark.parametrize("kind", _FAULTS)
def test_no_usable_answer_leaves_the_last_good_map(service, kind):
    fault, words = _FAULTS[kind]
    with following(service) as client:
        assert client.wait(10)
        service.fault = fault
        # A cache that sends something else does not care about tags.
        began = time.monotonic()
        _stands_on_the_last_good_map(client, words)
        assert time.monotonic() - began < 10
        _recovers(client, service)


@pytest.mark.parametrize("kind", ["server error", "slow loris in the head", "truncated body", "timeout"])
def test_no_usable_answer_at_the_start_is_dense(service, kind):
    fault, words = _FAULTS[kind]
    service.fault = fault
    with following(service) as client:
        assert client.wait(0.05) is False
        _is_dense(client, words)
        _recovers(client, service)


def test_nobody_listens(service):
    with following(service) as client:
        assert client.wait(10)
        service.stop()
        _stands_on_the_last_good_map(client, "cannot reach")


def test_nothing_has_changed_since_nothing(service):
    service.fault = lambda handler: handler.answer(304, b"")
    with following(service) as client:
        _is_dense(client, "has no map")
        _recovers(client, service)


def test_a_busy_service_is_left_alone_as_long_as_it_asks(service):
    with following(service) as client:
        assert client.wait(10)
        service.fault = lambda handler: handler.answer(503, b"", Retry_After="2")
        assert not client.refresh(5)
        count = len(service.asked)
        service.wait_for(lambda: len(service.asked) > count)
        assert service.asked[count].at - service.asked[count - 1].at >= 2.0


def test_a_service_that_lets_nobody_wait_is_asked_without_waiting(service):
    def refuse(handler: Handler) -> None:
        if handler.headers.get("Prefer"):
            handler.answer(503, b"", Retry_After="60")
        else:
            handler.answer(304, b"")

    with following(service, long_poll_seconds=60.0) as client:
        assert client.wait(10)
        service.fault = refuse
        service.publish(sequence=1)
        service.wait_for(lambda: [asked.prefer for asked in service.asked[-2:]] == ["wait=60", None])
        until(lambda: client.status().state == "FRESH")


@contextmanager
def _small_disk(folder: Path) -> Iterator[tuple[Path, Callable[[], None], Callable[[], None]]]:
    """A folder, and what fills and empties its disk: a real one of 64 KB, or where nothing can be mounted the kernel's
    limit on the size of files, which fails in the middle of a write as well.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0:

        def fill() -> None:
            with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass

        try:
            yield folder, fill, (folder / "filler").unlink
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield (
            folder,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard)),
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_the_copy_and_nothing_else(service, tmp_path):
    events = Events()
    with _small_disk(tmp_path) as (folder, fill, empty):
        with following(service, cache_dir=folder, on_event=events) as client:
            assert client.wait(10)
            until(lambda: any(folder.glob("*.json")))
            fill()
            service.publish(version=2, skip=(1,))
            until(lambda: client.skip_for("translation").to_list() == [1])
            until(lambda: "cannot be written" in client.status().reason)
            assert client.status().state == "FRESH"
            assert len(events.of(DiskProblem)) == 1
            # The copy that was there is whole.
            with following(service, cache_dir=folder, report=False) as restarted:
                assert restarted.current.version in (1, 2)
            empty()
            until(lambda: "cannot be written" not in client.status().reason)
        service.stop()
        with following(service, cache_dir=folder) as client:
            assert client.current.version == 2


@pytest.mark.parametrize("damage", [b"", b"\0" * 5000, b'{"schema": "skipmap.node-copy/1"}', None])
def test_a_corrupt_disk_copy_is_no_map(service, tmp_path, damage):
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
    (copy,) = tmp_path.glob("*.json")
    good = copy.read_bytes()
    copy.write_bytes(good[: len(good) // 2] if damage is None else damage)
    events = Events()
    service.fault = _error(503)
    with following(service, cache_dir=tmp_path, on_event=events) as client:
        _is_dense(client, "is damaged", "503")
        assert len(events.of(DiskProblem)) == 1
        service.fault = None
        # The map comes first, then its copy.
        until(lambda: client.status().state == "FRESH" and "damaged" not in client.status().reason)
    with following(service, cache_dir=tmp_path) as client:
        assert client.current is not None


def test_a_disk_copy_that_was_changed_on_purpose_is_refused(service, tmp_path):
    """Its check sum fits; the signature does not."""
    stranger = ChannelServer()
    with stranger.running():
        stranger.publish(version=9)
        with following(stranger, cache_dir=tmp_path / "strange") as client:
            assert client.wait(10)
    with following(service, cache_dir=tmp_path / "own") as client:
        assert client.wait(10)
    (own,), (strange,) = (tmp_path / "own").glob("*.json"), (tmp_path / "strange").glob("*.json")
    shutil.copy(strange, own)
    service.stop()
    events = Events()
    with following(service, cache_dir=tmp_path / "own", on_event=events) as client:
        assert (client.current, client.status().state) == (None, "NONE")
    assert [(event.kind, event.source) for event in events.of(MapRefused)] == [("signature", "disk")]


@pytest.mark.parametrize("on_expired", ["keep", "dense"])
def test_past_its_time_a_map_is_kept_or_not_as_asked(service, on_expired):
    clock, events = FakeClock(), Events()
    with following(service, clock=clock.clock, on_expired=on_expired, on_event=events) as client:
        assert client.wait(10)
        service.fault = _error(500)
        clock.pass_by(3700)
        assert client.status().state == "EXPIRED"
        assert client.skip_for("translation").to_list() == ([2, 3] if on_expired == "keep" else [])
        until(lambda: "500" in client.status().reason)
        until(lambda: any(event.new == "EXPIRED" for event in events.of(StateChanged)))


def test_a_clock_that_jumps_ahead_is_seen_and_forgiven(service):
    clock = FakeClock()
    with following(service, clock=clock.clock, on_expired="dense") as client:
        assert client.wait(10)
        clock.wall_moved = 86_400.0
        assert (client.status().state, client.current) == ("EXPIRED", None)
        # The service still says the same; its answer, too, is past its time by this clock.
        until(lambda: "was refused (expired)" in client.status().reason)
        assert "the clock of this machine says" in client.status().reason
        clock.wall_moved = 0.0
        assert client.current is not None
        until(lambda: client.status().state == "FRESH")


def test_a_clock_that_jumps_back_revives_nothing(service):
    clock = FakeClock()
    with following(service, clock=clock.clock, on_expired="dense") as client:
        assert client.wait(10)
        service.fault = _error(500)
        clock.wall_moved = -10 * 86_400.0
        assert client.current is not None
        clock.pass_by(3700)
        status = client.status()
        assert (status.state, client.current) == ("EXPIRED", None)
        assert "was set back" in status.reason


def test_a_clock_that_was_set_back_before_the_start_revives_nothing(service, tmp_path):
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
    service.stop()
    clock = FakeClock(wall_moved=-10 * 86_400.0)
    with following(service, cache_dir=tmp_path, clock=clock.clock, on_expired="dense") as client:
        assert client.current is not None
        clock.pass_by(3700)
        assert (client.status().state, client.current) == ("EXPIRED", None)


def test_an_expired_disk_copy_is_what_an_expired_map_is(service, tmp_path):
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
    service.stop()
    clock = FakeClock()
    clock.pass_by(3700)
    for on_expired, found in (("keep", [2, 3]), ("dense", [])):
        with following(service, cache_dir=tmp_path, clock=clock.clock, on_expired=on_expired) as client:
            assert client.status().state == "EXPIRED"
            assert client.skip_for("translation").to_list() == found


def test_a_node_that_nobody_polls_for_is_not_fresh(service):
    """Say its thread hangs, or was killed."""
    clock = FakeClock()
    with following(service, clock=clock.clock) as client:
        assert client.wait(10)
        assert client.status().state == "FRESH"
    clock.pass_by(60)
    status = client.status()
    assert (status.state, client.current.version) == ("STALE", 1)
    assert "nobody has asked" in status.reason


def test_fifty_threads_read_while_maps_change(service):
    """Each reader sees whole maps only, and never an older one after a newer one."""
    done, problems = threading.Event(), []
    skips = {number: ((number % 4) + 1,) for number in range(1, _MOVES + 2)}
    service.publish(version=1, skip=skips[1])

    def read() -> None:
        last, count = 0, 0
        while not done.is_set() or count == 0:
            active = client.current
            count += 1
            if active is None or active.sequence < last:
                problems.append(f"{active} after {last}")
                return
            last = active.sequence
            blocks = active.document.skip_for("translation").to_list()
            if (active.document.version, tuple(blocks)) != (active.version, skips[active.version]):
                problems.append(f"{blocks} in version {active.version}")
                return
            if count % 50 == 0 and client.status().state != "FRESH":
                problems.append(client.status().reason)
            if count % 20 == 0:
                # As a request does, it waits for something now and then.
                time.sleep(0.0005)

    client = client_of(service, report=False, deadline_seconds=20.0)
    with client:
        assert client.wait(10)
        readers = [threading.Thread(target=read) for _ in range(_READERS)]
        for reader in readers:
            reader.start()
        for version in range(2, _MOVES + 2):
            service.publish(version=version, skip=skips[version])
            assert client.refresh(20)
            assert client.current.version == version
        done.set()
        for reader in readers:
            reader.join()
    assert problems == []


def test_a_slow_loris_within_the_handshake_is_cut_off(service):
    """It pretends to be about to send a long first record of TLS, byte by byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.sendall(b"\x16\x03\x03\x3f\xff")
                        while True:
                            connection.sendall(b"\x02")
                            time.sleep(0.05)

        server = threading.Thread(target=drip, daemon=True)
        server.start()
        fetcher = Fetcher(Service.at(f"https://127.0.0.1:{listener.getsockname()[1]}"), deadline_seconds=1.0)
        began = time.monotonic()
        with pytest.raises(FetchFault, match=r"handshake|within 1 s"):
            fetcher.fetch("GET", "/")
        assert time.monotonic() - began < 5
        fetcher.close()
        listener.shutdown(socket.SHUT_RDWR)
        server.join(timeout=10)


def test_a_look_up_that_hangs_holds_up_no_stop(service, monkeypatch):
    """Nothing can interrupt the resolver; the client lets its thread go."""
    release, hung = threading.Event(), threading.Event()

    def hang(*_, **__):
        hung.set()
        release.wait(20)
        raise OSError("no such host")

    client = client_of(service)
    monkeypatch.setattr(socket, "create_connection", hang)
    client.start()
    assert hung.wait(10)
    began = time.monotonic()
    assert client.stop(timeout=0.3) is False
    assert time.monotonic() - began < 2.0
    assert client.current is None
    release.set()
    until(lambda: client.stop(timeout=5.0))
