"""Projections: tables that can be deleted and derived from the log again."""

from eventstore.aggregates.import_process import ImportProcessed, ImportReverted, SubjectErased
from eventstore.aggregates.participant import ContactsErased, ParticipantImported
from eventstore.aggregates.post_account import DELIVERY_NOTE
from eventstore.aggregates.price_sheet import PriceSheetImported
from eventstore.log.recorder import InlineView
from projections.platform.projection import Platform
from projections.platform.tables import MARKET_TABLES, TABLES
from projections.versions.following import Following
from projections.versions.projection import Projection
from projections.versions.view import View
from projections.views.access_key import ACCESS_KEY
from projections.views.account_record import ACCOUNT_RECORD
from projections.views.account_release import ACCOUNT_RELEASE
from projections.views.account_search import ACCOUNT_SEARCH
from projections.views.console_user import CONSOLE_USER
from projections.views.customer_mail import CUSTOMER_MAIL
from projections.views.disclosure import DISCLOSURE_VIEW
from projections.views.error_statistics import ERROR_STATISTICS
from projections.views.import_failure import IMPORT_FAILURE
from projections.views.import_progress import IMPORT_PROGRESS
from projections.views.import_run import IMPORT_RUN
from projections.views.import_status import IMPORT_STATUS
from projections.views.import_supplier import IMPORT_SUPPLIER
from projections.views.owner_task import OWNER_TASK_VIEW
from projections.views.search_at_once import SEARCH_AT_ONCE
from projections.views.throughput import THROUGHPUT

INLINE: tuple[View, ...] = (
    IMPORT_STATUS,
    IMPORT_SUPPLIER,
    ACCESS_KEY,
    ACCOUNT_RECORD,
    ACCOUNT_RELEASE,
    CUSTOMER_MAIL,
    CONSOLE_USER,
    OWNER_TASK_VIEW,
    DISCLOSURE_VIEW,
)
"""Views that are written in the append's transaction: a client that posts and then reads sees its write."""

AT_ONCE: tuple[InlineView, ...] = (*INLINE, SEARCH_AT_ONCE)
"""Views that api processes write with the append: `INLINE` and search rows, since these processes have the account in
memory.
"""

FOLLOWING: tuple[Following, ...] = (
    IMPORT_PROGRESS,
    ERROR_STATISTICS,
    ACCOUNT_SEARCH,
    IMPORT_RUN,
    THROUGHPUT,
    IMPORT_FAILURE,
)
"""Projections that the projector updates from the log, each from its own position."""

PLATFORM = Platform(
    "platform", TABLES, frozenset({ImportProcessed, ImportReverted, SubjectErased, *DELIVERY_NOTE.topics.values()})
)
"""Accounts and their records. Workers write an account when they complete its import, the api writes a record."""

MARKET = Platform("market", MARKET_TABLES, frozenset({ParticipantImported, ContactsErased, PriceSheetImported}))
"""Market participants and price sheets. The api writes them in the transaction that imports them."""

PROJECTIONS: tuple[Projection, ...] = (*INLINE, PLATFORM, MARKET, *FOLLOWING)
