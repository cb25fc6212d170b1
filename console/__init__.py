"""The console at `/console/`: pages for support staff, auditors and importers, served by the api process.

The console uses the queries and commands of the API, and has no SQL or rules of its own.

**A screen** is a file in `console/screens/`. A function under `page` or `action` takes a `Visit` and returns a
response; `console/screens/__init__.py` lists the file:

    @page("/imports/{supplier}/", roles=EVERYBODY, nav=N_("Imports"))
    async def imports(visit: Visit) -> Response:
        rows = await visit.read(imports_page, visit.path("supplier"), Wanted())  # an async query of (connection, …)
        return visit.render("imports.html", rows=rows)

    @action("/imports/{supplier}/{external}/retry/", roles=DECIDERS)
    async def retry(visit: Visit) -> Response:
        command = RetryImport(reason=visit.form.text("reason"))
        await visit.execute(stream_of(visit.path("supplier"), visit.path("external")), command)
        return visit.redirect(f"{ROOT}/imports/", notice=visit._("The import is retried."))

Before the function runs, `console.access.guard` checks the session (else it leads to the sign-in page), the role (else
403), the supplier in the path (404 for a foreign one), and the form's token. A function without a supplier in its path
must check `visit.person.may_touch` or `.reach` itself. Exceptions that the API answers are shown as pages.

**An action redirects** after a change; the next page shows the `secret` of `Visit.redirect` once. If an action raises
an exception with status 400, the page of its form is shown again with the error and the typed values.

**An upload** is marked with `upload`: its function reads the body itself. A `PUT` needs the form's token in the header
`X-Form-Token`; a form must have the token before its first file (`console.books.uploads`).

**A template** extends `base.html` and marks its texts: `{{ _("Retry") }}` or `{% trans %}`. Python code marks texts
with `visit._("…")`, or with `N_("…")` where the language is not known yet. German texts are in
`console/locale/de/console.po`; a test lists missing texts. Every form contains `{{ csrf }}`. The content policy forbids
`style` and `on…` attributes. A script refreshes elements with `hx-get` and `hx-trigger="every 2s"`; the address in
`hx-get` must also be a page for browsers without script.

**Personal data** is masked by `redaction.masking` until `is_shown` of `console.screens.personal_data` is true for an
account.

**Operations of the database's owner** are requested by `console.access.requests.request_task`.
"""
