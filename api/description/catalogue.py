"""Every error code: what it means, where it is met, an example; in English and in German.

`GET /errors/`, openapi.json and docs/errors.md say it.

Codes are permanent: clients switch on them. A code of the market's rules comes with the rules that use it.
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from api.http.status_codes import CODES, FAILING, INTAKE_STOPPED, STOPPED, sentence_of
from api.intake.run_names import TOO_MANY, TOO_MANY_DETAIL
from eventstore.errors import AlreadyImported
from market import RULES
from market.participant import PARTICIPANT, PRICE_SHEETS
from market.post_account import DELIVERY_NOTE, ENERGY_AMOUNT, INVOICE
from market.rule import Rule
from schemas.sentence import Sentence

Where = Literal["answer", "field", "latest_error", "history", "graphql"]
"""`answer`: the code of a whole answer. `field`: an item of `errors`. `latest_error`: of an import's status.

`history`: in events only, as code@place or as the code of an event. `graphql`: `errors[].extensions.errorCode`.
"""


class RuleOfCode(msgspec.Struct, frozen=True):
    """A rule of the market: at which place, its sentence, its source, whether it refuses or warns."""

    resource: str
    """What the rule is about (Ressource)."""
    at: str
    """The place that it looks at (Feldpfad)."""
    says: str
    """The rule, in English (Regel)."""
    severity: str
    """error or warning (Schwere)."""
    source: str
    """Where the rule is from (Quelle)."""
    says_de: str = ""
    """The same in German."""


class ErrorCode(msgspec.Struct, frozen=True):
    """One code. `status` is the HTTP status of answers that carry it; None where it is met in a 200 only."""

    code: str
    """Permanent code; /errors/ lists all (Fehlercode)."""
    where: tuple[Where, ...]
    """Where the code is met (Vorkommen)."""
    status: int | None
    """HTTP status of answers that carry it; null where it is met in a 200 only (HTTP-Status)."""
    meaning: str
    """What it means, in English (Bedeutung)."""
    example: dict[str, Any]
    """How it looks (Beispiel)."""
    meaning_de: str = ""
    """The same in German."""
    rules: tuple[RuleOfCode, ...] = ()
    """Rules of the market that use it (Regeln)."""

    @property
    def sentence(self) -> Sentence:
        return Sentence(self.meaning, self.meaning_de)


def _answer(status: int, code: str, english: str, german: str, *, also: tuple[Where, ...] = ()) -> ErrorCode:
    example = {"detail": Sentence(english, german), "code": code}
    return ErrorCode(code, ("answer", *also), status, english, example, german)


def _shown(status: int, code: str, english: str, german: str, example: dict[str, Any]) -> ErrorCode:
    return ErrorCode(code, ("answer",), status, english, example, german)


def _field(code: str, attr: str, english: str, german: str, *, also: tuple[Where, ...] = ()) -> ErrorCode:
    example = {"detail": Sentence(english, german), "code": code, "attr": attr}
    return ErrorCode(code, ("field", *also), 400, english, example, german)


def _latest(code: str, english: str, german: str) -> ErrorCode:
    example = {"code": code, "detail": Sentence(english, german), "domain": "account_import"}
    return ErrorCode(code, ("latest_error",), None, english, example, german)


def _history(code: str, english: str, german: str) -> ErrorCode:
    return ErrorCode(code, ("history",), None, english, {"code": code}, german)


def _graphql(code: str, english: str, german: str) -> ErrorCode:
    example = {"extensions": {"errorType": "VALIDATION", "errorCode": code, "errorDescription": english}}
    return ErrorCode(code, ("graphql",), 200, english, example, german)


_UNEXPECTED = Sentence("An unexpected error occurred.", "Ein unerwarteter Fehler ist aufgetreten.")
_ANSWERS = (
    _answer(
        400,
        "parse_error",
        "The body is no JSON document that can be read; the sentence says where.",
        "Der Inhalt ist kein lesbares JSON-Dokument; der Satz sagt, wo.",
    ),
    _answer(
        400,
        "account_failed_validation",
        "The account could not be validated; `errors` names every problem.",
        "Das Konto konnte nicht validiert werden; `errors` nennt jedes Problem.",
        also=("latest_error",),
    ),
    _answer(
        400,
        "validation_error",
        "The data could not be validated; `errors` names every problem.",
        "Die Daten konnten nicht validiert werden; `errors` nennt jedes Problem.",
    ),
    _shown(
        400,
        "account_import_process_already_imported",
        "The account exists already; `account_id` is its number.",
        "Das Konto gibt es bereits; `account_id` ist seine Nummer.",
        {
            "non_field_errors": {
                "detail": sentence_of(AlreadyImported("")),
                "code": "account_import_process_already_imported",
            },
            "account_id": "A-7K2M9QXD",
        },
    ),
    _answer(
        400,
        "account_import_process_in_progress",
        "The import is being processed; other content is refused.",
        "Der Import wird gerade verarbeitet; anderer Inhalt wird abgelehnt.",
    ),
    _answer(
        400,
        "import_supplier_migration_not_ongoing",
        "The import supplier is paused or complete; it takes no accounts now.",
        "Der Lieferant pausiert oder ist abgeschlossen; er nimmt jetzt keine Konten an.",
        also=("field",),
    ),
    _answer(
        400,
        "account_erased",
        "The data of this account was erased; nothing is taken in again.",
        "Die Daten dieses Kontos wurden gelöscht; nichts wird wieder aufgenommen.",
        also=("field",),
    ),
    _answer(
        400,
        "import_cannot_be_cancelled",
        "Only a pending import can be cancelled.",
        "Nur ein wartender Import kann abgebrochen werden.",
    ),
    _answer(
        400,
        "import_cannot_be_retried",
        "Only an errored import can be retried.",
        "Nur ein fehlgeschlagener Import kann wiederholt werden.",
    ),
    _answer(
        400,
        "invalid_idempotency_key",
        "An Idempotency-Key must have 1 to 255 printable ASCII characters.",
        "Ein Idempotency-Key muss 1 bis 255 druckbare ASCII-Zeichen haben.",
    ),
    _answer(
        400,
        "illegal_transition",
        "What was asked is not allowed in the present state.",
        "Was verlangt wurde, ist im jetzigen Zustand nicht erlaubt.",
    ),
    _answer(
        400,
        "client_disconnected",
        "The client went away before the body had arrived.",
        "Der Client beendete die Verbindung, bevor der Inhalt angekommen war.",
    ),
    _answer(401, CODES[401], "There is no Authorization header.", "Der Header Authorization fehlt."),
    _answer(
        401,
        "authentication_failed",
        "The token or key is wrong, expired or revoked.",
        "Das Token oder der Schlüssel ist falsch, abgelaufen oder widerrufen.",
    ),
    _answer(403, CODES[403], "The key's role does not allow this.", "Die Rolle des Schlüssels erlaubt das nicht."),
    _answer(
        404,
        CODES[404],
        "There is no such thing, or it is somebody else's.",
        "So etwas gibt es nicht, oder es gehört jemand anderem.",
    ),
    _answer(
        405,
        CODES[405],
        "The path is there, the method is not; Allow names those that are.",
        "Den Pfad gibt es, die Methode nicht; Allow nennt die vorhandenen.",
    ),
    _answer(408, CODES[408], "The body did not arrive in time.", "Der Inhalt kam nicht rechtzeitig an."),
    _answer(
        409,
        CODES[409],
        "A request with this Idempotency-Key is being processed; ask again.",
        "Eine Anfrage mit diesem Idempotency-Key wird gerade verarbeitet; bitte erneut anfragen.",
    ),
    _answer(
        409,
        "not_balanced",
        "The totals of the source must equal those of the platform's tables.",
        "Die Summen der Quelle müssen mit denen der Plattformtabellen übereinstimmen.",
        also=("field",),
    ),
    _answer(
        413,
        CODES[413],
        "The body is larger, holds more, or takes longer to judge than the limits allow.",
        "Der Inhalt ist größer, umfasst mehr oder braucht länger zur Prüfung, als die Grenzen erlauben.",
    ),
    _answer(414, CODES[414], "The request line is longer than the limit.", "Die Anfragezeile ist länger als erlaubt."),
    _answer(
        415,
        CODES[415],
        "The body is expected as application/json, and without a Content-Encoding.",
        "Der Inhalt wird als application/json und ohne Content-Encoding erwartet.",
    ),
    _answer(
        422,
        CODES[422],
        "This Idempotency-Key was used for a request with another body.",
        "Dieser Idempotency-Key wurde für eine Anfrage mit anderem Inhalt verwendet.",
    ),
    _answer(
        429,
        CODES[429],
        "The key makes too many requests a second; Retry-After says when to come again.",
        "Der Schlüssel stellt zu viele Anfragen je Sekunde; Retry-After sagt, wann es weitergeht.",
    ),
    _answer(
        429,
        TOO_MANY,
        TOO_MANY_DETAIL,
        TOO_MANY_DETAIL.german,
        also=("field",),
    ),
    _answer(
        431,
        CODES[431],
        "The header is larger or has more fields than the limits allow.",
        "Der Header ist größer oder hat mehr Felder, als die Grenzen erlauben.",
    ),
    _shown(
        500,
        "error",
        "Something unexpected happened; the service's log has the request id.",
        "Etwas Unerwartetes ist geschehen; die request_id steht im Log des Dienstes.",
        {"detail": _UNEXPECTED, "code": "error", "request_id": "9f8b7c6d5e4f3a2b"},
    ),
    _shown(
        500,
        "stream_unreadable",
        "An event of this account cannot be read; the others go on. The service's log has the request id.",
        "Ein Ereignis dieses Kontos ist nicht lesbar; die anderen sind lesbar. Die request_id steht im Log.",
        {"detail": _UNEXPECTED, "code": "stream_unreadable", "request_id": "9f8b7c6d5e4f3a2b"},
    ),
    _answer(
        503,
        STOPPED,
        INTAKE_STOPPED,
        INTAKE_STOPPED.german,
    ),
    _answer(
        503,
        FAILING,
        "Of `/readyz` alone: a part of the service fails, which the detail names. Creates succeed.",
        "Nur von `/readyz`: Ein Teil des Dienstes fällt aus; das Detail nennt ihn. Anlegen gelingt.",
    ),
    _answer(
        503,
        CODES[503],
        "The service cannot store or read at the moment; repeating the request is safe.",
        "Der Dienst kann im Augenblick nicht speichern oder lesen; die Anfrage kann gefahrlos wiederholt werden.",
    ),
)

_FIELDS = (
    _field("required", "customers.0.family_name", "This field must be given.", "Dieses Feld muss angegeben sein."),
    _field("null", "customers.0.date_of_birth", "This field must not be null.", "Dieses Feld darf nicht null sein."),
    _field("blank", "external_account_number", "This field must not be blank.", "Dieses Feld darf nicht leer sein."),
    _field(
        "invalid",
        "notes.0.created_at",
        "This is not a value of the kind that is expected here.",
        "Dieser Wert ist nicht von der Art, die hier erwartet wird.",
        also=("answer",),
    ),
    _field(
        "invalid_choice",
        "import_supplier",
        "This is not one of the allowed values.",
        "Dies ist keiner der erlaubten Werte.",
    ),
    _field("not_a_list", "customers", "An array is expected.", "Erwartet wird ein Array."),
    _field(
        "unknown_field",
        "customers.0.nickname",
        "This field is not documented and must be left out.",
        "Dieses Feld ist nicht dokumentiert und muss weggelassen werden.",
    ),
    _field(
        "repeated_field",
        "customers.0.email",
        "This field must not be given twice in one object.",
        "Dieses Feld darf in einem Objekt nicht zweimal angegeben sein.",
    ),
    _field("max_length", "billing_address1", "The text or array is too long.", "Der Text oder das Array ist zu lang."),
    _field("min_value", "payment_schedules.0.day_of_month", "The number is too small.", "Die Zahl ist zu klein."),
    _field("max_value", "payment_schedules.0.day_of_month", "The number is too large.", "Die Zahl ist zu groß."),
    _field(
        "max_digits",
        "transfer_balance",
        "A number must have at most 18 digits before the point and 10 after it.",
        "Eine Zahl darf höchstens 18 Stellen vor dem Komma und 10 danach haben.",
    ),
    _field(
        "null_characters_not_allowed",
        "notes.0.body",
        "A text must not hold null characters.",
        "Ein Text darf keine Nullzeichen enthalten.",
    ),
    _field(
        "errors_truncated",
        "non_field_errors",
        "There are more problems than are listed; the sentence says how many.",
        "Es gibt mehr Probleme, als aufgeführt sind; der Satz sagt, wie viele.",
    ),
    _field(
        "dry_run_only",
        "task_params.is_dry_run",
        "This must be a dry run: the import supplier takes no others.",
        "Dies muss ein Probelauf sein: Der Lieferant nimmt nichts anderes an.",
    ),
    _field(
        "schedule_window_start_in_past",
        "task_params.schedule_window_start",
        "The window must not begin in the past.",
        "Das Zeitfenster darf nicht in der Vergangenheit beginnen.",
    ),
    _field(
        "schedule_window_end_in_past",
        "task_params.schedule_window_end",
        "The window must not end in the past.",
        "Das Zeitfenster darf nicht in der Vergangenheit enden.",
    ),
    _field(
        "schedule_window_start_too_far_in_future",
        "task_params.schedule_window_start",
        "The window must not begin more than 4 days ahead.",
        "Das Zeitfenster darf nicht mehr als 4 Tage in der Zukunft beginnen.",
    ),
    _field(
        "schedule_window_end_too_far_in_future",
        "task_params.schedule_window_end",
        "The window must not end more than 4 days ahead.",
        "Das Zeitfenster darf nicht mehr als 4 Tage in der Zukunft enden.",
    ),
    _field(
        "schedule_window_start__after_end",
        "task_params.schedule_window_start",
        "The window must begin before its end.",
        "Das Zeitfenster muss vor seinem Ende beginnen.",
    ),
    _field(
        "market_participant_not_found",
        "price_sheets.0.market_participant_code",
        "There is no such market participant.",
        "Es gibt keinen solchen Marktpartner.",
        also=("history",),
    ),
    _field(
        "unique",
        "price_sheets.0.document_number",
        "The name was imported with other content, or comes twice.",
        "Der Name wurde mit anderem Inhalt importiert oder kommt zweimal vor.",
    ),
    _field(
        "import_process_does_not_exist",
        "external_account_number",
        "There is no import of this account.",
        "Zu diesem Konto gibt es keinen Import.",
    ),
    _field(
        "account_not_found",
        "external_account_number",
        "The account does not exist yet.",
        "Das Konto gibt es noch nicht.",
    ),
)

_PROCESSING = (
    _latest(
        "attempts_exhausted",
        "Processing was given up; retry the import when the cause is mended.",
        "Die Verarbeitung wurde aufgegeben; der Import kann wiederholt werden, sobald die Ursache behoben ist.",
    ),
    _latest(
        "payload_erased",
        "The payload was erased; send the account again.",
        "Der Inhalt wurde gelöscht; das Konto ist erneut zu senden.",
    ),
    _latest(
        "payload_archived",
        "The payload lies in the supplier's archive; the platform team brings it back and retries the import.",
        "Der Inhalt liegt im Archiv des Lieferanten; das Plattform-Team holt ihn zurück und wiederholt den Import.",
    ),
    _latest(
        "account_not_accepted_by_platform",
        "The platform's tables refuse the account.",
        "Die Tabellen der Plattform lehnen das Konto ab.",
    ),
    _history(
        "path_does_not_exist_in_file_store",
        "There is no document at this path below the supplier's root.",
        "Unter diesem Pfad liegt kein Dokument im Stammverzeichnis des Lieferanten.",
    ),
    _history(
        "document_store_unavailable",
        "Documents could not be looked for; the import is tried again.",
        "Dokumente konnten nicht gesucht werden; der Import wird erneut versucht.",
    ),
    _history(
        "processing_failed",
        "The attempt failed for a reason that is expected to pass; it is tried again.",
        "Der Versuch scheiterte aus einem vorübergehenden Grund; er wird wiederholt.",
    ),
    _history(
        "worker_lost",
        "The worker of the attempt has died; the import is tried again.",
        "Der Worker des Versuchs ist ausgefallen; der Import wird erneut versucht.",
    ),
    _history(
        "lease_expired",
        "The worker of the attempt hangs; the import is tried again.",
        "Der Worker des Versuchs hängt; der Import wird erneut versucht.",
    ),
    _history(
        "supply_point_on_other_account",
        "Another live account of the supplier has this supply point.",
        "Ein anderes aktives Konto des Lieferanten hat diese Marktlokation.",
    ),
    _history(
        "documents_root_missing",
        "Documents cannot be checked before documents-root is set.",
        "Dokumente können erst geprüft werden, wenn documents-root gesetzt ist.",
    ),
    _history(
        "supplier_already_archived",
        "The supplier is archived already: attach that archive first.",
        "Der Lieferant ist bereits archiviert: zuerst ist dieses Archiv anzuhängen.",
    ),
    _history(
        "smtp_unavailable",
        "The mail server does not answer; the message is tried again.",
        "Der Mailserver antwortet nicht; die Nachricht wird erneut versucht.",
    ),
    _history(
        "tls_not_offered",
        "The mail server offers no TLS that can be trusted; the message waits.",
        "Der Mailserver bietet kein vertrauenswürdiges TLS an; die Nachricht wartet.",
    ),
    _history("sender_refused", "The mail server refuses the sender.", "Der Mailserver lehnt den Absender ab."),
    _history("recipient_refused", "The mail server refuses the recipient.", "Der Mailserver lehnt den Empfänger ab."),
    _history(
        "smtputf8_not_supported",
        "The mail server takes no internationalised addresses (SMTPUTF8).",
        "Der Mailserver nimmt keine internationalisierten Adressen an (SMTPUTF8).",
    ),
    _history(
        "message_not_possible",
        "The message cannot be written: an address has no form for mail servers.",
        "Die Nachricht lässt sich nicht schreiben: Eine Adresse hat keine Form für Mailserver.",
    ),
    _history("message_refused", "The mail server refuses the message.", "Der Mailserver lehnt die Nachricht ab."),
    _history(
        "outcome_unknown",
        "Nobody knows whether the message was sent; it is not sent again.",
        "Ob die Nachricht gesendet wurde, ist unbekannt; sie wird nicht erneut gesendet.",
    ),
    _history(
        "no_email_address",
        "No customer of the account has an e-mail address.",
        "Kein Kunde des Kontos hat eine E-Mail-Adresse.",
    ),
    _history(
        "payload_unreadable",
        "The payload of the account cannot be read any more.",
        "Der Inhalt des Kontos ist nicht mehr lesbar.",
    ),
)

_GRAPHQL = (
    _graphql("KT-CT-1134", "The refresh token has expired.", "Das Refresh-Token ist abgelaufen."),
    _graphql("KT-CT-1135", "The refresh token is not valid.", "Das Refresh-Token ist ungültig."),
    _graphql(
        "KT-CT-1137",
        "Give exactly one of organizationSecretKey, apiKey and refreshToken.",
        "Anzugeben ist genau eines von organizationSecretKey, apiKey und refreshToken.",
    ),
    _graphql("KT-CT-1139", "The key is not valid.", "Der Schlüssel ist ungültig."),
    _graphql(
        "KT-CT-1140",
        "The organisation's secret key is not valid.",
        "Der geheime Schlüssel der Organisation ist ungültig.",
    ),
    _graphql(
        "GRAPHQL_PARSE_FAILED",
        "The document is not GraphQL; `locations` says where.",
        "Das Dokument ist kein GraphQL; `locations` sagt, wo.",
    ),
    _graphql(
        "GRAPHQL_VALIDATION_FAILED",
        "The document does not fit the schema; `locations` says where.",
        "Das Dokument passt nicht zum Schema; `locations` sagt, wo.",
    ),
    _graphql(
        "BAD_USER_INPUT",
        "The variables or the operation's name do not fit the document.",
        "Die Variablen oder der Name der Operation passen nicht zum Dokument.",
    ),
    _graphql(
        "SERVICE_UNAVAILABLE",
        "The service cannot read at the moment; ask again.",
        "Der Dienst kann im Augenblick nicht lesen; bitte erneut anfragen.",
    ),
    _graphql(
        "INTERNAL_SERVER_ERROR",
        "Something unexpected happened; the service's log names it.",
        "Etwas Unerwartetes ist geschehen; das Log des Dienstes nennt es.",
    ),
)

_RULES: tuple[tuple[str, tuple[Rule, ...]], ...] = (
    ("account", RULES),
    ("market participant", PARTICIPANT),
    ("price sheets", PRICE_SHEETS),
    ("delivery note", DELIVERY_NOTE),
    ("energy amount", ENERGY_AMOUNT),
    ("market participant invoice", INVOICE),
)


_MEANINGS = {
    "agreement_after_supply_end": Sentence(
        "An agreement begins after the supply has ended.",
        "Ein Vertrag beginnt nach dem Ende der Belieferung.",
    ),
    "balance_mismatch_on_ledger_balance": Sentence(
        "A ledger's balance does not follow from its last statement and its transactions.",
        "Der Saldo eines Buchungskreises folgt nicht aus letzter Abrechnung und Buchungen.",
    ),
    "billed_before_supply_start": Sentence(
        "The supply was billed up to a day before it began.",
        "Abgerechnet wurde bis zu einem Tag vor Lieferbeginn.",
    ),
    "billing_address_not_provided": Sentence(
        "The account has no address at all.",
        "Das Konto hat gar keine Adresse.",
    ),
    "children_with_duplicate_values": Sentence(
        "Items of an array agree where they must differ.",
        "Einträge eines Arrays stimmen überein, wo sie es nicht dürfen.",
    ),
    "current_statement_transaction_before_last_statement_closing_date": Sentence(
        "A transaction belongs to a statement that is closed.",
        "Eine Buchung gehört in eine abgeschlossene Abrechnung.",
    ),
    "customer_family_name_required": Sentence(
        "No customer of the account has a family name.",
        "Kein Kunde des Kontos hat einen Nachnamen.",
    ),
    "customer_may_not_be_named_the_occupier": Sentence(
        "A customer bears the name that stands for an unknown occupier.",
        "Ein Kunde trägt den Namen, der für einen unbekannten Bewohner steht.",
    ),
    "customer_with_unknown_occupier": Sentence(
        "The account has customers, although its occupier is unknown.",
        "Das Konto hat Kunden, obwohl der Bewohner unbekannt ist.",
    ),
    "date_far_in_future": Sentence(
        "A day lies so far ahead that nobody may have meant it.",
        "Ein Tag liegt unwahrscheinlich weit in der Zukunft.",
    ),
    "date_in_future": Sentence(
        "A day or a moment lies in the future, where it must not.",
        "Ein Tag oder Zeitpunkt liegt in der Zukunft, wo er es nicht darf.",
    ),
    "duplicate_account_campaigns": Sentence(
        "The account names a campaign twice.",
        "Das Konto nennt eine Kampagne zweimal.",
    ),
    "duplicate_identifiers_entries_found": Sentence(
        "Two ledgers have the same supply point.",
        "Zwei Buchungskreise haben dieselbe Marktlokation.",
    ),
    "duplicate_ledger_entries_found": Sentence(
        "The account has a ledger twice.",
        "Das Konto hat einen Buchungskreis zweimal.",
    ),
    "duplicate_meter_points_on_different_supply_addresses_provided": Sentence(
        "Two supply addresses have the same supply point.",
        "Zwei Lieferstellen haben dieselbe Marktlokation.",
    ),
    "duplicate_meter_points_provided": Sentence(
        "A supply address has a supply point twice.",
        "Eine Lieferstelle hat eine Marktlokation zweimal.",
    ),
    "duplicate_supply_addresses_found": Sentence(
        "The account has a supply address twice.",
        "Das Konto hat eine Lieferstelle zweimal.",
    ),
    "duplicate_transaction_ids": Sentence(
        "Two transactions have the same identifier.",
        "Zwei Buchungen haben dieselbe Kennung.",
    ),
    "fixed_payment_schedule_missing_day_of_month": Sentence(
        "A monthly payment schedule lacks its day.",
        "Einem monatlichen Abschlagsplan fehlt der Tag.",
    ),
    "fixed_payment_schedule_missing_frequency": Sentence(
        "A payment schedule has an amount and no frequency.",
        "Ein Abschlagsplan hat einen Betrag und keinen Turnus.",
    ),
    "gaps_or_overlaps_in_agreement_dates": Sentence(
        "The agreements of a supply point overlap, or leave a gap.",
        "Die Verträge einer Marktlokation überschneiden sich oder lassen eine Lücke.",
    ),
    "historical_statement_already_exists": Sentence(
        "The account has a statement twice.",
        "Das Konto hat eine Abrechnung zweimal.",
    ),
    "implausible_conversion_factor": Sentence(
        "A factor that converts gas volumes lies outside its usual range.",
        "Ein Faktor zur Umrechnung von Gasmengen liegt außerhalb seines üblichen Bereichs.",
    ),
    "implausible_date_of_birth": Sentence(
        "A customer is older than people become.",
        "Ein Kunde ist älter, als Menschen werden.",
    ),
    "implausible_register_count": Sentence(
        "A meter has more or fewer registers in use than its type says.",
        "Ein Zähler hat mehr oder weniger aktive Zählwerke, als sein Typ angibt.",
    ),
    "implausible_unit_rate": Sentence(
        "A price per kWh is so high that it may be in cents.",
        "Ein Preis je kWh ist so hoch, dass er in Cent stehen könnte.",
    ),
    "invalid_energy_identification_code": Sentence(
        "An energy identification code is not valid.",
        "Ein Energy Identification Code (EIC) ist nicht gültig.",
    ),
    "invalid_iban": Sentence(
        "An IBAN is not valid.",
        "Eine IBAN ist nicht gültig.",
    ),
    "invalid_market_partner_code": Sentence(
        "A market partner code is not valid.",
        "Eine Marktpartner-ID ist nicht gültig.",
    ),
    "invalid_metering_location_id": Sentence(
        "A metering location id is not valid.",
        "Eine MeLo-ID ist nicht gültig.",
    ),
    "invalid_obis_code": Sentence(
        "An OBIS code is not valid.",
        "Eine OBIS-Kennzahl ist nicht gültig.",
    ),
    "invalid_phone_number": Sentence(
        "A phone number is not valid.",
        "Eine Telefonnummer ist nicht gültig.",
    ),
    "invalid_postcode": Sentence(
        "A German postcode is not valid.",
        "Eine deutsche Postleitzahl ist nicht gültig.",
    ),
    "invalid_supply_point_identifier": Sentence(
        "A market location id is not valid.",
        "Eine MaLo-ID ist nicht gültig.",
    ),
    "ledger_balances_not_equal_to_transfer_balance": Sentence(
        "The ledgers' balances and transfer_balance differ.",
        "Die Salden der Buchungskreise und transfer_balance weichen ab.",
    ),
    "lower_bound_above_upper_bound": Sentence(
        "An interval ends below its beginning.",
        "Ein Intervall endet unter seinem Anfang.",
    ),
    "metadata_has_duplicate_keys": Sentence(
        "The metadata have a key twice.",
        "Die Metadaten haben einen Schlüssel zweimal.",
    ),
    "meter_with_duplicate_register_ids": Sentence(
        "A meter has a register twice.",
        "Ein Zähler hat ein Zählwerk zweimal.",
    ),
    "negative_number": Sentence(
        "A number is negative, where it must not be.",
        "Eine Zahl ist negativ, wo sie es nicht darf.",
    ),
    "negative_reading": Sentence(
        "A meter reading is negative.",
        "Ein Zählerstand ist negativ.",
    ),
    "obis_code_of_other_medium": Sentence(
        "A register counts another medium than is supplied.",
        "Ein Zählwerk zählt ein anderes Medium, als geliefert wird.",
    ),
    "occupier_account_with_multiple_supply_addresses": Sentence(
        "The account has several supply addresses, although its occupier is unknown.",
        "Das Konto hat mehrere Lieferstellen, obwohl der Bewohner unbekannt ist.",
    ),
    "payment_instructions_ledger_code_uniformity_failed": Sentence(
        "Some payment instructions name a ledger, others do not.",
        "Einige Zahlungswege nennen einen Buchungskreis, andere nicht.",
    ),
    "payment_schedule_date_overlaps": Sentence(
        "Two payment schedules of a ledger start on the same day.",
        "Zwei Abschlagspläne eines Buchungskreises beginnen am selben Tag.",
    ),
    "payment_schedules_ledger_code_uniformity_failed": Sentence(
        "Some payment schedules name a ledger, others do not.",
        "Einige Abschlagspläne nennen einen Buchungskreis, andere nicht.",
    ),
    "reading_exceeds_digits": Sentence(
        "A meter reading has more digits than its register.",
        "Ein Zählerstand hat mehr Stellen als sein Zählwerk.",
    ),
    "reading_outside_active_period": Sentence(
        "A register was read while it was not in use.",
        "Ein Zählwerk wurde abgelesen, als es nicht aktiv war.",
    ),
    "readings_run_backwards": Sentence(
        "A register seems to run backwards.",
        "Ein Zählwerk scheint rückwärts zu laufen.",
    ),
    "start_date_later_than_end_date": Sentence(
        "A period ends before it begins.",
        "Ein Zeitraum endet vor seinem Beginn.",
    ),
    "supply_before_move_in": Sentence(
        "A customer is supplied before moving in.",
        "Ein Kunde wird vor seinem Einzug beliefert.",
    ),
    "transaction_in_future": Sentence(
        "A transaction is dated in the future.",
        "Eine Buchung ist auf die Zukunft datiert.",
    ),
    "unassigned_postcode": Sentence(
        "No place has this postcode.",
        "Kein Ort hat diese Postleitzahl.",
    ),
    "unknown_ledger_identifiers": Sentence(
        "A ledger names a supply point that the account does not have.",
        "Ein Buchungskreis nennt eine Marktlokation, die das Konto nicht hat.",
    ),
    "unused_price_sheet_with_prices": Sentence(
        "A price sheet has prices and is unused, or has none and is used.",
        "Ein Preisblatt hat Preise und ist ungenutzt, oder es hat keine und ist genutzt.",
    ),
    "zero_payment_schedule_amount": Sentence(
        "A payment schedule has an amount of zero.",
        "Ein Abschlagsplan hat den Betrag null.",
    ),
}
"""Meanings of the codes that only rules use: a code means what went wrong, and its rules say what must hold."""


def _with_rules(own: tuple[ErrorCode, ...]) -> Iterator[ErrorCode]:
    """The codes of this table with the rules that use them, then the codes that only rules use."""
    rules: dict[str, list[RuleOfCode]] = {}
    for resource, table in _RULES:
        for rule in table:
            told = RuleOfCode(resource, rule.at, str(rule.says), str(rule.severity), rule.source, rule.says.german)
            rules.setdefault(rule.code, []).append(told)
    for entry in own:
        yield msgspec.structs.replace(entry, meaning=str(entry.meaning), rules=tuple(rules.pop(entry.code, ())))
    for code, of_code in sorted(rules.items()):
        first = of_code[0]
        attr = first.at.replace("[]", ".0") or "non_field_errors"
        entry = _field(code, attr, first.says, first.says_de)
        meaning = _MEANINGS[code]
        yield msgspec.structs.replace(entry, meaning=str(meaning), meaning_de=meaning.german, rules=tuple(of_code))


CATALOGUE: tuple[ErrorCode, ...] = tuple(_with_rules(_ANSWERS + _FIELDS + _PROCESSING + _GRAPHQL))
