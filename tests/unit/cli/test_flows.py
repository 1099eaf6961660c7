"""What a file says in vain is told, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.cli.commands.check import check
from kafka_ferry.cli.flows import flows_of, with_timeout
from tests.unit.plan.builders import a_flow

FILE = """\
clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
b->a.enabled = true
tasks.max = 4
b->a.offset.lag.max = 7
"""


def test_each_key_without_effect_is_named_once_whichever_flows_it_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    assert len(flows_of(file, None, None)) == 2
    assert capsys.readouterr().err == ""
    check([file])
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: tasks.max has no effect here: writers says how many tasks copy at a time",
        f"{file}: a->b runs @hourly in Airflow, since the file has no schedule",
        f"{file}: b->a.offset.lag.max has no effect here: translation is exact, by the ledger's "
        "offset map",
        f"{file}: b->a runs @hourly in Airflow, since the file has no schedule",
    ]


def test_only_what_concerns_the_flows_asked_for_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    options = [f"refresh.{it}.interval.seconds" for it in ("topics", "groups")]
    file.write_text(FILE + "".join(f"{it} = 5\n" for it in options))
    check([file], clusters=["b"])
    assert "tasks.max" in (told := capsys.readouterr().err)
    # Several for one reason stand in one line, and what most have to know in the last.
    assert f"{file}: {', '.join(options)} have no effect here: each run reads all" in told
    assert told.splitlines()[-1].startswith(f"{file}: a->b runs @hourly")
    assert "offset.lag.max" not in told


@pytest.mark.parametrize(
    ("of_flow_ms", "asked_s", "tried_ms"),
    [(60_000, None, 15_000), (9_000, None, 9_000), (60_000, 40, 40_000)],
)
def test_a_person_waits_fifteen_seconds_at_most_unless_another_time_is_asked_for(
    of_flow_ms: int, asked_s: int | None, tried_ms: int
) -> None:
    flow = a_flow(admin_timeout_ms=of_flow_ms)
    assert with_timeout(flow, asked_s).admin_timeout_ms == tried_ms
