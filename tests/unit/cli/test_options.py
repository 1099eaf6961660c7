from __future__ import annotations

import pytest
import typer

from kafka_ferry.cli.options import _bytes, run_options
from kafka_ferry.model import RunOptions


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        (None, ()),
        (["a"], ("a",)),
        (["a, b.*", "c"], ("a", "b.*", "c")),
    ],
)
def test_topics_may_be_repeated_or_separated_by_commas(
    given: list[str] | None, topics: tuple[str, ...]
) -> None:
    assert run_options(given, dry_run=True) == RunOptions(topics=topics, dry_run=True)


def test_a_rate_may_have_a_unit() -> None:
    assert [_bytes(text) for text in ("0", "512", "8MiB")] == [0, 512, 8 * 1024**2]
    with pytest.raises(typer.BadParameter, match=r"^must be a number of bytes, or a size"):
        _bytes("fast")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("*", "dangling '*' ('*' repeats what is before it; any text is '.*')"),
        ("orders payments", "put a comma between names, 'orders, payments'"),
        ('"orders"', "leave them out, 'orders'"),
        ("a/b", "holds '/', as no topic's name does"),
        (" ,", "names no topic; without it, all count"),
    ],
)
def test_a_wrong_pattern_of_topics_is_told_before_any_cluster_is_asked(
    given: str, said: str
) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        run_options([given])
    assert caught.value.param_hint == "--topics"
    assert said in caught.value.message
