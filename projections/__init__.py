"""The views: everything that can be thrown away and derived from the log again. One file each."""

from eventstore.recorder import View
from projections.access_key import ACCESS_KEY
from projections.account_record import ACCOUNT_RECORD
from projections.customer_mail import CUSTOMER_MAIL
from projections.import_status import IMPORT_STATUS
from projections.import_supplier import IMPORT_SUPPLIER

INLINE: tuple[View, ...] = (IMPORT_STATUS, IMPORT_SUPPLIER, ACCESS_KEY, ACCOUNT_RECORD, CUSTOMER_MAIL)
"""Written in the append's own transaction: whoever posts and then reads sees the write."""
