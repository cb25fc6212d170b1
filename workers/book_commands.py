"""Commands of importbook that the steps of a book run, names of files, and sentences for failed steps. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence

from eventstore.errors import Refused
from projections.auxiliary.books import MAX_FILE_BYTES, StepKind
from schemas.sentence import Sentence

MAX_NAME_BYTES = 180
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}\Z")
"""Name of a book's run. It becomes part of names of files, and rehearsals add to it."""
_ANY_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
NOTES = ".importbook/"
"""Folder of importbook's notes on runs. Only steps write there."""
MAPPING, VALUES = "mapping.yaml", "values.csv"
_PRESETS = ("", "sap-is-u", "bo4e", "generic")
_ONLY = re.compile(r"[a-z_]+(,[a-z_]+)*\Z|\Z")
_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "init": frozenset({"files", "preset"}),
    "check": frozenset({"files", "mapping"}),
    "values": frozenset({"files", "mapping"}),
    "manifest": frozenset({"files", "mapping"}),
    "rehearse": frozenset({"files", "mapping"}),
    "push": frozenset({"files", "mapping"}),
    "errors": frozenset({"run"}),
    "fix": frozenset({"run", "only"}),
    "reconcile": frozenset(),
}
"""Arguments of each kind of step."""
_MAPPED_ONLY = ("check", "values")

STEP_ERRORS: Mapping[str, Sentence] = {
    "refused": Sentence("The command failed. Its output has the reason.", "Der Befehl ist fehlgeschlagen. Der Grund "
                        "steht in der Ausgabe."),
    "lost": Sentence("The workers ended several times during this step. Ask the operator of the service.",
                     "Die Worker sind während dieses Schritts mehrmals beendet worden. Fragen Sie den Betreiber."),
    "changed": Sentence("The files have changed since the approval. Start the step again.",
                        "Die Dateien haben sich seit der Genehmigung geändert. Starten Sie den Schritt erneut."),
    "rejected": Sentence("Another person has rejected the step.", "Eine andere Person hat den Schritt abgelehnt."),
    "expired": Sentence("The step has waited or worked for too long. Resume it.",
                        "Der Schritt hat zu lange gewartet oder gedauert. Setzen Sie ihn fort."),
    "no_space": Sentence("The disk of the worker must have more free space. Ask the operator of the service.",
                         "Der Worker braucht mehr freien Speicherplatz. Fragen Sie den Betreiber."),
    "too_large": Sentence("The step must not write files above the limits of a book.",
                          "Der Schritt darf keine Dateien über den Grenzen eines Bestands schreiben."),
    "unreadable": Sentence("A stored file must be uploaded again: it cannot be read.",
                           "Eine gespeicherte Datei ist nicht lesbar. Laden Sie sie erneut hoch."),
    "erased": Sentence("The files were erased.", "Die Dateien wurden gelöscht."),
}  # fmt: skip
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


def refuse_size(size: int) -> None:
    """Raise BookRefused for a file that is too large."""
    if not 0 <= size <= MAX_FILE_BYTES:
        raise BookRefused("A file must have at most 2 GB.", "Eine Datei darf höchstens 2 GB haben.")


def manifest_of(run: str) -> str:
    return f"{run}.manifest.json"


def known_arguments(kind: StepKind, arguments: Mapping[str, str], files: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a step without empty ones. Raises BookRefused for one that this kind does not take.

    `files` are the names of the whole files of the book.
    """
    given = {name: value for name, value in arguments.items() if value}
    missing = BookRefused("The step must name files of the book.", "Der Schritt muss Dateien des Bestands nennen.")
    if kind not in _ARGUMENTS or not given.keys() <= _ARGUMENTS[kind]:
        raise BookRefused("The step must have known arguments.", "Der Schritt muss bekannte Argumente haben.")
    names = given.get("files", "").splitlines()
    if not {*names, *filter(None, [given.get("mapping")])} <= {*files} or any(
        name[0] in ".-" for name in names if name
    ):
        raise missing
    if "files" in _ARGUMENTS[kind] and (not names or "" in names or (kind in _MAPPED_ONLY and len(names) > 1)):
        raise missing
    if kind in _MAPPED_ONLY and "mapping" not in given:
        raise BookRefused("The step must have a mapping.", "Der Schritt braucht ein Mapping.")
    if given.get("preset", "") not in _PRESETS or not _ONLY.match(given.get("only", "")):
        raise BookRefused("The step must have known arguments.", "Der Schritt muss bekannte Argumente haben.")
    if "run" in _ARGUMENTS[kind] and not _ANY_RUN.match(given.get("run", "")):
        raise BookRefused("The step must name a run.", "Der Schritt muss einen Lauf nennen.")
    return given


def words_of(kind: StepKind, supplier: str, run: str, arguments: Mapping[str, str]) -> list[str]:
    """Return the command of a step without `importbook`. A rehearsal has the name of its own run in `run`."""
    files = arguments.get("files", "").splitlines()
    mapped = ["--mapping", arguments["mapping"]] if arguments.get("mapping") else []
    of_supplier = ["--supplier", supplier]
    its_run = arguments.get("run", run)
    counted = [] if any(".failures." in name for name in files) else ["--manifest", manifest_of(run)]
    match kind:
        case "init":
            preset = ["--preset", arguments["preset"]] if arguments.get("preset") else []
            return ["map", "init", *files, *preset]
        case "check":
            return ["map", "check", arguments["mapping"], *files, *of_supplier]
        case "values":
            return ["map", "values", arguments["mapping"], *files, "-o", VALUES]
        case "manifest":
            return ["manifest", *files, "-o", manifest_of(run), *mapped, *of_supplier]
        case "rehearse":
            return ["push", *files, "--mode", "dry_run", "--run", its_run, *mapped, *of_supplier, "--wait"]
        case "push":
            return ["push", *files, "--run", run, *mapped, *of_supplier, *counted, "--wait"]
        case "errors":
            return ["errors", its_run, *of_supplier]
        case "fix":
            return ["fix", its_run, *(["--only", arguments["only"]] if arguments.get("only") else [])]
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
