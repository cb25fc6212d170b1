"""docs/security.md: what it gives to paste is taken by what it is pasted into."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent.parent / "docs" / "security.md").read_text()


@pytest.mark.skipif(
    not all(map(shutil.which, ("nginx", "openssl"))), reason="nginx and openssl are not both here to ask"
)
def test_nginx_takes_the_configuration_as_pasted(tmp_path: Path) -> None:
    [server] = re.findall(r"^```nginx\n(.*?)^```", PAGE, re.M | re.S)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ledger.example", "-days", "1",
         "-keyout", str(key), "-out", str(certificate)],
        capture_output=True, check=True,
    )  # fmt: skip
    server = server.replace("/etc/ssl/ledger", str(tmp_path))
    whole = f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{server}}}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    tried = subprocess.run(
        ["nginx", "-t", "-q", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True
    )
    assert tried.returncode == 0, tried.stderr


def test_a_bulk_body_is_neither_bounded_nor_buffered_by_the_proxy() -> None:
    [bulk] = re.findall(r"location ~ /bulk/\$ \{(.*?)\}", PAGE, re.S)
    assert "client_max_body_size 0;" in bulk
    assert "proxy_request_buffering off;" in bulk
