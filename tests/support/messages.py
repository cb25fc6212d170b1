"""Messages to workers, in a broker in memory."""

from typing import Any

import dramatiq


def queued(broker: Any) -> list[list[str]]:
    """Take all messages out of the queue."""
    messages = []
    while broker.queues["imports"].qsize():
        messages.append(list(dramatiq.Message.decode(broker.queues["imports"].get()).args[0]))
    return messages
