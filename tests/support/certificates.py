"""Certificates whose expiry the test chooses."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def certificate(file: Path, ends: datetime) -> Path:
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    begins = ends - timedelta(days=90)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begins).not_valid_after(ends)
    file.write_bytes(builder.sign(key, None).public_bytes(Encoding.PEM))
    return file


def self_signed(folder: Path, *hosts: str, days: int = 1) -> Path:
    """Write `certificate.pem` and `key.pem` of a server with these names; the certificate's path."""
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    today = datetime.now(UTC)
    names = [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(today).not_valid_after(today + timedelta(days=days))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(secret)
    (folder / "certificate.pem").write_bytes(builder.sign(key, None).public_bytes(Encoding.PEM))
    return folder / "certificate.pem"
