"""Two flows that would write one name are told, as far as their files say."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_ferry.config import Flow
from kafka_ferry.plan.same_names import mixed_aliases, own_names, same_names
from tests.unit.plan.builders import a_flow

KEPT = {"replication_policy_class": "IdentityReplicationPolicy"}
ADOPTS = {"on_foreign_records": "adopt"}


def of(source: str, *topics: str, **options: Any) -> Flow:
    flow = a_flow(topics=list(topics), **options)
    cluster = flow.source.model_copy(update={"alias": source})
    return flow.model_copy(update={"source": cluster})


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (of("us", "orders"), of("eu", "orders"), ""),
        (of("us", "orders", **KEPT), of("eu", "clicks", **KEPT), ""),
        (of("us", "orders", **KEPT), of("eu", "ord.*", **KEPT), "both write orders"),
        (of("us", ".*", **KEPT), of("eu", "ord.*", **KEPT), "write the same name wherever"),
        (of("us", ".*", **KEPT, **ADOPTS), of("eu", ".*", **KEPT, **ADOPTS), ""),
        (
            of("us", "orders", topics_rename={"orders": "shop"}),
            of("eu", "o", topics_rename={"o": "shop"}),
            "both write shop",
        ),
    ],
)
def test_names_that_both_write(one: Flow, other: Flow, said: str) -> None:
    sentences = [*same_names(one, other)]
    assert len(sentences) == bool(said)
    assert said in "".join(sentences)


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (
            of("us", "orders", "shop", topics_rename={"orders": "shop"}, **KEPT),
            "orders and shop would both be shop",
        ),
        (of("us", ".*", topics_rename={"a": "us.b", "b": "c"}), ""),
        (of("us", "orders", topics_rename={"orders": "shop", "shop": "x"}, **KEPT), ""),
    ],
)
def test_two_topics_of_a_flow_with_one_name(flow: Flow, said: str) -> None:
    problems = [*own_names(flow)]
    assert len(problems) == bool(said)
    assert said in "".join(it.reason for it in problems)


def test_an_alias_of_two_clusters_is_told() -> None:
    one = of("us", "orders")
    swapped = one.model_copy(update={"source": one.target, "target": one.source})
    assert [*mixed_aliases(one, one)] == [*mixed_aliases(one, swapped)] == []
    aliases = {
        side: getattr(one, side).model_copy(update={"properties": getattr(one, at).properties})
        for side, at in (("source", "target"), ("target", "source"))
    }
    first, second = mixed_aliases(one, one.model_copy(update=aliases))
    assert first.startswith("us is ")
    assert second.startswith("backup is ")
