"""What `ferry translate` does not take for an offset."""

from __future__ import annotations

import pytest

from kafka_ferry.cli import main


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--offset", "orders:0"],
        ["--offset", "orders:x:1"],
        ["--offset", "orders:0:-1"],
        ["--offset", ":0:1"],
        ["--offset", "orders:0:9223372036854775808"],
        ["--offset", "orders:2147483648:1"],
    ],
    ids=[
        "nothing",
        "no offset",
        "no number",
        "a negative one",
        "no topic",
        "no int64",
        "no int32",
    ],
)
def test_what_cannot_be_asked_is_a_mistake_in_the_command(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ferry", "translate", "--config", "no.yaml", *arguments])

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 9
    assert "--offset" in capsys.readouterr().err
