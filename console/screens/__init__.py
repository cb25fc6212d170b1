"""Every screen of the console, in the order of the navigation."""

from console.access.visit import Screen
from console.screens import (
    books,
    errors,
    import_page,
    imports,
    openid,
    overview,
    personal_data,
    projections,
    proof,
    proposals,
    reverts,
    runs,
    saved_filters,
    signing_in,
    suppliers,
    system,
    tasks,
)

_FILES = (
    *(overview, imports, runs, books, errors, projections, proof, import_page, personal_data, suppliers, system),
    *(reverts, proposals, tasks, saved_filters, signing_in, openid),
)
SCREENS = tuple(screen for file in _FILES for screen in vars(file).values() if isinstance(screen, Screen))
