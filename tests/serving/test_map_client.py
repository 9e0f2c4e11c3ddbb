from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from skipmap.serving.events import MapActivated, MapRefused, StateChanged
from skipmap.serving.map_client import MapClient
from skipmap.serving.pulling import pull
from skipmap.serving.report import DomainCounters, NodeReport
from tests.serving.channel_server import (
    CHANNEL_PATH,
    FINGERPRINT,
    MAP,
    NUM_LAYERS,
    ChannelServer,
    envelope,
    map_json,
    new_keys,
)
from tests.serving.following import Events, FakeClock, client_of, following, until


@pytest.fixture
def service() -> Iterator[ChannelServer]:
    with ChannelServer().running() as running:
        running.publish()
        yield running


def _version(client: MapClient) -> int | None:
    return None if client.current is None else client.current.version


def test_a_node_follows_its_channel_forth_and_back(service):
    events = Events()
    with following(service, on_event=events) as client:
        assert client.wait(10)
        assert client.skip_for("translation").to_list() == [2, 3]
        assert client.skip_for("poetry").to_list() == client.skip_for(None).to_list() == []
        service.publish(version=2, skip=(1,))
        until(lambda: _version(client) == 2)
        assert client.skip_for("translation").to_list() == [1]
        service.publish(version=1)
        until(lambda: _version(client) == 1)
        status = client.status()
        assert (status.state, status.version, status.sequence) == ("FRESH", 1, 3)
    assert [(e.version, e.sequence, e.previous) for e in events.of(MapActivated)] == [
        (1, 1, None),
        (2, 2, 1),
        (1, 3, 2),
    ]
    assert [(e.old, e.new) for e in events.of(StateChanged)] == [("NONE", "FRESH")]


def test_what_has_not_changed_is_not_sent_again(service):
    with following(service) as client:
        assert client.wait(10)
        service.wait_for(lambda: len(service.asked) >= 4)
        assert client.refresh(5)
    assert service.asked[0].etag is None
    assert {asked.etag for asked in service.asked[1:]} == {service.etag}


def test_before_the_start_and_after_the_end_there_is_an_answer(service):
    client = client_of(service)
    assert client.current is None
    assert (client.status().state, client.skip_for("translation").to_list()) == ("NONE", [])
    assert client.refresh(0.1) is client.wait(0.0) is False
    client.start()
    client.start()
    assert client.wait(10)
    assert client.stop()
    assert client.stop()
    asked = len(service.asked)
    assert _version(client) == 1
    assert client.refresh(0.1) is False
    assert len(service.asked) == asked
    with client:
        assert client.refresh(5)
    assert client.status().state == "FRESH"


def test_a_long_poll_brings_a_change_at_once(service):
    with following(service, poll_seconds=300.0, long_poll_seconds=20.0) as client:
        assert client.wait(10)
        service.wait_for(lambda: service.asked[-1].prefer == "wait=20")
        began = time.monotonic()
        service.publish(version=2)
        until(lambda: _version(client) == 2)
        assert time.monotonic() - began < 2.0
        # It does not stop at that.
        count = len(service.asked)
        service.wait_for(lambda: len(service.asked) > count)
    assert [asked.prefer for asked in service.asked] == [None, "wait=20", "wait=20"]


def test_a_stop_during_a_long_poll_is_quick(service):
    with following(service, poll_seconds=0.1, long_poll_seconds=60.0) as client:
        assert client.wait(10)
        service.wait_for(lambda: service.asked[-1].prefer == "wait=60")
        count = len(service.asked)
        began = time.monotonic()
        assert client.refresh(5)
        assert client.stop(timeout=5.0)
        assert time.monotonic() - began < 2.0
    # Who asks for an answer now is not made to wait for the next change.
    assert [asked.prefer for asked in service.asked][count:] == [None]


def test_many_who_ask_at_once_are_all_answered(service):
    with following(service, poll_seconds=300.0, deadline_seconds=20.0) as client:
        assert client.wait(10)
        answers = []
        askers = [
            threading.Thread(target=lambda: answers.extend(client.refresh(20) for _ in range(5)))
            for _ in range(20)
        ]
        count = len(service.asked)
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
    assert answers == [True] * 100
    # Who waits for the same answer shares it.
    assert len(service.asked) - count < 100


# Of a handshake that a stop cuts in half, Python's ssl leaves the socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_certificates_are_checked(service, tmp_path, monkeypatch):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    with ChannelServer(certificate=pem).running() as safe:
        safe.publish()
        options = {"trusted_keys": safe.keys.trusted(), "fingerprint": "any", "num_layers": None}
        address = f"https://localhost:{safe.port}"
        with MapClient(address, MAP, **options) as client:
            until(lambda: "CERTIFICATE_VERIFY_FAILED" in client.status().reason)
            assert client.current is None
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        with MapClient(address, MAP, poll_seconds=0.1, long_poll_seconds=60.0, **options) as client:
            assert client.wait(10)
            safe.wait_for(lambda: safe.asked[-1].prefer is not None)
            began = time.monotonic()
            assert client.stop(timeout=5.0)
            assert time.monotonic() - began < 2.0


