"""The PDF of a certificate: one page, made from the signed JSON."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from importledger_client.manifest import SHOWN_COUNTS, sums_filled

_WIDTH, _HEIGHT, _LEFT, _TOP = 595, 842, 60, 780
_FONTS = {"F1": "Helvetica", "F2": "Helvetica-Bold", "F3": "Courier"}
_COLUMNS = 88
MOST_LEDGERS = 8

Line = tuple[str, int, str]
"""Font, size in points, and text of a line."""


def pdf_of(certificate: Mapping[str, Any], manifest: Mapping[str, Any]) -> bytes:
    """Return an A4 page with the content of the certificate and how to check it."""
    drawing = [f"BT {_LEFT} {_TOP} Td"]
    for font, size, text in _lines(certificate, manifest):
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        drawing.append(f"/{font} {size} Tf {size * 1.45:g} TL ({escaped}) '")
    return _pdf("\n".join([*drawing, "ET"]))


def _lines(certificate: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[Line]:
    yield "F2", 20, "Certificate of import"
    yield "F1", 11, ""
    yield "F2", 14, "BALANCED"
    yield "F1", 11, "Everything that was in the source is on the platform."
    yield "F1", 11, ""
    yield "F1", 11, f"Run {certificate.get('run', '')} of supplier {certificate.get('import_supplier', '')}"
    yield "F1", 11, f"Issued {certificate.get('issued_at', '')}"
    if released_at := certificate.get("totals", {}).get("released_at"):
        yield "F1", 11, f"Released {released_at}: the platform owns these accounts"
    yield "F1", 11, ""
    yield "F3", 9, f"{'':<28}{'source and platform':>28}"
    for name in ("accounts", *SHOWN_COUNTS):
        yield "F3", 9, f"{name.replace('_', ' '):<28}{manifest.get(name, 0):>28,}"
    for name in sums_filled(manifest):
        yield "F3", 9, f"{'sum of ' + name.replace('_', ' '):<28}{manifest.get('sums', {}).get(name, '0'):>28}"
    ledgers = manifest.get("by_ledger", {})
    for code in [*ledgers][:MOST_LEDGERS]:
        yield "F3", 9, f"{('ledger ' + code)[:28]:<28}{ledgers[code]['balance_sum']:>28}"
    if len(ledgers) > MOST_LEDGERS:
        more = len(ledgers) - MOST_LEDGERS
        yield "F3", 9, f"and {more:,} more ledger{'s' if more > 1 else ''}, see the JSON"
    yield "F1", 11, ""
    yield "F1", 11, "Every field of every account has the same values on both sides; none is unaccounted for."
    yield "F1", 11, ""
    yield "F2", 11, "Signed with the ledger's key, over a sealed checkpoint"
    for name in ("checkpoint", "signature"):
        value = certificate.get(name, "")
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for part in text.splitlines():
            for line in textwrap.wrap(part, _COLUMNS) or [""]:
                yield "F3", 8, line
    yield "F1", 11, ""
    yield "F1", 9, "Only the JSON beside this page is signed: check it with `importledger-verify`."


def _pdf(drawing: str) -> bytes:
    """Return a PDF file of one page with this content."""
    stream = drawing.encode("cp1252", "replace")
    fonts = " ".join(f"/{name} {4 + index} 0 R" for index, name in enumerate(_FONTS, 1))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Contents 4 0 R"
        f" /Resources << /Font << {fonts} >> >> >>".encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        *(
            f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()
            for name in _FONTS.values()
        ),
    ]
    file, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % index for index in offsets)
    size = len(objects) + 1
    file += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return file + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, file.index(b"xref\n0 "))
