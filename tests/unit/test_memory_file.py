from __future__ import annotations

import stat
from pathlib import Path

from kafka_ferry.memory_file import memory_file


def test_a_file_in_memory_has_a_name_its_owners_rights_and_no_end_of_its_own() -> None:
    with memory_file("secret") as name:
        assert Path(name).read_text() == "secret"
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
        assert str(Path(name).readlink()).startswith("/memfd:")
    assert not Path(name).exists()
