"""Which remote topics get a mark of the flow's, and which have one that says something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_ferry.model.cluster_state import Mark
from kafka_ferry.model.plan import OffsetsChoice
from kafka_ferry.plan.topics.ownership import new_marks, unlike_their_marks

REMOTE = "primary.orders"
IDS = {REMOTE: "remote id"}
CHOICE = OffsetsChoice("orders", REMOTE, True, "offsets: preserved.", topic_id="id")


def a_mark(**more: Any) -> Mark:
    known = {"topic": "orders", "topic_id": "id", "remote_topic": REMOTE}
    of_this = {"remote_topic_id": "remote id", "preserved": True, "created": True}
    return Mark(**(known | of_this | more))


def test_a_topic_that_the_flow_creates_is_marked_as_its_own() -> None:
    assert new_marks([CHOICE], IDS, {}, created=[REMOTE]) == (a_mark(),)
    assert new_marks([CHOICE], IDS, {}, created=[]) == (a_mark(created=False),)
    assert new_marks([CHOICE], IDS, {}, [], [REMOTE]) == (a_mark(created=False, empty=True),)


@pytest.mark.parametrize(
    ("ids", "marks"),
    [
        ({}, {}),  # it does not exist yet
        (IDS, {REMOTE: a_mark()}),
        (IDS, {REMOTE: a_mark(preserved=False)}),  # by another run: an error, below
    ],
)
def test_no_mark_is_missing(ids: Mapping[str, str], marks: Mapping[str, Mark]) -> None:
    assert new_marks([CHOICE], ids, marks, created=[REMOTE]) == ()


@pytest.mark.parametrize(
    ("mark", "becomes"),
    [
        # Another source topic: the flow that created the remote topic created it.
        (a_mark(topic_id="earlier"), a_mark()),
        (a_mark(topic_id="earlier", created=False), a_mark(created=False)),
        (a_mark(topic_id="earlier", given_back=True), a_mark(given_back=True)),
        (a_mark(topic_id="earlier", empty=True), a_mark(empty=True)),
        # Of an earlier remote topic of that name.
        (a_mark(remote_topic_id="earlier", given_back=True), a_mark(created=False)),
    ],
)
def test_a_recreated_topic_is_marked_again(mark: Mark, becomes: Mark) -> None:
    assert new_marks([CHOICE], IDS, {REMOTE: mark}, created=[]) == (becomes,)


def test_a_mark_that_another_run_wrote_since_the_plan_is_an_error() -> None:
    translated = {REMOTE: a_mark(preserved=False)}
    (error,) = unlike_their_marks([CHOICE], IDS, translated).values()
    assert str(error) == "it was marked as translated since the run was planned. Run it again."
    assert unlike_their_marks([CHOICE], IDS, {REMOTE: a_mark()}) == {}
    assert unlike_their_marks([CHOICE], {REMOTE: "recreated"}, translated) == {}
