from __future__ import annotations

import pytest

from kafka_ferry.runs.mirror.spark_ui import SparkApplication

UI, HISTORY = "http://driver:4040", "http://history:18080/"
KEPT = "http://history:18080/history/app-1/"


@pytest.mark.parametrize(
    ("ui", "history", "running", "ended"),
    [
        (UI, HISTORY, UI, KEPT),
        (UI, "", UI, ""),
        ("", HISTORY, KEPT, KEPT),
        ("", "", "", ""),
    ],
)
def test_an_application_has_its_own_page_while_it_runs_and_the_history_servers_afterwards(
    ui: str, history: str, running: str, ended: str
) -> None:
    application = SparkApplication("app-1", ui, history)
    assert application.url(ended=False) == running
    assert application.url(ended=True) == ended
    assert SparkApplication.from_json(application.to_json()) == application


def test_an_id_cannot_lead_to_another_page() -> None:
    application = SparkApplication("../x?y", "", HISTORY)
    assert application.url(ended=True) == "http://history:18080/history/../x%3Fy/"
