from __future__ import annotations

import pytest
import typer

from kafka_ferry.cli.audit_options import _isolation, _lag, topic_and_name


@pytest.mark.parametrize("text", ["orders=eu.orders", " orders = eu.orders "])
def test_a_topic_may_have_another_name_on_the_target(text: str) -> None:
    assert topic_and_name(text) == ("orders", "eu.orders")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders", "--map orders is not of the form orders=eu.orders"),
        ("orders=", "'' must be a topic's name"),
        ("a b=c", "'a b' must be a topic's name"),
        ("a=b=c", "'b=c' must be a topic's name"),
    ],
)
def test_a_name_that_cannot_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(typer.BadParameter, match=why):
        topic_and_name(text)


@pytest.mark.parametrize(
    ("text", "lag_ms"), [("0", 0), (0, 0), ("10m", 600_000), ("10 minutes", 600_000)]
)
def test_a_lag_is_a_span_of_time_or_none(text: object, lag_ms: int) -> None:
    assert _lag(text) == lag_ms


@pytest.mark.parametrize("text", ["10", "-1m", "soon"])
def test_another_lag_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="span of time"):
        _lag(text)


def test_an_isolation_level_is_one_of_kafkas() -> None:
    assert [_isolation(it) for it in ("", "read_committed")] == ["", "read_committed"]
    with pytest.raises(typer.BadParameter, match="read_committed or read_uncommitted"):
        _isolation("committed")
