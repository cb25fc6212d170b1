"""Every endpoint of the service. Routes are tried in this order: the most frequent requests come first."""

from api.endpoints.account_import import AccountImport
from api.endpoints.bulk_import import BulkImport
from api.endpoints.documentation import Documentation
from api.endpoints.graphql import GraphQL
from api.endpoints.health import HealthChecks
from api.endpoints.history_queries import HistoryQueries
from api.endpoints.import_verbs import ImportVerbs
from api.endpoints.post_account_import import PostAccountImport
from api.endpoints.pre_account_import import PreAccountImport
from api.endpoints.problem_queries import ProblemQueries
from api.endpoints.pulling import Pulling
from api.endpoints.reconciling import Reconciling
from api.endpoints.runs import Runs
from api.endpoints.support_queries import SupportQueries
from api.operation import Operation, operations_of

ENDPOINTS = (
    AccountImport,
    BulkImport,
    GraphQL,
    HistoryQueries,
    ProblemQueries,
    ImportVerbs,
    PreAccountImport,
    PostAccountImport,
    Runs,
    Reconciling,
    Pulling,
    SupportQueries,
    HealthChecks,
    Documentation,
)
"""The classes whose methods answer, each made once with the services."""

OPERATIONS: tuple[Operation, ...] = tuple(made for endpoint in ENDPOINTS for made in operations_of(endpoint))
