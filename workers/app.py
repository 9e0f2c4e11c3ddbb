"""The Celery application. A message is only a doorbell: it names a chunk that may be claimable, and nothing else."""

from __future__ import annotations

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.transport import TRANSPORT_ALIASES

from models.dispatch import Doorbell
from models.settings import ServiceSettings
from skipmap.errors import InvalidInput
from workers.transport import RING

MESSAGE_VERSION = 1
ANY_QUEUE = "skipmap.any"

TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), "workers.transport:Transport"))
_START_SECONDS = 600.0


def queue_of(device_class: str | None) -> str:
    """Queue of the workers of a device class, or of all."""
    return ANY_QUEUE if device_class is None else f"skipmap.{device_class}"


def make_app(settings: ServiceSettings) -> Celery:
    """A Celery application for the broker of the settings; raises InvalidInput when none is named."""
    if not settings.broker_url:
        raise InvalidInput(
            "SKIPMAP_BROKER_URL", "required and not set; give an address such as redis://host:6379/0"
        )
    app = Celery("skipmap", broker=settings.broker_url, set_as_current=False)
    app.conf.update(
        # Only JSON: accepting pickle from a broker would be accepting code.
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        result_accept_content=["json"],
        # Who owns a chunk is decided in the database, so a message is done with once it is received.
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        # A new child first loads its libraries, and waits for a database that is away; only one that hangs is replaced.
        worker_proc_alive_timeout=_START_SECONDS,
        # Nothing waits for results; state is read from the database.
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        task_send_sent_event=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        # A worker outwaits its broker, however long that is away.
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": 3600,
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 10,
            "retry_on_timeout": True,
            # Of a connection to publish over; a consumer's tries are counted above.
            "max_retries": 0,
            "global_keyprefix": "skipmap:",
        },
        task_create_missing_queues=False,
        task_queues=[_queue(queue_of(kind)) for kind in (None, "cpu", "cuda", "mps")],
        task_default_queue=ANY_QUEUE,
        enable_utc=True,
    )
    return app


def _queue(name: str) -> Queue:
    return Queue(name, Exchange(name, type="direct"), routing_key=name)


def ring(app: Celery, doorbell: Doorbell) -> None:
    """Publish one message; raises kombu's or redis' connection errors at once and never retries."""
    app.send_task(
        RING,
        args=[MESSAGE_VERSION, doorbell.chunk_id],
        queue=queue_of(doorbell.device_class),
        retry=False,
        ignore_result=True,
    )