def test_a_newer_expiry_of_the_same_version_is_taken(service):
    events = Events()
    with following(service, on_event=events) as client:
        assert client.wait(10)
        first = client.current
        service.publish(sequence=1, valid_seconds=7200)
        until(lambda: client.current.expires_at > first.expires_at)
        assert client.current.document is first.document
        later = client.current.expires_at
        service.publish(sequence=1, valid_seconds=600)
        assert client.refresh(5)
        assert client.current.expires_at == later
    assert len(events.of(MapActivated)) == 1


def test_the_tag_of_a_refused_map_is_not_kept(service):
    with following(service) as client:
        assert client.wait(10)
        good = service.etag
        service.publish(version=2, target={"id": "x", "fingerprint": "e" * 64, "num_layers": 9})
        assert not client.refresh(5)
        until(lambda: client.status().state == "STALE")
        count = len(service.asked)
        service.wait_for(lambda: len(service.asked) > count + 2)
        assert {asked.etag for asked in service.asked[1:]} == {good}
        service.publish(version=3, skip=(4,))
        until(lambda: _version(client) == 3)


def test_a_restart_without_the_service_begins_with_the_disk_copy(service, tmp_path):
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
        digest = client.current.digest
    service.stop()
    events = Events()
    with following(service, cache_dir=tmp_path, on_event=events) as client:
        assert client.current.digest == digest
        until(lambda: "cannot reach" in client.status().reason)
        status = client.status()
        assert (status.state, status.version) == ("STALE", 1)
        assert status.fetched_at is not None
    assert [event.source for event in events.of(MapActivated)] == ["disk"]


def test_the_tag_of_the_disk_copy_saves_a_download(service, tmp_path):
    with following(service, cache_dir=tmp_path) as client:
        assert client.wait(10)
    count = len(service.asked)
    with following(service, cache_dir=tmp_path) as client:
        assert client.current is not None
        until(lambda: client.status().state == "FRESH")
    assert {asked.etag for asked in service.asked[count:]} == {service.etag}


def test_a_bootstrap_file_serves_until_the_service_does(service, tmp_path):
    file = tmp_path / "map.envelope"
    file.write_bytes(service.body)
    service.fault = lambda handler: handler.answer(503, b"")
    with following(service, bootstrap=file) as client:
        assert _version(client) == 1
        until(lambda: "503" in client.status().reason)
        assert client.status().state == "STALE"
        service.fault = None
        # The same version from the service brings the tag that the file lacks.
        service.wait_for(lambda: service.asked[-1].etag == service.etag)
        service.publish(version=2)
        until(lambda: _version(client) == 2)
    # A later disk copy is not given up for the older file.
    with following(service, bootstrap=file, cache_dir=tmp_path / "cache") as client:
        until(lambda: client.status().state == "FRESH")
    events = Events()
    with following(service, bootstrap=file, cache_dir=tmp_path / "cache", on_event=events) as client:
        assert _version(client) == 2
    assert [event.kind for event in events.of(MapRefused)] == ["sequence"]


@pytest.mark.parametrize("trouble", ["expired", "wrong key", "no file"])
def test_a_bootstrap_file_that_is_not_good_is_refused(service, tmp_path, trouble):
    file = tmp_path / "map.envelope"
    service.fault = lambda handler: handler.answer(500, b"")
    clock = FakeClock()
    if trouble != "no file":
        file.write_bytes(service.body if trouble == "expired" else envelope(new_keys(), map_json()))
    if trouble == "expired":
        clock.pass_by(3601)
    events = Events()
    with following(service, bootstrap=file, clock=clock.clock, on_event=events) as client:
        assert client.current is None
        assert client.status().state == "NONE"
    kinds = {"expired": "expired", "wrong key": "signature", "no file": "file"}
    assert [(e.kind, e.source) for e in events.of(MapRefused)] == [(kinds[trouble], "bootstrap")]


def test_reports_say_what_the_node_runs(service):
    counters = {
        version: {"translation": DomainCounters(requests=version, verification_steps=10, emitted_tokens=25)}
        for version in (1, 2)
    }
    with following(service, node_id="rack-1", token="secret", counters=counters.__getitem__) as client:
        service.wait_for(lambda: any(report["state"] == "FRESH" for report in service.reports))
        service.publish(version=2)
        service.wait_for(lambda: service.reports[-1]["version"] == 2)
        own = client.status()
    last = dict(service.reports[-1])
    assert last.pop("path") == "/api/v1/nodes/rack-1/report"
    report = NodeReport.model_validate_json(NodeReport.model_validate(last).model_dump_json())
    assert (report.node, report.map, report.channel, report.state) == ("rack-1", MAP, "production", "FRESH")
    assert (report.digest, report.sequence, report.target_fingerprint) == (own.digest, 2, FINGERPRINT)
    assert report.domains == counters[2]
    assert {asked.authorization for asked in service.asked} == {"Bearer secret"}


