"""Settings of the guide at /docs/guide/, which Sphinx, MyST and Furo build from README.md and docs/."""

project = "The import ledger"
html_title = project
extensions = ["myst_parser"]
exclude_patterns = ["openapi.json", "guide"]
myst_heading_anchors = 4
html_theme = "furo"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_permalinks_icon = "#"
pygments_style = "friendly"
pygments_dark_style = "monokai"
