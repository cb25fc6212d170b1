"""Every screen of the console, in the order of the navigation."""

from console.screens import openid, personal_data, signing_in, start
from console.visit import Screen

_FILES = (
    start,
    personal_data,
    signing_in,
    openid,
)

SCREENS: tuple[Screen, ...] = tuple(screen for file in _FILES for screen in file.SCREENS)
