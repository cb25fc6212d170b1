"""Commands of importbook that the steps of a book run, names of files, and reasons of failed steps. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence

from console.presentation.texts import N_
from eventstore.errors import Refused
from projections.auxiliary.books import MAX_FILE_BYTES, StepKind

MAX_NAME_BYTES = 180
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}\Z")
"""Name of a book's run. It becomes part of names of files, and rehearsals add to it."""
NOTES = ".importbook/"
"""Folder of importbook's notes on runs. Only steps write there."""
MAPPING, VALUES = "mapping.yaml", "values.csv"
"""Names of a book's mapping and of its list of values."""
PRESETS = ("generic", "sap-is-u", "bo4e")
_TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".json")
_ACCOUNTS = (*_TABLES, ".ndjson", ".jsonl", ".ndjson.gz", ".ndjson.zst", ".jsonl.gz", ".jsonl.zst")
_OF_STEPS = re.compile(r"\.(manifest\.json|failures\.(ndjson|csv)|certificate\.(json|pdf)|differences\.ndjson)\Z")
_WORKBOOK = ".failures.xlsx"
_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "init": frozenset({"files", "preset", "language"}),
    "check": frozenset({"files", "language"}),
    "values": frozenset({"files", "language"}),
    "rehearse": frozenset({"files", "language"}),
    "push": frozenset({"files", "language"}),
    "errors": frozenset({"run", "language"}),
    "reconcile": frozenset({"language"}),
}
"""Arguments of each kind of step. Files are separated by line feeds; the first one has the accounts."""
ONLINE = ("rehearse", "errors", "push", "reconcile")
"""Steps that call the api."""
_MAPPED_ONLY = ("check", "values")

STEP_ERRORS: Mapping[str, str] = {
    "refused": N_("The command has failed. Its output has the reason."),
    "killed": N_("The command needed more memory than a step has. Save large sheets as CSV, or divide the book."),
    "lost": N_("The service was stopped several times during this step. Ask the operator of the service."),
    "changed": N_("The files have changed since the approval. Start the step again."),
    "not_approved": N_("A second person with the right to this step must approve it. Start the step again."),
    "rejected": N_("Another person has rejected the step."),
    "withdrawn": N_("The step was withdrawn."),
    "expired": N_("The step has waited or worked for too long. Resume the step."),
    "no_space": N_("The disk of the service must have more free space. Ask the operator of the service."),
    "too_large": N_("The step must not write files above the limits of a book."),
    "unreadable": N_("A stored file cannot be read. Upload the file again."),
    "forged": N_("The step was not started by a user of this service. Start the step again."),
    "erased": N_("The files were erased."),
}
"""Reasons of failed steps."""


class BookRefused(Refused):
    """The book, file or step does not allow this. The message is the reason, in both languages."""

    code = "book_refused"


def refuse_name(name: str) -> None:
    """Raise BookRefused unless a user may give a file this name: it stays in its folder and is no option."""
    if not name or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise BookRefused(
            f"The name of a file must have 1 to {MAX_NAME_BYTES} bytes.",
            f"Der Name einer Datei muss 1 bis {MAX_NAME_BYTES} Bytes haben.",
        )
    if not name.isprintable() or name != name.strip() or name[0] in ".-" or set(name) & set('/\\:*?[]"<>|'):
        raise BookRefused(
            "The name of a file must not begin with a full stop, hyphen or blank, and must not have control characters "
            'or one of / \\ : * ? [ ] " < > |',
            "Der Name einer Datei darf nicht mit Punkt, Bindestrich oder Leerzeichen beginnen und keine Steuerzeichen "
            'und keines von / \\ : * ? [ ] " < > | enthalten.',
        )
    if _OF_STEPS.search(name):
        raise BookRefused(
            "A file must not have the name of a file that steps write, such as a manifest or certificate.",
            "Eine Datei darf nicht heißen wie eine, die Schritte schreiben, etwa ein Manifest oder Zertifikat.",
        )


def refuse_size(size: int) -> None:
    """Raise BookRefused for a file that is too large."""
    if not 0 <= size <= MAX_FILE_BYTES:
        raise BookRefused("A file must have at most 2 GB.", "Eine Datei darf höchstens 2 GB haben.")


def is_table(name: str) -> bool:
    """Return True for a file whose accounts need a mapping."""
    return name.lower().endswith(_TABLES)


