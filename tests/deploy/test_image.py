"""Build of the Containerfile on a base of Debian's packages. The image runs without root, on a read-only root.

It takes minutes, root, buildah and mmdebstrap, so `make release-check` runs it, and `make test` does not.
"""

import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.folders import temporary_folder
from tests.support.packages import fetched, run
from tests.support.running import free_port, is_ready, wait_for

ROOT = Path(__file__).parent.parent.parent
TOOLS = ("buildah", "mmdebstrap", "unshare")
USER = 10001

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(os.geteuid() != 0, reason="an image is built and entered by root alone here"),
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"these are not all here: {', '.join(TOOLS)}"),
]


def base_of_packages(folder: Path) -> Path:
    """Make a root folder with Python from Debian's packages."""
    root = folder / "base"
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "bookworm")
    fetched("mmdebstrap", "--variant=minbase", "--include=python3,python3-venv", suite, str(root))
    return root


def wheels_for(root: Path, folder: Path) -> Path:
    """Download the pinned packages for the base's Python, since the build has no network."""
    version = run("chroot", str(root), "python3", "-c", "import platform; print(platform.python_version())").strip()
    minor = ".".join(version.split(".")[:2])
    wanted = []
    for name in ("runtime.txt", "build.txt"):
        text = (ROOT / "requirements" / name).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            pinned = Requirement(line.partition(" --hash")[0])
            if pinned.marker is None or pinned.marker.evaluate(
                {"python_full_version": version, "python_version": minor}
            ):
                wanted.append(f"{pinned.name}{pinned.specifier}")
    (folder / "wanted.txt").write_text("\n".join(sorted(set(wanted))))
    wheels = folder / "wheels"
    fetched(
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
        "--python-version", minor, "-d", str(wheels), "-r", str(folder / "wanted.txt"),
    )  # fmt: skip
    return wheels


@contextlib.contextmanager
def built() -> Iterator[tuple[dict[str, Any], Path]]:
    """Configuration and files of the image."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this root may make no namespaces, which building an image takes")
    with temporary_folder() as folder:
        root = base_of_packages(folder)
        wheels = wheels_for(root, folder)
        (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        buildah = ("buildah", "--root", str(folder / "images"), "--runroot", str(folder / "running"))
        settings = os.environ | {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        try:
            base = run(*buildah, "from", "scratch", environment=settings).strip()
            run("cp", "-a", f"{root}/.", run(*buildah, "mount", base, environment=settings).strip())
            run(*buildah, "umount", base, environment=settings)
            run(*buildah, "commit", "-q", base, "localhost/base", environment=settings)
            run(
                *buildah, "build", "--format", "docker", "--layers=false", "--build-arg", "PYTHON_IMAGE=localhost/base",
                "--volume", f"{wheels}:/wheels:ro", "--volume", f"{folder}/pip.conf:/etc/pip.conf:ro",
                "-t", "importledger", "-f", str(ROOT / "Containerfile"), str(ROOT), environment=settings,
            )  # fmt: skip
            inspected = json.loads(run(*buildah, "inspect", "--type", "image", "importledger", environment=settings))
            container = run(*buildah, "from", "localhost/importledger", environment=settings).strip()
            yield inspected["Docker"]["config"], Path(run(*buildah, "mount", container, environment=settings).strip())
        finally:
            subprocess.run([*buildah, "umount", "--all"], env=settings, capture_output=True, check=False)
            subprocess.run([*buildah, "rm", "--all"], env=settings, capture_output=True, check=False)
            subprocess.run([*buildah, "rmi", "--all", "--force"], env=settings, capture_output=True)


@pytest.mark.promise("every-file-deploy-compose")
def test_the_image_is_built_and_serves_without_root_on_a_read_only_root() -> None:
    with built() as (configuration, files):
        assert configuration["User"] == f"{USER}:{USER}"
        assert configuration["Volumes"].keys() == {"/var/lib/importledger"}
        assert configuration["ExposedPorts"].keys() == {"8000/tcp"}
        assert configuration["Entrypoint"] == ["importledger"]
        assert configuration["Cmd"] == ["up", "--host", "0.0.0.0"]
        serves(files, dict(entry.split("=", 1) for entry in configuration["Env"]), configuration)


def serves(files: Path, environment: dict[str, str], configuration: dict[str, Any]) -> None:
    """Run the command of the image as its user, with write access to the volume and /tmp only."""
    port = free_port()
    command = [*configuration["Entrypoint"], *configuration["Cmd"], "--port", str(port), "--api-processes", "1"]
    chroot = shutil.which("chroot")  # the image's own PATH leads to none
    entering = f"""
        mount --bind {files} {files} && mount -o remount,bind,ro {files}
        mount -t tmpfs -o uid={USER},gid={USER},mode=0711 tmpfs {files}/var/lib/importledger
        mount -t tmpfs tmpfs {files}/tmp && mount --rbind /dev {files}/dev && mount -t proc proc {files}/proc
        if {chroot} --userspec={USER}:{USER} {files} touch /tmp/written /var/lib/importledger/written; then :; fi
        if {chroot} --userspec={USER}:{USER} {files} touch /srv/written; then exit 7; fi
        exec {chroot} --userspec={USER}:{USER} {files} "$@"
    """
    with temporary_folder() as folder, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "bash", "-euc", entering, "enter", *command],
            env={"HOME": "/var/lib/importledger"} | environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            wait_for(
                lambda: is_ready(f"http://127.0.0.1:{port}") or process.poll() is not None,
                "the image's service is ready",
                timeout_s=120,
            )
            assert process.poll() is None, (folder / "log").read_text()
            wait_for(
                lambda: "The import ledger listens on http://0.0.0.0" in (folder / "log").read_text(), "it says so"
            )
        finally:
            process.terminate()
            process.wait(60)
