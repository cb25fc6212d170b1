"""Messages carry streams to the actor of their bell, and nothing else."""

import pytest

from tests.support.bells import queued
from workers.broker import MAILS, BellUnavailable, BrokerDoorbell, in_process_broker, redis_broker


def test_a_bell_is_rung_for_streams_and_waits_until_it_is_heard() -> None:
    broker = in_process_broker()
    doorbell = BrokerDoorbell(broker)
    doorbell.ring(["import/S/1", "import/S/2"])
    doorbell.ring(["import/S/3"])
    doorbell.ring(["customer-mail/S/1"], MAILS)
    assert (doorbell.waiting(), doorbell.waiting(MAILS)) == (2, 1)
    assert queued(broker) == [["import/S/1", "import/S/2"], ["import/S/3"]]
    assert doorbell.waiting() == 0


@pytest.mark.slow
def test_a_redis_that_is_away_is_said_to_be() -> None:
    broker = redis_broker("redis://127.0.0.1:1/0")
    doorbell = BrokerDoorbell(broker)
    with pytest.raises(BellUnavailable):
        doorbell.ring(["import/S/1"])
    broker.close()
