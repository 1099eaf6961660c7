"""Help says what a person types, and has no style where none is wanted."""

from __future__ import annotations

import pytest

from tests.support.runs.command_line import ferry


def test_help_has_no_words_of_python() -> None:
    said = "".join(
        ferry(*call, "--help").stdout for call in (["plan"], ["lag"], ["certificate", "list"])
    )
    assert "--json" in said
    assert "<bool>" not in said
    assert "list[" not in said


def test_no_style_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ferry("plan", "--help").stdout
