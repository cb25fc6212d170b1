"""Certificates that end when a test says."""

from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID


def certificate(file: Path, ends: datetime) -> Path:
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    begins = ends - timedelta(days=90)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begins).not_valid_after(ends)
    file.write_bytes(builder.sign(key, None).public_bytes(Encoding.PEM))
    return file
