"""The verb `sample`, which draws accounts of a run for an auditor, and writes the files to check these accounts."""

import contextlib
import hashlib
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from psycopg import Connection

from cli.addresses import connected
from cli.known import require_run
from cli.language import _, counted
from cli.operator import caused_by, open_ledger
from cli.output import NewFile, ShortText, json_option, print_result, progress_bar
from cli.sample_form import form_of
from cli.sample_table import DIFFERS, EQUAL, NO_SOURCE, NOT_KEPT, NOT_STORED, write_table
from cli.seal import sealed_now
from cli.service.sealing import sealing_key
from cli.service.settings import Settings
from cli.verify import FILE
from eventstore.aggregates import disclosure, import_process
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.proof.checkpoints import LogKey, read_note, read_signed
from eventstore.proof.merkle import range_root
from eventstore.proof.proof import write_proof
from eventstore.proof.sample_verifier import POPULATION, draw, sample_proof
from eventstore.proof.sealing import Sealed, tile_reader
from eventstore.proof.statement import sign_statement
from eventstore.proof.verifier import Checkpoint
from projections.auxiliary.typed_reasons import MAX_REASON, TypedReason, new_reason_id, write_reason
from projections.queries.account_comparison import Comparison, compared_account, shown_text
from projections.queries.history import account_streams
from projections.queries.run_sample import staged_accounts, strata_of
from projections.retention.reverting import wait_for_runs
from redaction.masking import masked_path
from redaction.private_files import open_private
from schemas.sentence import Sentence

