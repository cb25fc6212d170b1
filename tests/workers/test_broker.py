"""The broker: messages hold ids of streams for the actor of their queue (`Queue`)."""

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dramatiq
import pytest

from tests.support.messages import queued
from tests.support.running import wait_for
from workers.broker import (
    IMPORTS,
    MAILS,
    BrokerDispatcher,
    QueueUnavailable,
    declare_actor,
    in_process_broker,
    redis_broker,
    start_workers,
)


def test_a_message_names_streams_and_waits_until_a_worker_takes_it() -> None:
    broker = in_process_broker()
    dispatcher = BrokerDispatcher(broker)
    dispatcher.enqueue(["import/S/1", "import/S/2"])
    dispatcher.enqueue(["import/S/3"])
    dispatcher.enqueue(["customer-mail/S/1"], MAILS)
    assert (dispatcher.waiting(), dispatcher.waiting(MAILS)) == (2, 1)
    assert queued(broker) == [["import/S/1", "import/S/2"], ["import/S/3"]]
    assert dispatcher.waiting() == 0


@pytest.mark.slow
def test_a_redis_that_is_away_is_said_to_be() -> None:
    broker = redis_broker("redis://127.0.0.1:1/0")
    dispatcher = BrokerDispatcher(broker)
    with pytest.raises(QueueUnavailable):
        dispatcher.enqueue(["import/S/1"])
    broker.close()


@pytest.mark.promise("redis-hangs-named-readyz")
@pytest.mark.slow
def test_a_redis_that_hangs_is_named_within_half_a_minute(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Relay and workers report it in one line, without a traceback: here with a tenth of the time, in a tenth of it."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "redis.sock"))
        silent.listen()
        consumed, broker = (redis_broker(f"unix://{folder}/redis.sock") for _ in range(2))
        for made in (consumed, broker):
            made.client.connection_pool.connection_kwargs["socket_timeout"] /= 10
        declare_actor(consumed, MAILS, lambda _: None)
        worker = start_workers(consumed, MAILS, threads=1)
        with ThreadPoolExecutor(1) as pool, pytest.raises(QueueUnavailable):
            pool.submit(BrokerDispatcher(broker).waiting).result(timeout=3)
        wait_for(lambda: "Consumer encountered a connection error: Timeout" in caplog.text, "the worker says so", 3)
        assert not any(record.exc_info for record in caplog.records)
        broker.close()
        worker.stop(timeout=0)


def test_a_worker_asks_for_the_messages_of_its_queue_and_for_no_delayed_ones(redis_url: str) -> None:
    broker = redis_broker(redis_url)
    enqueued: list[str] = []
    declare_actor(broker, MAILS, enqueued.extend)
    worker = start_workers(broker, MAILS, threads=1)
    BrokerDispatcher(broker).enqueue(["customer-mail/S/1"], MAILS)
    wait_for(lambda: enqueued == ["customer-mail/S/1"], "the message is taken")
    assert list(worker.consumers) == [MAILS.name]
    assert worker.worker_timeout == MAILS.poll_ms > IMPORTS.poll_ms
    worker.stop()
    broker.close()


def test_messages_that_cannot_be_given_back_raise_what_a_stopping_worker_catches(redis_url: str) -> None:
    broker = redis_broker(redis_url)
    BrokerDispatcher(broker).enqueue(["customer-mail/S/1"], MAILS)
    consumer = broker.consume(MAILS.name)
    message = next(consumer)
    assert message is not None
    broker.client.shutdown(nosave=True)
    with pytest.raises(dramatiq.BrokerConnectionError):
        consumer.requeue([message])
    broker.close()
