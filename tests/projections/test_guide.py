"""The example of the developer guide works as printed."""

import re
import types
from datetime import date
from pathlib import Path

import psycopg

from embedded.postgres import PostgresUrls
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import PROJECTIONS
from projections.versions.compare import heal, verify
from projections.versions.following import Following
from projections.versions.install import install
from projections.versions.versions import build_version, live_version, switch, version_lock
from schemas.base import MARKET_TIME
from tests.support.databases import Admin
from tests.support.make import an_account
from tests.support.staging import SUPPLIER, stage
from workers.followers.projector import Projector

GUIDE = Path(__file__).parents[2] / "docs" / "first-hour" / "developer.md"


def projection_of_the_guide() -> Following:
    [source] = re.findall(r"```python\n(# projections/views/daily_intake\.py\n.*?)```", GUIDE.read_text(), re.DOTALL)
    module = types.ModuleType("daily_intake")
    exec(source, module.__dict__)
    made = module.DAILY_INTAKE
    assert isinstance(made, Following)
    return made


def test_the_projection_of_the_guide_is_followed_verified_rebuilt_and_healed(
    ledger: Ledger, database: PostgresUrls, admin: Admin
) -> None:
    intake = projection_of_the_guide()
    stream = stage(ledger, an_account(SUPPLIER, 1))
    install(admin, [*PROJECTIONS, intake], psycopg.conninfo.conninfo_to_dict(database.service)["user"])  # type: ignore[arg-type]
    stage(ledger, an_account(SUPPLIER, 2))
    with ledger.connection() as connection:
        Projector(ledger, [intake]).advance(connection, intake)
    today: date = now().astimezone(MARKET_TIME).date()
    rows = admin.execute("SELECT supplier, day, number FROM daily_intake WHERE measure = 'accounts'").fetchall()
    assert rows == [(SUPPLIER, today, 2)]
    assert verify(database.admin, admin, intake, limit=1).first == ()
    admin.execute("UPDATE daily_intake SET number = 7")
    assert verify(database.admin, admin, intake, limit=1).changed == 2
    with version_lock(admin, intake):
        switch(admin, intake, build_version(database.admin, admin, intake).version)
    assert verify(database.admin, admin, intake, limit=1).first == ()
    assert live_version(admin, "daily_intake").version == 2
    assert heal(admin, intake, [stream]).says == "unchanged: it sums all accounts, and no event was missing"