def test_a_report_that_is_never_taken_delays_no_map(service):
    hung, release = threading.Event(), threading.Event()

    def hang(handler):
        hung.set()
        release.wait(20)

    service.report_fault = hang
    with following(service, deadline_seconds=60.0) as client:
        assert hung.wait(10)
        for version in (2, 3):
            service.publish(version=version)
            until(lambda version=version: _version(client) == version)
        began = time.monotonic()
        assert client.stop(timeout=5.0)
        assert time.monotonic() - began < 2.0
    release.set()


def test_reports_can_be_left_out(service):
    with following(service, report=False) as client:
        service.wait_for(lambda: len(service.asked) >= 4)
        assert client.status().state == "FRESH"
    assert service.reports == []


def test_callbacks_that_fail_change_nothing(service, caplog):
    def fail(*_):
        raise SystemExit("no")

    def no_counters(version):
        raise RuntimeError("no figures")

    with following(service, on_event=fail, counters=no_counters) as client:
        assert client.wait(10)
        service.publish(version=2)
        until(lambda: _version(client) == 2)
        assert client.status().domains == {}
        service.wait_for(lambda: service.reports and service.reports[-1]["version"] == 2)
    assert "the event callback failed" in caplog.text
    assert "the counters could not be read" in caplog.text


def test_a_callback_may_stop_its_client(service):
    stopped = threading.Event()

    def stop(event):
        if isinstance(event, MapActivated):
            client.stop(timeout=1.0)
            stopped.set()

    client = client_of(service, on_event=stop)
    client.start()
    assert stopped.wait(10)
    assert client.stop()
    assert _version(client) == 1


def test_a_service_behind_a_path_is_found(service):
    client = MapClient(
        f"{service.url}/behind/a/proxy/",
        MAP,
        trusted_keys=service.keys.trusted(),
        fingerprint=FINGERPRINT,
        num_layers=NUM_LAYERS,
    )
    with client:
        assert client.wait(10)
    assert service.asked[0].path == f"/behind/a/proxy{CHANNEL_PATH}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trusted_keys": None}, "skipmap keys new"),
        ({"fingerprint": None}, "'any'"),
        ({"poll_seconds": 0.0}, "poll_seconds"),
        ({"long_poll_seconds": -1.0}, "long_poll_seconds"),
        ({"on_expired": "panic"}, "'keep' or 'dense'"),
        ({"node_id": "a b"}, "node_id"),
        ({"node_id": "x" * 200}, "node_id"),
        ({"token": "two words"}, "token"),
    ],
)
def test_what_can_never_work_is_said_at_once(service, changes, words):
    with pytest.raises(InvalidInput, match=words):
        client_of(service, **changes)


def test_a_token_does_not_travel_in_the_clear(service):
    options = {"trusted_keys": service.keys.trusted(), "fingerprint": "any", "num_layers": None}
    with pytest.raises(InvalidInput, match="plain_http"):
        MapClient("http://skipmap.example", MAP, token="secret", **options)
    MapClient("http://skipmap.example", MAP, token="secret", plain_http=True, **options)
    MapClient("https://skipmap.example", MAP, token="secret", **options)
    for address in ("skipmap.example", "ftp://x", "http://me:pw@x", "http://x?y=1"):
        with pytest.raises(InvalidInput, match="server"):
            MapClient(address, MAP, **options)


def test_a_pulled_file_is_checked_and_never_goes_back(service, tmp_path):
    out = tmp_path / "new" / "map.envelope"
    options = {
        "trusted_keys": service.keys.trusted(),
        "fingerprint": FINGERPRINT,
        "num_layers": NUM_LAYERS,
        "out": out,
    }
    first = pull(service.url, MAP, **options)
    assert (first.active.version, first.changed) == (1, True)
    assert out.read_bytes() == service.body
    assert not pull(service.url, MAP, **options).changed
    old = service.body
    latest = service.publish(version=2)
    assert pull(service.url, MAP, **options).active.version == 2
    service.put(old, 1)
    with pytest.raises(Refused, match="sequence"):
        pull(service.url, MAP, **options)
    assert out.read_bytes() == latest
    with pytest.raises(Refused, match="target"):
        pull(service.url, MAP, **options | {"fingerprint": "e" * 64, "out": tmp_path / "other"})
    assert not (tmp_path / "other").exists()
    with pytest.raises((ModelFailure, NotFound), match="404"):
        pull(service.url, "nothing", **options)
