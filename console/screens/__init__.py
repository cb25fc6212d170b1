"""Every screen of the console, in the order of the navigation."""

from console.access.visit import Screen
from console.screens import (
    errors,
    import_page,
    imports,
    openid,
    overview,
    personal_data,
    projections,
    proof,
    signing_in,
    suppliers,
    system,
    tasks,
)

SCREENS: tuple[Screen, ...] = (
    *(*overview.SCREENS, *imports.SCREENS, *errors.SCREENS, *projections.SCREENS, *proof.SCREENS),
    *(*import_page.SCREENS, *personal_data.SCREENS, *suppliers.SCREENS, *system.SCREENS, *tasks.SCREENS),
    *(*signing_in.SCREENS, *openid.SCREENS),
)