def has_accounts(name: str) -> bool:
    """Return True for a file that can be the first file of a command: a table or NDJSON, and not of a step."""
    is_other = name in (MAPPING, VALUES) or name.endswith(_WORKBOOK) or _OF_STEPS.search(name)
    return name.lower().endswith(_ACCOUNTS) and not is_other


def is_workbook(name: str) -> bool:
    """Return True for a workbook of failures, whose corrected accounts replace those of the book."""
    return name.endswith(_WORKBOOK)


def manifest_of(run: str) -> str:
    return f"{run}.manifest.json"


def certificate_of(run: str) -> str:
    return f"{run}.certificate.pdf"


def known_arguments(kind: StepKind, arguments: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a step without empty ones. Raises BookRefused for one that this kind does not take.

    `files` are the names of the whole files of the book.
    """
    given = {name: value for name, value in arguments.items() if value}
    names = given.get("files", "").splitlines()
    unknown = BookRefused("The step must have known arguments.", "Der Schritt muss bekannte Angaben haben.")
    if kind not in _ARGUMENTS or not given.keys() <= _ARGUMENTS[kind]:
        raise unknown
    if given.get("preset", PRESETS[0]) not in PRESETS or given.get("language", "en") not in ("de", "en"):
        raise unknown
    if not {*names} <= {*files} or ("files" in _ARGUMENTS[kind] and not names):
        raise BookRefused("The step must name files of the book.", "Der Schritt muss Dateien des Bestands nennen.")
    if kind != "init" and names and not has_accounts(names[0]):
        raise BookRefused(
            "The first file of the step must have accounts: a table or NDJSON.",
            "Die erste Datei des Schritts muss Konten enthalten: eine Tabelle oder NDJSON.",
        )
    if kind in _MAPPED_ONLY and len(names) > 1:
        raise unknown
    if names and kind != "init" and (is_table(names[0]) or kind in _MAPPED_ONLY) and MAPPING not in files:
        raise BookRefused(
            f"The book must have a mapping, the file {MAPPING}.",
            f"Der Bestand braucht eine Zuordnung, die Datei {MAPPING}.",
        )
    if kind == "init" and MAPPING in files:
        raise BookRefused(
            f"The book has a mapping already. Delete {MAPPING} to have another one proposed.",
            f"Der Bestand hat schon eine Zuordnung. Löschen Sie {MAPPING}, um eine andere vorschlagen zu lassen.",
        )
    if kind == "errors" and not RUN_NAME.match(given.get("run", "").removesuffix("-rehearsal")):
        raise BookRefused("The step must name a run.", "Der Schritt muss einen Lauf nennen.")
    return given


def rehearsal_of(run: str) -> str:
    """Return the name of a book's rehearsal."""
    return f"{run}-rehearsal"


def words_of(kind: StepKind, supplier: str, run: str, arguments: Mapping[str, str]) -> list[str]:
    """Return the command of a step without `importbook`."""
    files = arguments.get("files", "").splitlines()
    mapped = ["--mapping", MAPPING] if files and is_table(files[0]) else []
    of_supplier = ["--supplier", supplier]
    match kind:
        case "init":
            preset = arguments.get("preset", PRESETS[0])
            return ["map", "init", *files, *(["--preset", preset] if preset != PRESETS[0] else [])]
        case "check":
            return ["map", "check", MAPPING, *files, *of_supplier]
        case "values":
            return ["map", "values", MAPPING, *files, "-o", VALUES]
        case "rehearse":
            return ["push", *files, *mapped, *of_supplier, "--mode", "dry_run", "--run", rehearsal_of(run), "--wait"]
        case "push":
            counted = ["--manifest", manifest_of(run)]
            return ["push", *files, *mapped, *of_supplier, "--run", run, *counted, "--wait"]
        case "errors":
            return ["errors", arguments["run"], *of_supplier, "--excel"]
        case "reconcile":
            return ["reconcile", run, "--manifest", manifest_of(run), *of_supplier]


def command_of(kind: StepKind, supplier: str, run: str, arguments: Mapping[str, str]) -> str:
    """Return the command of a step as people type it."""
    command = shlex.join(["importbook", *words_of(kind, supplier, run, arguments)])
    return f"{command} > {MAPPING}" if kind == "init" else command


def percent_in(line: str) -> int | None:
    """Return the progress in a line of importbook, from 0 to 100; None if it has none."""
    found = re.search(r"(?<![\w.,])(\d{1,3}) %", line)
    return min(int(found.group(1)), 100) if found else None
