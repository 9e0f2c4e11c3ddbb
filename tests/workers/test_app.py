from __future__ import annotations

import base64
import json
import time

import pytest
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from models.dispatch import Doorbell
from models.settings import ServiceSettings
from skipmap.errors import InvalidInput
from workers.app import make_app, queue_of, ring

DATABASE = "postgresql://localhost/nowhere"


@pytest.fixture
def make():
    made = []

    def build(url: str):
        made.append(make_app(ServiceSettings(database_url=DATABASE, broker_url=url)))
        return made[-1]

    yield build
    for app in made:
        app.close()


def test_only_json_comes_in_and_nothing_goes_back(make):
    conf = make("redis://localhost").conf
    for name in ("accept_content", "result_accept_content"):
        assert conf[name] == ["json"]
    assert (conf.task_serializer, conf.result_serializer) == ("json", "json")
    assert conf.result_backend is None
    assert conf.task_ignore_result
    assert not conf.task_store_errors_even_if_ignored


def test_a_message_is_done_with_once_it_is_received(make):
    """Who owns a chunk is decided elsewhere, so nothing is ever redelivered, and no message waits in a busy worker."""
    conf = make("redis://localhost").conf
    assert not conf.task_acks_late
    assert not conf.task_reject_on_worker_lost
    assert conf.worker_prefetch_multiplier == 1
    assert conf.worker_disable_prefetch


def test_nobody_steers_a_worker_through_the_broker(make):
    conf = make("redis://localhost").conf
    assert not conf.worker_enable_remote_control
    assert not conf.worker_send_task_events
    assert not conf.task_send_sent_event


def test_a_worker_outwaits_its_broker_and_goes_on_with_its_work(make):
    conf = make("redis://localhost").conf
    assert conf.broker_connection_max_retries is None
    assert conf.broker_connection_retry_on_startup
    assert not conf.worker_cancel_long_running_tasks_on_connection_loss
    options = conf.broker_transport_options
    assert 0 < options["socket_connect_timeout"] <= options["socket_timeout"] <= 30


def test_a_child_has_time_to_load_its_libraries(make):
    """Celery's own four seconds are less than that takes on a busy machine; the child would be replaced for ever."""
    assert make("redis://localhost").conf.worker_proc_alive_timeout >= 60


def test_without_a_broker_there_is_no_application():
    with pytest.raises(InvalidInput, match="SKIPMAP_BROKER_URL: required and not set"):
        make_app(ServiceSettings(database_url=DATABASE))


@pytest.mark.parametrize("device_class", [None, "cpu", "cuda"])
def test_a_message_names_a_chunk_and_nothing_else(make, valkey, device_class):
    queue = queue_of(device_class)
    with Redis.from_url(valkey.client_url) as client:
        client.flushall()
        ring(make(valkey.url), Doorbell("a chunk", device_class))
        (message,) = map(json.loads, client.lrange(f"skipmap:{queue}", 0, -1))
    assert message["content-type"] == "application/json"
    assert json.loads(base64.b64decode(message["body"]))[:2] == [[1, "a chunk"], {}]
    assert message["properties"]["delivery_info"]["routing_key"] == queue


def test_a_broker_that_is_away_is_told_at_once(make, tmp_path):
    began = time.monotonic()
    with pytest.raises((OperationalError, RedisError, OSError)):
        ring(make(f"redis+socket://{tmp_path}/nobody.sock"), Doorbell("a chunk", None))
    assert time.monotonic() - began < 5
