"""What a flow has mirrored is stored, read back, and packed for tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_ferry.schemas.ids import (
    FlowSchemas,
    MirroredSchema,
    forget_schemas,
    packed_schemas,
    store_schemas,
    stored_schemas,
    unpacked_schemas,
)
from kafka_ferry.state import StateFolder

FOUND = FlowSchemas(
    (MirroredSchema(1, 7, "a-value", 1), MirroredSchema(2, 8, "a-value", 2, "g", "h")), {"a": "p.a"}
)


def test_it_is_read_as_it_was_stored(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path))
    assert stored_schemas(state) == FlowSchemas()
    store_schemas(state, FOUND)
    assert stored_schemas(state) == FOUND
    assert (FOUND.ids, FOUND.guids) == ({1: 7, 2: 8}, {"g": "h"})
    for _ in range(2):
        forget_schemas(state)
        assert stored_schemas(state) == FlowSchemas()


_ROW = '{"source_id": "1/../../subjects", "target_id": 1, "subject": "a", "version": 1}'


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", '{"version": 2}', '{"version": 1, "schemas": [{}]}'),
        f'{{"version": 1, "schemas": [{_ROW}], "topics": {{}}}}',
        '{"version": 1, "schemas": [], "topics": {"a": 1}}',
    ],
)
def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, content: str) -> None:
    state = StateFolder(str(tmp_path))
    state.folder("schemas").write("ids.json", content)
    assert stored_schemas(state) == FlowSchemas()


def test_tasks_get_it_small() -> None:
    many = FlowSchemas(
        tuple(MirroredSchema(i, i + 7, f"topic-{i}-value", 1) for i in range(5_000)),
        {f"topic-{i}": f"primary.topic-{i}" for i in range(5_000)},
    )
    assert unpacked_schemas(packed_schemas(many)) == many
    assert len(packed_schemas(many)) < 200_000
    assert packed_schemas(None) == b""
    assert unpacked_schemas(b"") is None
