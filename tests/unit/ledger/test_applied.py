"""What all that a flow has ever applied comes to."""

from __future__ import annotations

from kafka_ferry.ledger.applied import fold_applied
from kafka_ferry.model.changes import Acl, AclChange, Applied, QuotaChange, UserChange

from .entries import an_applied

ANNA = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")
BEN = Acl("TOPIC", "primary.orders", "LITERAL", "User:ben", "*", "READ", "ALLOW")
USER = (("user", "anna"),)
RATE = "producer_byte_rate"


def folded(*entries: dict[str, object]) -> Applied:
    return fold_applied(an_applied(**entry).model_dump_json() for entry in entries)


def test_nothing_was_applied_at_first() -> None:
    assert folded() == folded({}) == Applied()


def test_the_newest_entry_on_a_topic_has_all_of_its_configs() -> None:
    applied = folded(
        {"configs": {"a": {"x": "1", "y": "2"}, "b": {"x": "3"}}, "source_cluster_id": "S"},
        {"configs": {"a": {"x": "4"}}, "source_cluster_id": "T"},
        {"acls": (AclChange(ANNA, "grant"),), "source_cluster_id": "U"},
    )
    assert applied.configs == {"a": {"x": "4"}, "b": {"x": "3"}}
    assert applied.sources == {"a": "T", "b": "S"}


def test_what_is_pending_counts_until_the_next_entry_on_the_topic() -> None:
    announced = {"configs": {"a": {"x": "2"}}, "pending": {"a": {"x": "1", "y": None}}}
    other = {"configs": {"b": {}}, "missed": {"a": 1}}
    assert folded(announced, other).pending == {"a": {"x": "1", "y": None}}
    assert folded(announced, other, {"configs": {"a": {"x": "2"}}}).pending == {}


def test_a_log_was_compacted_until_the_policy_was_changed() -> None:
    compacted = {"configs": {"a": {"cleanup.policy": "compact,delete"}, "b": {"x": "1"}}, "at": 1}
    other = {"configs": {"a": {"cleanup.policy": "compact"}}, "at": 2}
    pending = {"a": {"cleanup.policy": "compact"}, "b": {"x": None}}
    changed = {"configs": {"a": {"cleanup.policy": "delete"}}, "pending": pending, "at": 3}
    done = {"configs": {"a": {"cleanup.policy": "delete"}}, "at": 4}
    assert folded(compacted).compacted_until == {"a": 1}
    assert folded(compacted, other).compacted_until == {"a": 2}
    assert folded(compacted, other, changed, done).compacted_until == {"a": 3}


def test_a_creation_is_open_until_it_is_closed() -> None:
    announced = {"creations": {"primary.a": {}, "primary.b": {"x": "1"}}}
    assert folded(announced).creations == {"primary.a": {}, "primary.b": {"x": "1"}}
    assert folded(announced, {"creations": {"primary.b": None}}).creations == {"primary.a": {}}


def test_what_was_granted_and_not_revoked_is_there() -> None:
    granted = {"acls": (AclChange(ANNA, "grant"), AclChange(BEN, "grant"))}
    revoked = {"acls": (AclChange(ANNA, "revoke"),)}
    assert folded(granted, revoked).acls == {BEN}
    assert folded(granted, revoked, granted).acls == {ANNA, BEN}


def test_a_quota_may_have_its_old_value_or_its_new_one_until_the_change_is_confirmed() -> None:
    def changed(value: float | None, before: float | None) -> dict[str, object]:
        return {"quotas": (QuotaChange(USER, RATE, value, before),)}

    made = [changed(1.0, None), changed(1.0, 1.0)]
    assert folded(made[0]).quotas == {(USER, RATE): {None, 1.0}}
    assert folded(*made).quotas == {(USER, RATE): {1.0}}
    assert folded(*made, changed(2.5, 1.0)).quotas == {(USER, RATE): {1.0, 2.5}}
    assert folded(*made, changed(None, 1.0)).quotas == {(USER, RATE): {1.0, None}}
    assert folded(*made, changed(None, 1.0), changed(None, None)).quotas == {}
    # 9 was another client's value: it is not the flow's own.
    assert folded(changed(1.0, 9.0)).quotas == {(USER, RATE): {1.0}}


def test_users_are_known_by_name_and_mechanism() -> None:
    def changed(mechanism: str, change: str) -> dict[str, object]:
        return {"users": (UserChange("anna", mechanism, 4096, change),)}  # type: ignore[arg-type]

    made = [changed("SCRAM-SHA-256", "create"), changed("SCRAM-SHA-512", "create")]
    assert folded(*made, changed("SCRAM-SHA-256", "delete")).users == {("anna", "SCRAM-SHA-512")}


GRANTED: dict[str, object] = {"acls": (AclChange(ANNA, "grant"),)}
CREATED: dict[str, object] = {"users": (UserChange("anna", "SCRAM-SHA-512", 4096, "create"),)}


def test_each_thing_was_created_for_the_cluster_that_its_newest_entry_names() -> None:
    both = GRANTED | CREATED | {"quotas": (QuotaChange(USER, RATE, 1.0, None),)}
    again = {"acls": (AclChange(ANNA, "grant"),), "source_cluster_id": "T"}
    # It confirms what was set before.
    confirmed = {"quotas": (QuotaChange(USER, RATE, 1.0, 1.0),), "source_cluster_id": "T"}
    applied = folded(both | {"source_cluster_id": "S"}, again, confirmed)
    assert applied.created_for == {ANNA: "T", ("anna", "SCRAM-SHA-512"): "S", (USER, RATE): "S"}


def test_what_is_gone_was_created_for_none() -> None:
    revoked = {"acls": (AclChange(ANNA, "revoke"),), "source_cluster_id": "S"}
    assert folded(GRANTED | {"source_cluster_id": "S"}, revoked).created_for == {}


def test_a_topic_that_is_back_is_not_missed() -> None:
    assert folded({"missed": {"a": 5, "b": 6}}, {"missed": {"a": 0}}).missed == {"b": 6}
