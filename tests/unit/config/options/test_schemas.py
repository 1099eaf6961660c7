from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.config.builders import a_flow


def test_where_ids_are_is_said_by_topic_and_else_by_the_registrys_subjects() -> None:
    flow = a_flow(schemas_ids_in={"orders": "value", "raw.*": "none"})
    assert [flow.schemas_ids_in.of(it) for it in ("orders", "raw-1", "x")] == [
        *("value", "none", "subjects")
    ]


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("schemas_ids_in", "headers", "must be one of subjects, none, key, value, both"),
        ("schemas_ids_in", {"orders": True}, "must be one of subjects, none, key, value, both"),
        ("schemas_subjects", ["a("], r"a\("),
        ("sync_schemas", "both", "'none', 'translate-ids' or 'keep-ids'"),
    ],
)
def test_anything_else_is_refused(option: str, value: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        a_flow(**{option: value})
