from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafka_ferry.config.file_content import MOST_BYTES, content_of


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(bytes(MOST_BYTES))
    (tmp_path / "link").symlink_to(file)
    assert content_of(tmp_path / "link") == bytes(MOST_BYTES)


def test_what_has_no_end_or_is_too_large_is_refused(tmp_path: Path) -> None:
    """A flow's author names such files, and a task reads them."""
    large, pipe = tmp_path / "large", tmp_path / "pipe"
    large.write_bytes(bytes(MOST_BYTES + 1))
    os.mkfifo(pipe)
    for file, why in (
        (Path("/dev/zero"), "no regular file"),
        (pipe, "no regular file"),
        (tmp_path, "no regular file|directory"),
        (large, "more than 16 MiB"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(OSError, match=why) as caught:
            content_of(file)
        assert caught.value.strerror