MIN_REASON = 3
SAMPLE, TABLE, FORM = "sample.json", "accounts.xlsx", "sample.pdf"


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A sample: its run, its rule, the checkpoint with its note, and the accounts by number, position and stratum."""

    supplier: str
    run: str
    seed: str
    size: int
    stratify: str
    checkpoint: Checkpoint
    note: str
    population: Mapping[str, Sequence[int]]
    accounts: Sequence[tuple[str, int, str]]

    @property
    def number(self) -> int:
        """Number of accounts of the run."""
        return sum(map(len, self.population.values()))


@click.command()
@click.argument("supplier_code", metavar="SUPPLIER")
@click.argument("run")
@click.option("--size", default=60, show_default=True, type=click.IntRange(1, 999), help="Number of accounts.")
@click.option("--seed", default="", type=ShortText(MAX_REASON), help="Text that the auditor chose [default: none]")
@click.option("--stratify", type=click.Choice(["balance", "status"]), help="Strata, each with its share of the sample.")
@click.option("--against", metavar="CHECKPOINT", type=FILE, help="Checkpoint that the auditor has [default: a new one]")
@click.option("--show", is_flag=True, help="Personal data in clear, with payloads. Requires --reason.")
@click.option("--reason", default="", type=ShortText(MAX_REASON), help="Reason of --show, which auditors see.")
@click.option(
    "--language", default="en", show_default=True, type=click.Choice(["en", "de"]), help="Language of table and form."
)
@click.option(
    "-o", "--output", metavar="FOLDER", required=True, type=NewFile(), help="Output folder, which must be new."
)
@json_option
def sample(
    supplier_code: str, run: str, size: int, seed: str, stratify: str | None, against: Path | None, show: bool,
    reason: str, language: str, output: Path, as_json: bool,
) -> None:  # fmt: skip
    """Write a sample of a run for an auditor.

    The seed and a signed checkpoint of the log decide which accounts of RUN are drawn. The output folder has a table
    that compares source and platform field by field, a proof of each account, and a form to sign. `importledger-verify
    FOLDER/sample.json` checks the draw and the proofs, and `importledger verify FOLDER/sample.json` that no account of
    the run is missing.

    Give the auditor a checkpoint first, then ask for the seed, and draw with --against, so that nobody can choose
    accounts.
    """
    if show != (len(reason.strip()) >= MIN_REASON):
        sentence = _("--show must have a --reason, such as the number of the audit, and only --show has one.")
        raise click.UsageError(sentence)
    if not seed.isprintable():
        raise click.BadParameter(_("--seed must be one line of printable characters."))
    settings = Settings.from_environment()
    key = sealing_key(settings)
    with connected() as connection, open_ledger() as ledger:
        require_run(connection, supplier_code, run)
        sealed = sealed_now(connection, key, settings)
        if sealed is None:
            raise click.ClickException(_("The log is empty: there is nothing to prove."))
        newest = (sealed.checkpoint, sealed.note) if against is None else _kept(connection, against, key, sealed)
        drawn = _drawn(connection, newest, supplier_code, run, seed=seed, size=size, stratify=stratify)
        with _new_folder(output) as folder:
            if show:
                _note_disclosures(ledger, drawn, reason.strip())
            (folder / "proofs").mkdir(mode=0o700)
            with progress_bar("accounts", title=_("proofs"), total=len(drawn.accounts)) as progress:
                for number, (external, *_place) in enumerate(drawn.accounts, 1):
                    streams, file = account_streams(connection, supplier_code, external), folder / sample_proof(number)
                    write_proof(connection, file, streams, newest, key.verifier, further_notes={}, payloads=show)
                    progress(number)
            write_table(folder / TABLE, _rows(ledger, drawn, is_masked=not show), language)
            _write(folder / FORM, form_of(list(_lines(drawn)), drawn.accounts, language))
            lines = [f"{p};{name}\n" for p, name in sorted((p, n) for n, ps in drawn.population.items() for p in ps)]
            _write(folder / POPULATION, "".join(lines).encode())
            _write(folder / SAMPLE, msgspec.json.format(msgspec.json.encode(_signed(folder, drawn, key)), indent=1))
    accounts = counted(len(drawn.accounts), "account")
    sentence = _(
        "{output} has {accounts} of the {number:,} of {run}, drawn by a checkpoint of {size:,}.",
        output=output, accounts=accounts, number=drawn.number, run=run, size=newest[0].size,
    )  # fmt: skip
    check = _(
        "Check it anywhere: importledger-verify {file} --key '{key}'",
        file=f"{output.name}/{SAMPLE}", key=key.verifier,
    )  # fmt: skip
    result = {"folder": str(output), "accounts": len(drawn.accounts), "population": drawn.number}
    result |= {"size": newest[0].size, "key": key.verifier}
    print_result(f"{sentence}\n{check}", result, as_json=as_json)


def _kept(connection: Connection[Any], file: Path, key: LogKey, sealed: Sealed) -> tuple[Checkpoint, str]:
    """Return the auditor's checkpoint and its note. Raises ClickException unless the log continues it."""
    note = read_note(file)
    checkpoint = read_signed(note, [key.verifier])
    is_known = 0 < checkpoint.size <= sealed.checkpoint.size
    if not is_known or range_root(tile_reader(connection), 0, checkpoint.size) != checkpoint.root:
        sentence = _("{file} must be a checkpoint that the log continues. Run `importledger verify`.", file=file)
        raise click.ClickException(sentence)
    return checkpoint, note


def _drawn(
    connection: Connection[Any],
    newest: tuple[Checkpoint, str],
    supplier: str,
    run: str,
    *,
    seed: str,
    size: int,
    stratify: str | None,
) -> Drawn:
    """Draw accounts.

    Raises ClickException if the run has no accounts, or if there are more strata than accounts to draw.
    """
    checkpoint, note = newest
    wait_for_runs(connection)  # the checkpoint may cover later events than the lookup of the run
    accounts = staged_accounts(connection, supplier, run, checkpoint.size)
    if not accounts:
        raise click.ClickException(
            _("The run {run} must have an account that the checkpoint covers. It has none.", run=run)
        )
    strata = strata_of(connection, supplier, run, checkpoint.size, stratify)
    population: dict[str, list[int]] = {}
    for position, external in accounts.items():
        population.setdefault(strata.get(external, "-") if stratify else "", []).append(position)
    if len(population) > size:
        raise click.UsageError(
            _("--size must be at least {number}: each stratum gets an account.", number=len(population))
        )
    drawn = draw(checkpoint.root, seed, population, size)
    return Drawn(
        supplier=supplier,
        run=run,
        seed=seed,
        size=size,
        stratify=stratify or "",
        checkpoint=checkpoint,
        note=note,
        population=population,
        accounts=[(accounts[position], position, stratum) for position, stratum in drawn],
    )


