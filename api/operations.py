"""Every endpoint of the service, in the order in which routes are tried: what is asked most often comes first."""

from api.endpoints import (
    account_import,
    bulk_import,
    documentation,
    graphql,
    health,
    history_queries,
    import_verbs,
    post_account_import,
    pre_account_import,
    problem_queries,
    reconciling,
    runs,
    status_queries,
    support_queries,
)
from api.operation import Operation

_FILES = (
    account_import,
    bulk_import,
    graphql,
    history_queries,
    problem_queries,
    import_verbs,
    pre_account_import,
    post_account_import,
    runs,
    reconciling,
    status_queries,
    support_queries,
    health,
    documentation,
)

OPERATIONS: tuple[Operation, ...] = tuple(operation for file in _FILES for operation in file.OPERATIONS)

ENDPOINTS = tuple(dict.fromkeys(getattr(file, operation.endpoint) for file in _FILES for operation in file.OPERATIONS))
"""The classes whose methods answer, each made once with the services."""
