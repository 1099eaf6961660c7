"""Subjects are mirrored whole, in the order of their references, and only what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.model.schemas import SchemaVersion, SubjectSetting
from kafka_ferry.schemas.ids import MirroredSchema
from kafka_ferry.schemas.mirror import SchemaMirror, schemas_in_both
from kafka_ferry.schemas.registered import RegisteredSchema
from kafka_ferry.schemas.registry import RegistryRefused
from kafka_ferry.schemas.subjects import SubjectNames
from tests.support.servers.registries import MemoryRegistry

NAMES = SubjectNames({"orders": "p.orders"})
CITY = ("geo.City", SchemaVersion("geo.City", 1))


@pytest.fixture
def source() -> MemoryRegistry:
    registry = MemoryRegistry(first_id=100)
    registry.add("geo.City", "city")
    registry.add("orders-value", "one", CITY)
    registry.add("orders-value", "two", CITY)
    return registry


def mirrored(
    source: MemoryRegistry,
    target: MemoryRegistry,
    *subjects: str,
    changes: bool = True,
    keep_ids: bool = False,
) -> SchemaMirror:
    mirror = SchemaMirror(source, target, NAMES, keep_ids=keep_ids, changes=changes)
    mirror.mirror(subjects or ("orders-value",))
    return mirror


def test_what_a_schema_refers_to_is_registered_before_it_and_only_once(
    source: MemoryRegistry,
) -> None:
    target = MemoryRegistry()

    found = mirrored(source, target)

    assert target.requests == [
        "register geo.City version 1",
        "register p.orders-value version 1",
        "register p.orders-value version 2",
    ]
    ids = {it.source_id: it.target_id for it in found.mirrored.values()}
    assert ids == {100: 1, 101: 2, 102: 3}
    assert not mirrored(source, target).missing
    assert len(target.requests) == 3


def test_a_plan_registers_nothing_and_names_what_is_missing(source: MemoryRegistry) -> None:
    target = MemoryRegistry()
    source.set_level("orders-value", "FULL")

    found = mirrored(source, target, changes=False)

    assert target.requests == []
    assert [str(at) for at in found.missing] == [
        "geo.City version 1",
        "orders-value version 1",
        "orders-value version 2",
    ]
    assert found.settings == [SubjectSetting("p.orders-value", "compatibility", "FULL", "")]


def test_a_reference_is_to_the_version_that_the_schema_has_on_the_target(
    source: MemoryRegistry,
) -> None:
    target = MemoryRegistry()
    target.add("geo.City", "an older city")

    mirrored(source, target)

    (reference,) = target.schema(SchemaVersion("p.orders-value", 1)).references
    assert reference == ("geo.City", SchemaVersion("geo.City", 2))


def test_a_guid_that_a_moved_reference_changes_is_mapped_too(source: MemoryRegistry) -> None:
    target = MemoryRegistry()
    target.add("geo.City", "an older city")

    found = mirrored(source, target).mirrored.values()

    assert [it.source_guid == it.target_guid for it in found] == [True, False, False]


def test_levels_and_modes_are_those_of_the_source_and_nothing_else_is_changed(
    source: MemoryRegistry,
) -> None:
    target = MemoryRegistry()
    source.set_level("orders-value", "NONE")
    source.set_mode("orders-value", "READONLY")
    target.set_level("geo.City", "FULL")
    target.requests.clear()

    mirrored(source, target)

    # The level holds before the second version comes, and the mode after the last one.
    assert target.requests == [
        "register geo.City version 1",
        "register p.orders-value version 1",
        "level p.orders-value NONE",
        "register p.orders-value version 2",
        "mode p.orders-value READONLY",
    ]


def test_what_is_referred_to_has_the_level_of_the_source_too(source: MemoryRegistry) -> None:
    target = MemoryRegistry()
    source.set_level("geo.City", "FULL_TRANSITIVE")
    mirrored(source, target)
    assert target.requests[-1] == "level geo.City FULL_TRANSITIVE"


def test_a_subject_that_others_use_on_the_target_keeps_its_level(source: MemoryRegistry) -> None:
    """A producer of the source chooses what its schemas refer to."""
    target = MemoryRegistry()
    target.add("geo.City", "an older city")
    source.set_level("geo.City", "NONE")
    mirrored(source, target)
    assert target.level("geo.City") == ""
    # Where the flow names it, it is the flow's.
    mirrored(source, target, "orders-value", "geo.City")
    assert target.level("geo.City") == "NONE"


@pytest.mark.parametrize("name", ["", ".", "..", ":.:", ":.team:"])
def test_what_would_be_a_setting_of_a_whole_registry_is_no_subject(
    source: MemoryRegistry, name: str
) -> None:
    """A registry may say that a schema refers to anything."""
    target = MemoryRegistry()
    source.add(name, "all")
    source.add("orders-value", "three", ("all", SchemaVersion(name, 1)))
    source.set_level(name, "NONE")

    found = mirrored(source, target)

    assert found.problems == [f"{name} version 1 is not mirrored: that is no subject's name."]
    assert found.missing == [SchemaVersion(name, 1), SchemaVersion("orders-value", 3)]
    assert {it.split()[1] for it in target.requests} == {"geo.City", "p.orders-value"}


def test_what_the_target_refuses_is_told_and_stops_what_refers_to_it(
    source: MemoryRegistry,
) -> None:
    target = MemoryRegistry()
    target.refused.add("city")
    source.add("payments-value", "payment")

    found = mirrored(source, target, "orders-value", "payments-value")

    assert found.problems == ["geo.City version 1 is refused."]
    assert target.requests == ["register payments-value version 1"]
    assert [str(at) for at in found.missing][1:] == [
        "orders-value version 1",
        "orders-value version 2",
    ]


def test_a_schema_that_the_target_does_not_look_for_is_told_and_stops_no_other(
    source: MemoryRegistry,
) -> None:
    class Strict(MemoryRegistry):
        def find(self, schema: RegisteredSchema) -> RegisteredSchema | None:
            if schema.text == "one":
                raise RegistryRefused("Invalid schema (422).")
            return super().find(schema)

    target = Strict()
    for changes in (True, False):
        found = mirrored(source, target, changes=changes)
        assert found.problems == ["Invalid schema (422)."]
    assert {*found.mirrored} == {CITY[1], SchemaVersion("orders-value", 2)}


@pytest.mark.parametrize(
    ("side", "asked"),
    [
        ("source", "level"),
        ("source", "mode"),
        ("source", "versions"),
        ("target", "level"),
        ("target", "mode"),
    ],
)
def test_what_a_registry_does_not_tell_of_a_subject_is_told_and_stops_no_other(
    source: MemoryRegistry, monkeypatch: pytest.MonkeyPatch, side: str, asked: str
) -> None:
    target = MemoryRegistry()
    source.add("clicks-value", "three")
    for subject in ("orders-value", "clicks-value"):
        source.set_level(subject, "FULL")
        source.set_mode(subject, "READWRITE")
    registry = source if side == "source" else target
    tells = getattr(registry, asked)

    def tell(subject: str) -> object:
        if "orders" in subject:
            raise RegistryRefused(f"{subject} is refused.")
        return tells(subject)

    monkeypatch.setattr(registry, asked, tell)

    found = mirrored(source, target, "orders-value", "clicks-value")

    assert {it.subject for it in found.mirrored.values()} >= {"clicks-value"}
    assert ("p.orders-value" in target.subjects()) == (asked != "versions")
    assert target.level("clicks-value") == "FULL"
    (problem,) = found.problems
    assert problem.endswith("orders-value is refused.")


def test_two_schemas_of_one_id_are_told_and_stop_no_other(source: MemoryRegistry) -> None:
    """No honest registry has them, and records that hold the id may mean either."""
    schema = source.add("clicks-value", "three")
    first = source.schema(SchemaVersion("orders-value", 1))
    source.put(replace(schema, id=first.id))

    found = mirrored(source, MemoryRegistry(), "orders-value", "clicks-value")

    assert [str(at) for at in found.missing] == ["clicks-value version 1"]
    (problem,) = found.problems
    assert "clicks-value version 1 is not mirrored: another schema has its id 101" in problem


def test_what_the_target_takes_and_does_not_keep_is_told(source: MemoryRegistry) -> None:
    class Forgetful(MemoryRegistry):
        def register(self, schema: RegisteredSchema, *, with_id: bool) -> None:
            if schema.text != "one":
                super().register(schema, with_id=with_id)

    found = mirrored(source, Forgetful())

    assert found.problems == [
        "The target's registry has taken p.orders-value version 1, and does not have it."
    ]


def test_schemas_that_wait_for_others_are_not_larger_than_memory(
    source: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_ferry.schemas.mirror._MOST_TEXT", 100)
    source.add("large", "x" * 90, CITY)
    source.add("a-value", "y" * 20, ("large", SchemaVersion("large", 1)))

    found = mirrored(source, MemoryRegistry(), "a-value", "orders-value")

    assert found.problems == [
        "large version 1 is not mirrored: it and what leads to it have more than 100 characters."
    ]
    assert SchemaVersion("orders-value", 2) in found.mirrored


def test_a_reference_that_is_deleted_on_the_source_is_told(source: MemoryRegistry) -> None:
    source.delete("geo.City")

    found = mirrored(source, MemoryRegistry())

    assert found.problems == ["geo.City version 1 is not there"]
    assert not found.mirrored


def test_kept_ids_need_the_import_mode_which_subjects_are_given(source: MemoryRegistry) -> None:
    target = MemoryRegistry()
    source.add("geo.City", "a city with a gap before it", version=7)

    found = mirrored(source, target, "geo.City", keep_ids=True)

    assert target.requests == [
        "mode geo.City IMPORT",
        "register geo.City version 1",
        "register geo.City version 7",
    ]
    assert [(it.source_id, it.target_id, it.version) for it in found.mirrored.values()] == [
        (100, 100, 1),
        (103, 103, 7),
    ]
    assert not found.problems


def test_a_target_in_import_mode_is_left_as_it_is(source: MemoryRegistry) -> None:
    target = MemoryRegistry(mode="IMPORT")

    mirrored(source, target, "geo.City", keep_ids=True)

    assert target.requests == ["register geo.City version 1"]


def test_an_id_that_is_taken_on_the_target_is_told(source: MemoryRegistry) -> None:
    target = MemoryRegistry()
    target.add("geo.City", "city")

    found = mirrored(source, target, "geo.City", keep_ids=True)

    (problem,) = found.problems
    assert "geo.City version 1 has the id 1 on the target, and not 100 as on the source" in problem


def test_what_was_stored_counts_as_far_as_both_registries_still_have_it() -> None:
    source, target = MemoryRegistry(first_id=1), MemoryRegistry(first_id=5)
    here, there = source.add("x", "one"), target.add("a", "one")
    known = MirroredSchema(1, 5, "a", 1, source_digest=here.digest, target_digest=there.digest)
    others = [
        {"source_id": 2},
        {"source_digest": ""},
        {"target_id": 6},
        {"target_digest": ""},
        {"subject": "gone"},
    ]
    stored = [known, *(replace(known, **it) for it in others)]

    assert [*schemas_in_both(source, target, stored)] == [known]


def test_what_was_stored_makes_one_schema_of_two_only_where_the_registries_do() -> None:
    """A client that writes in the state folder knows what both registries have, and may pair it as it likes."""
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    here, there, other = source.add("x", "one"), target.add("a", "one"), target.add("a", "two")
    known = paired(here, there)

    forged = [
        replace(known, source_guid=source.add("y", "more").guid),
        replace(known, target_guid=other.guid),
    ]

    assert [*schemas_in_both(source, target, [known, paired(here, other)])] == [known]
    without = replace(known, source_guid="", target_guid="")
    assert [*schemas_in_both(source, target, forged)] == [without, without]


def test_what_a_stored_schema_refers_to_must_be_the_same_too() -> None:
    source, target = MemoryRegistry(first_id=100), MemoryRegistry()
    city, other = target.add("city", "city"), target.add("city", "other")
    here = source.add("x", "one", ("city", source.add("city", "city").at))
    same, unlike = (target.add("a", "one", ("city", it.at)) for it in (city, other))
    renamed = target.add("a", "one", ("town", city.at))

    stored = [paired(here, it) for it in (same, unlike, renamed)]

    assert [*schemas_in_both(source, target, stored)] == stored[:1]
    # What is deleted by now cannot be compared.
    source.delete("city")
    assert [*schemas_in_both(source, target, stored)] == stored[:2]


def test_a_stored_schema_may_be_written_otherwise_where_the_target_says_that_it_is_the_same() -> (
    None
):
    class Normal(MemoryRegistry):
        def find(self, schema: RegisteredSchema) -> RegisteredSchema | None:
            return super().find(replace(schema, text=schema.text.replace(" ", "")))

    source, target = MemoryRegistry(first_id=100), Normal()
    stored = [paired(source.add("x", '{ "a" }'), target.add("a", '{"a"}'))]

    assert [*schemas_in_both(source, target, stored)] == stored


def paired(here: RegisteredSchema, there: RegisteredSchema) -> MirroredSchema:
    ids = here.id, there.id, there.at.subject, there.at.version
    return MirroredSchema(*ids, here.guid, there.guid, here.digest, there.digest)


def test_a_long_row_of_references_stops_at_some_and_stops_nothing_else(
    source: MemoryRegistry,
) -> None:
    """A client that may register schemas on the source could otherwise stop the whole flow."""
    source.add("chain", "0")
    for number in range(1, 1_000):
        source.add("chain", str(number), ("before", SchemaVersion("chain", number)))
    source.add("orders-value", "three", ("chain", SchemaVersion("chain", 1_000)))

    found = mirrored(source, MemoryRegistry())

    assert {102, 101} <= {it.source_id for it in found.mirrored.values()}
    assert SchemaVersion("orders-value", 3) in found.missing
    assert any("more than 64 references in a row" in it for it in found.problems)


@pytest.mark.parametrize("between", [63, 64])
def test_a_schema_at_the_end_of_a_long_row_is_mirrored_where_it_is_near(
    source: MemoryRegistry, between: int
) -> None:
    """It is another topic's, whose records would not be read on the target."""
    before = SchemaVersion("orders-value", 1)
    for number in range(between):
        source.add("chain", str(number), ("before", before))
        before = SchemaVersion("chain", number + 1)
    source.add("a-value", "far", ("before", before))

    found = mirrored(source, MemoryRegistry(), "a-value", "orders-value")

    assert {SchemaVersion("orders-value", 1), SchemaVersion("orders-value", 2)} <= {*found.mirrored}
    assert SchemaVersion("a-value", 1) in found.missing
    assert not {*found.missing} & {*found.mirrored}


def test_a_schema_of_another_context_gives_records_no_ids(source: MemoryRegistry) -> None:
    """Each context has ids of its own, and a client that may register schemas refers to any of them."""
    context = MemoryRegistry(first_id=101)
    other = context.add(":.mine:other", "other")
    source.put(other)
    source.add("z-value", "refers", ("other", other.at))

    found = mirrored(source, MemoryRegistry(), "orders-value", "z-value")

    assert other.id == 101 and found.mirrored[other.at]
    assert found.of_records[101] == found.mirrored[SchemaVersion("orders-value", 1)]
    assert found.digests[101] == source.schema(SchemaVersion("orders-value", 1)).digest
