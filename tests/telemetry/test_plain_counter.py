"""What is counted in plain numbers is in the metrics after it was settled, and once."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from telemetry.plain_counter import PlainCounter

BOUNDS = (0.1, 1.0)


@pytest.mark.promise("counted-every-request-counted")
def test_a_plain_counter_is_what_the_metrics_would_have_counted() -> None:
    registry = CollectorRegistry()
    counter, told = Counter("asked", "", registry=registry), Histogram("took", "", buckets=BOUNDS, registry=registry)
    expected = Histogram("expected", "", buckets=BOUNDS, registry=registry)
    counting = PlainCounter(counter, told, BOUNDS)
    for times in ((0.05, 0.1, 0.5), (), (1.0, 2.0)):
        for seconds in times:
            counting.add(seconds)
            expected.observe(seconds)
        counting.settle()
    samples = {(one.name, *one.labels.values()): one.value for family in registry.collect() for one in family.samples}
    assert samples["asked_total",] == samples["took_count",] == 5
    for name in ("sum", "count", "bucket"):
        for key in [key for key in samples if key[0] == f"expected_{name}"]:
            assert samples[(f"took_{name}", *key[1:])] == samples[key], key


def test_a_plain_counter_without_times_counts() -> None:
    registry = CollectorRegistry()
    counting = PlainCounter(Counter("asked", "", registry=registry))
    counting.add()
    counting.settle()
    counting.settle()
    assert registry.get_sample_value("asked_total") == 1
