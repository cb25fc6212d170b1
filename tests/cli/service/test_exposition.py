"""Metrics of the whole service: any number of suppliers, and the end of certificates."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.service.exposition import MAX_SUPPLIERS, ends_at, import_metrics
from cli.service.observing import watched_certificates
from cli.service.settings import Settings
from projections.queries.vitals import Vitals
from tests.support.certificates import certificate


def test_more_suppliers_than_series_share_one() -> None:
    many = [(f"S{n:05}", "PENDING", 1) for n in range(MAX_SUPPLIERS + 20)]
    imports = next(iter(import_metrics(Vitals(imports=many))))
    counts = {sample.labels["supplier"]: sample.value for sample in imports.samples}
    assert len(counts) == MAX_SUPPLIERS + 1
    assert counts["(others)"] == 20


@pytest.mark.promise("metrics-shows-requests-creates")
def test_the_end_of_certificates_is_told_and_one_that_cannot_be_read_has_ended(folder: Path) -> None:
    ends = datetime(2027, 3, 1, tzinfo=UTC)
    kept = certificate(folder / "a.pem", ends)
    assert ends_at(kept) == ends
    assert ends_at(folder / "none.pem") == datetime.fromtimestamp(0, UTC)
    client, root, redis = [certificate(folder / f"{name}.pem", ends) for name in ("client", "root", "redis")]
    settings = Settings.from_environment(
        {
            "DATABASE_URL": f"postgresql://h/d?sslmode=verify-full&sslrootcert={root}&sslcert={client}",
            "REDIS_URL": f"rediss://h:1?ssl_ca_certs={redis}",
        }
    )
    assert watched_certificates(settings) == (client, root, redis)