@contextlib.contextmanager
def _new_folder(output: Path) -> Iterator[Path]:
    """Yield a private folder beside the output, and rename it to the output at the end of the block.

    If the block fails, the folder is removed. If the process is killed, a folder whose name begins with a dot remains.
    """
    folder = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    folder.mkdir(mode=0o700)
    try:
        yield folder
        folder.rename(output)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _note_disclosures(ledger: Ledger, drawn: Drawn, content: str) -> None:
    """Record for each account that its personal data is shown, and the reason."""
    for external, *_place in drawn.accounts:
        at, subject = now(), import_process.stream_of(drawn.supplier, external)
        reason = TypedReason(reason=new_reason_id(), user_id=caused_by(), subject=subject, at=at, content=content)
        command = disclosure.ShowPersonalData(user=caused_by(), what=("account",), reason=reason.reason)
        stream, write = disclosure.stream_of(drawn.supplier, external), partial(_write_reason, reason)
        ledger.execute(stream, command, at=at, by=caused_by(), write_rows=write)


def _write_reason(reason: TypedReason, connection: Connection[Any], events: object) -> None:
    write_reason(connection, reason)


def _rows(ledger: Ledger, drawn: Drawn, *, is_masked: bool) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for number, (external, position, _stratum) in enumerate(drawn.accounts, 1):
        comparison = compared_account(ledger, drawn.supplier, external, position)
        account = (str(number), external, comparison.account_number or "", comparison.status)
        if comparison.body is None:
            yield (*account, "", "", "", "", NO_SOURCE)
        yield from ((*account, *texts) for texts in _values(comparison, is_masked=is_masked))


def _values(comparison: Comparison, *, is_masked: bool) -> Iterator[tuple[str, ...]]:
    for value in comparison.values:
        texts = (shown_text(value.path, text, is_masked=is_masked) for text in (value.source, value.platform))
        result = EQUAL if value.source == value.platform else DIFFERS if value.is_documented else NOT_KEPT
        if comparison.body is None or comparison.account_number is None:
            result = NO_SOURCE if comparison.body is None else NOT_STORED
        path = ".".join(masked_path(value.path.split("."))) if is_masked else value.path
        yield path, str(value.row), *texts, result


def _lines(drawn: Drawn) -> Iterator[Sentence]:
    """Yield the lines at the top of the form."""
    numbers = {"number": len(drawn.accounts), "all": drawn.number, "run": drawn.run, "supplier": drawn.supplier}
    yield Sentence(
        "{number} of {all} accounts in run {run} of supplier {supplier}",
        "{number} von {all} Konten im Lauf {run} der Quelle {supplier}",
        **numbers,
    )
    checkpoint = drawn.checkpoint
    yield Sentence(
        "Checkpoint: {size} events, {time}", "Siegel: {size} Ereignisse, {time}",
        size=checkpoint.size, time=checkpoint.time,
    )  # fmt: skip
    yield Sentence("Root: {root}", "Wurzel: {root}", root=checkpoint.root.hex())
    yield Sentence("Seed: {seed}", "Startwert: {seed}", seed=drawn.seed or "-")
    yield Sentence(
        "Before you sign: importledger-verify sample.json --key VKEY, with the operator's key",
        "Vor der Unterzeichnung: importledger-verify sample.json --key VKEY, mit dem Schlüssel des Betreibers",
    )


def _write(file: Path, content: bytes) -> None:
    with open_private(file) as output:
        output.write(content)


def _signed(folder: Path, drawn: Drawn, key: LogKey) -> dict[str, Any]:
    """Return the content of sample.json, with the digests of the other files."""
    names = ("external_account_number", "position", "stratum")
    body = {name: getattr(drawn, name) for name in ("run", "seed", "size", "stratify")}
    body |= {"import_supplier": drawn.supplier, "population": drawn.number}
    body |= {"accounts": [dict(zip(names, account, strict=True)) for account in drawn.accounts]}
    body |= {
        "files": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (POPULATION, TABLE, FORM)}
    }
    return sign_statement(body, key, drawn.note, at=now())
