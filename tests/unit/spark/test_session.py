"""Where the command line's Spark runs."""

import pytest

from kafka_ferry.spark import session


def test_tasks_at_a_time_are_spark_s_local_threads_and_without_a_word_its_own_settings_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_session", lambda _, config: config)
    assert session.terminal_session("tests", 3)["spark.master"] == "local[3]"
    assert "spark.master" not in session.terminal_session("tests")
