"""What account numbers are drawn from: a key and a sequence, which no event says, so that backups take them along."""

from eventstore.operations.backup import Drawn

ACCOUNT_NUMBERS = Drawn(("platform", "account_number_key"), "key", ("platform", "account_sequence"))
