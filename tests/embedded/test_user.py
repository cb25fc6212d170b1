"""As root, the servers run as a user of their own, which becomes the owner of earlier data."""

import os
import pwd
from pathlib import Path

import pytest

from embedded import user
from embedded.user import OWN_USER, RunAs, server_user

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has other users' rights")


@pytest.mark.promise("under-root-servers-run")
@as_root
def test_as_root_the_servers_have_a_user_of_their_own() -> None:
    found = server_user()
    assert found.uid == pwd.getpwnam(OWN_USER).pw_uid
    assert found.uid not in (0, pwd.getpwnam("nobody").pw_uid)


@pytest.mark.promise("under-root-servers-run")
@as_root
def test_where_no_user_can_be_made_it_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user, "OWN_USER", "importledger-none")
    monkeypatch.setattr(user, "ADMIN_PATH", "/nonexistent")
    assert server_user().uid == pwd.getpwnam("nobody").pw_uid


@as_root
def test_a_folder_of_nobody_is_taken_over_and_links_are_not_followed(folder: Path) -> None:
    nobody, own = pwd.getpwnam("nobody"), server_user()
    data, elsewhere = folder / "data", folder / "elsewhere"
    (data / "below").mkdir(parents=True)
    elsewhere.write_text("")
    (data / "below" / "file").write_text("")
    (data / "below" / "link").symlink_to(elsewhere)
    RunAs(nobody.pw_uid, nobody.pw_gid).change_owner_of_all(data)
    assert (data / "below" / "file").stat().st_uid == nobody.pw_uid
    own.change_owner_of_all(data)
    assert {path.lstat().st_uid for path in (data, *data.rglob("*"))} == {own.uid}
    assert elsewhere.stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root has a user for the servers")
def test_who_is_not_root_stays_who_they_are() -> None:
    assert server_user() == RunAs()
