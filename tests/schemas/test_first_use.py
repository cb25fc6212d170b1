"""Several threads may be the first to read a shape: compiling a type in two threads at once ends the process."""

import subprocess
import sys

FIRST = """
import sys, threading
from projections.views.import_supplier import KnownSupplier
from projections.platform.rows import undated_rows_of
from schemas.submission import ACCOUNT, SENT_ACCOUNT, SENT_WRAPPED_ACCOUNT, WRAPPED_ACCOUNT, stored_account
from tests.support.make import an_account, encoded

account = an_account("NORDWIND")
works = [
    lambda: KnownSupplier(code="NORDWIND").terms,
    lambda: SENT_ACCOUNT.shape.examine(encoded(account)),
    lambda: ACCOUNT.examine(encoded(account)),
    lambda: SENT_WRAPPED_ACCOUNT.shape.examine(encoded({"payload": account})),
    lambda: WRAPPED_ACCOUNT.examine(encoded({"payload": account})),
    lambda: undated_rows_of(stored_account(encoded(account)), "A-1"),
]
sys.setswitchinterval(1e-6)
for work in works:
    barrier = threading.Barrier(6)
    threads = [threading.Thread(target=lambda: (barrier.wait(), work())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_several_threads_may_be_the_first_to_read() -> None:
    for _ in range(2):
        subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=60)
