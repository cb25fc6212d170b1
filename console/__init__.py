"""The console at `/console/`: pages for support staff and auditors, served by the api process.

It reads the same queries and sends the same commands as everybody; it has no SQL and no rule of its own. Nothing
imports it but the verb that puts the application together (`cli.service.serving`).

**A screen** is a file in `console/screens/`. Each of its pages is a function that takes a `Visit` and gives a response,
under `page`, and each of its forms one under `action`; the file lists them in `SCREENS`, and stands itself in
`console/screens/__init__.py`:

    from console.access.people import EVERYBODY, MENDERS
    from console.presentation.texts import N_
    from console.access.visit import Visit, action, page

    @page("/imports/{supplier}/", roles=EVERYBODY, nav=N_("Imports"))
    async def imports(visit: Visit) -> Response:
        supplier = visit.path("supplier")  # percent-decoded
        rows = await visit.read(imports_page, supplier, Wanted())  # any async query of (connection, …)
        return visit.render("imports.html", rows=rows)

    @action("/imports/{supplier}/{external}/retry/", roles=MENDERS)
    async def retry(visit: Visit) -> Response:
        supplier, external = visit.path("supplier"), visit.path("external")
        command = RetryImport(reason=visit.form.text("reason"))
        await visit.execute(stream_of(supplier, external), command)  # Refused becomes a page that says why
        return visit.redirect(f"/console/imports/{quote(supplier, safe='')}/", notice=visit._("The import is retried."))

    SCREENS = (imports, retry)

What stands before a function: a session (otherwise the way to sign in), the role (otherwise 403), the supplier in
`{supplier}` (a foreign one is 404, as one that does not exist; whatever names no supplier in its path asks
`visit.person.may_touch` or `.reach` itself), and for an action that the form came from a page of ours (`visit.csrf`).
What a function raises is shown as a page: `ApiError`, `NotValid`, `Refused`, and all else that the API answers.

**A template** extends `base.html`, lies in `console/templates/`, and marks its texts: `{{ _("Retry") }}`,
`{% trans n=count %}One import{% pluralize %}{{ n }} imports{% endtrans %}`; in Python it is `visit._("…")`, and
`N_("…")` where the language is not known yet. Each text stands in German in a `.po` file of `console/locale/de/`, one
for each screen; a test names those that are missing. Every form has `{{ csrf }}` in it. There are no `style` and no
`on…` attributes: the policy forbids them. Filters: `moment`, `day`, `ago`, `number`, `percent`, `euros`, `size`,
`duration`, `segment` for a step of an address, and `said` for a `Sentence` of the API. `asset("console.css")` is the
address of a file in `console/assets/` or `console/vendor/`. For a live part give an element `hx-get`,
`hx-trigger="every 2s"` and `hx-swap="outerHTML"`; the same address without script must be a page (`visit.is_partial`
says which is asked for).

**Personal data** is masked by `redaction.masking`. `await is_shown(visit, supplier, external)` of
`console.access.disclosing` says whether the person has asked for an account's; `{% include "show_personal.html" %}` is
the form to ask with.

**What needs the rights of the database's owner** is asked for by `await visit.ask(kind, arguments, reason)`, which
gives the task's id; `projections.views.owner_task` has the queries for how far it is.

**Tests** make a user with a session by `tests.support.console.signed_in`.
"""
