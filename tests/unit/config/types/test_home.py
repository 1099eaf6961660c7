from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.config.types.home import at_home


def test_a_relative_path_begins_at_ferry_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_HOME", "/srv/ferry")
    assert at_home("rules/mask.py") == Path("/srv/ferry/rules/mask.py")
    assert at_home("/etc/mask.py") == Path("/etc/mask.py")


@pytest.mark.parametrize("home", [None, ""])
@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("", "here"),
        ("flow.yaml", "here"),
        ("team/flow.yaml", "here/team"),
        ("/etc/ferry/flow.yaml", "/etc/ferry"),
        ("/srv/project/include/configs/flow.yaml", "/srv/project"),
        ("/srv/project/include/configs/team/flow.yaml", "/srv/project"),
        ("include/configs/flow.yaml", "here"),
        ("/srv/configs/flow.yaml", "/srv/configs"),
    ],
)
def test_without_it_a_relative_path_begins_where_the_flows_file_belongs(
    home: str | None, file: str, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    if home is None:
        monkeypatch.delenv("FERRY_HOME", raising=False)
    else:
        monkeypatch.setenv("FERRY_HOME", home)
    assert at_home("mask.py", file) == tmp_path / folder / "mask.py"


def test_a_tilde_is_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert at_home("~/mask.py") == Path("/home/anna/mask.py")
