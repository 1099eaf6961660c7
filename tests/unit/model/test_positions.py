import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.model.positions import (
    Position,
    PositionMetadata,
    ProducerState,
    flow_of,
    is_position_group,
    is_writers_id,
    position_group,
    position_of,
)

METADATA = PositionMetadata("source-id", "target-id", "run-1", 1_700_000_000_000)


def test_a_flows_positions_are_in_a_group_of_its_name() -> None:
    assert position_group("primary->backup") == "ferry.primary->backup"
    assert flow_of("ferry.primary->backup") == "primary->backup"


@pytest.mark.parametrize(
    ("group", "is_ours"),
    [
        ("ferry.primary->backup", True),
        ("ferry.a.b->c.d", True),
        ("ferry.timetable", False),
        ("my-ferry.a->b", False),
        ("primary->backup", False),
    ],
)
def test_groups_with_positions_are_known_by_their_names(group: str, is_ours: bool) -> None:
    assert is_position_group(group) == is_ours


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("ferry.a->b.12", [False]),
        ("ferry.a->b.preserved.12", [True]),
        ("ferry.a->b.c.12", []),
        ("ferry.a->b.012", []),
        ("ferry.a->b.", []),
        ("ferry.a->b.\u0663", []),
        (f"ferry.a->b.{'9' * 5_000}", []),
    ],
)
def test_a_writers_transactional_ids_are_its_flows_alone(name: str, kinds: list[bool]) -> None:
    """That of another flow with a longer alias, or of any client, is none."""
    found = [kind for kind in (False, True) if is_writers_id("a->b", name, preserved=kind)]
    assert found == kinds


@given(
    st.builds(
        PositionMetadata,
        topic_id=st.text(),
        remote_topic_id=st.text(),
        run=st.text(),
        at=st.integers(0, 2**63 - 1),
        origins=st.lists(st.text()).map(tuple),
    )
)
def test_metadata_is_read_as_it_was_written(metadata: PositionMetadata) -> None:
    assert PositionMetadata.decode(metadata.encode()) == metadata


def test_metadata_fits_beside_an_offset() -> None:
    """``offset.metadata.max.bytes`` is 4096 by default."""
    ids = "x" * 22
    longest = PositionMetadata(
        ids,
        ids,
        "scheduled__2026-01-01T00:00:00+00:00" * 4,
        2**63 - 1,
        ProducerState(2**63 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1),
        origins=(ids,) * 100,
    )
    assert len(longest.encode().encode()) < 4096


def test_metadata_of_this_release_looks_like_this() -> None:
    """Fixed: groups hold it."""
    assert json.loads(METADATA.encode()) == {
        "topic_id": "source-id",
        "remote_topic_id": "target-id",
        "run": "run-1",
        "at": 1_700_000_000_000,
        "producer": None,
        "origins": [],
        "v": 1,
    }


def test_a_position_knows_what_was_committed_beside_it() -> None:
    metadata = replace(METADATA, origins=("A", "B"))
    assert position_of(42, metadata.encode()) == Position(
        42, "source-id", "target-id", 1_700_000_000_000, origin="group", origins=("A", "B")
    )


def changed(**fields: object) -> str:
    return json.dumps(json.loads(METADATA.encode()) | fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "[]",
        "1",
        "reset by hand",
        METADATA.encode()[:-1],
        changed(v=2),
        changed(topic_id=None),
        changed(topic_id=5),
        changed(at="yesterday"),
        changed(origins="A"),
        '{"topic_id": "source-id"}',
        "[" * 5_000,
    ],
)
def test_metadata_of_another_client_tells_nothing(text: str) -> None:
    assert PositionMetadata.decode(text) is None
    assert position_of(42, text) == Position(42)


def test_metadata_may_say_more_than_this_release_knows() -> None:
    assert PositionMetadata.decode(changed(host="a")) == METADATA


@given(st.text())
def test_no_metadata_is_an_error(text: str) -> None:
    assert position_of(42, text).offset == 42
