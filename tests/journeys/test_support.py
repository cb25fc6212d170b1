"""A view that looks wrong is found and made anew while accounts arrive; readers and writers notice nothing."""

import threading

import psycopg

from tests.conftest import temporary_folder
from tests.journeys.test_faults import admin_url, assert_whole
from tests.make import an_account, encoded
from tests.running import RunningService, processed, start_service, wait_for


def test_a_wrong_view_is_found_and_made_anew_under_load() -> None:
    with temporary_folder() as folder, start_service(folder) as service:
        importer = service.importer()
        acknowledged: list[str] = []
        stop = threading.Event()

        def create() -> None:
            for number in range(1, 100_000):
                if stop.is_set():
                    return
                account = an_account(importer.supplier, number)
                assert importer.client.create(encoded(account)).status == 201
                acknowledged.append(account["external_account_number"])

        loading = threading.Thread(target=create)
        loading.start()
        try:
            wait_for(lambda: processed(importer) > 50, "some accounts exist")
            assert "is what the log says" in service.cli("projections", "verify", "--all").stdout
            spoil(service)
            wrong = service.cli("projections", "verify", "--all", check=False)
            assert wrong.returncode == 1
            for table in ("public.import_status", "platform.customer", "public.import_supplier"):
                assert f"{table} differs" in wrong.stdout
            assert "Everything is made anew" in service.cli("projections", "rebuild", "--all").stdout
            assert "is what the log says" in service.cli("projections", "verify", "--all").stdout
            listed = service.cli("projections", "--json").stdout
            assert '"name": "public.import_status"' in listed
        finally:
            stop.set()
            loading.join()
        assert_whole(service, importer, acknowledged)
        assert importer.client.status(importer.supplier, acknowledged[0]).body["status"] == "PROCESSED"


def spoil(service: RunningService) -> None:
    with psycopg.connect(admin_url(service)) as connection:
        connection.execute(
            "UPDATE import_status SET account_number = 'A-WRONG' WHERE external_account_number IN"
            " (SELECT external_account_number FROM import_status WHERE status = 'PROCESSED' LIMIT 3)"
        )
        connection.execute("UPDATE import_supplier SET reason = 'wrong'")
        connection.execute(
            "DELETE FROM platform.customer WHERE account_number IN (SELECT min(account_number) FROM platform.customer)"
        )
