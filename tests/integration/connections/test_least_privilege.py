"""With the rights of its list a flow does everything, and without one of them an error names it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest

from kafka_ferry.model.rights import Right, grant_commands
from kafka_ferry.runs.rights import NEEDS, NeededRight, needed_rights
from kafka_sandbox.cluster import start_all
from kafka_sandbox.logins.secure import Authority, SecureBroker
from tests.support.brokers.access import acls_of
from tests.support.brokers.kafka_tools import acls
from tests.support.runs.rights import (
    PASSWORD,
    PRINCIPAL,
    USER,
    Brokers,
    Options,
    Scene,
    acl_of,
    commands_in,
    flow_with_many_options,
    grant,
    granted_by,
    is_refusal,
    steps_of,
)

pytestmark = pytest.mark.usefixtures("without_spark")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Two brokers on which a client with a login may do only what an ACL allows."""
    home, authority = tmp_path_factory.mktemp("least"), Authority("root")
    strict = {"allow.everyone.if.no.acl.found": "false"}
    found = [
        SecureBroker(home / name, authority, {USER: PASSWORD}, config=strict) for name in ("a", "b")
    ]
    start_all(found)
    yield {"source": found[0], "target": found[1]}
    for broker in found:
        broker.wipe()


@pytest.mark.parametrize("options", get_args(Options))
@pytest.mark.short("all")
def test_the_listed_rights_are_all_that_a_flow_needs(
    folder: Path, brokers: Brokers, options: Options
) -> None:
    scene = Scene.of(folder, brokers, options)
    grant(brokers, needed_rights(scene.flow))

    steps = list(scene.runs())

    assert "\n".join(failure for step in steps for failure in step.failures) == ""
    assert "\n".join(note for step in steps for note in step.notes if is_refusal(note)) == ""
    scene.assert_done()


def _rights() -> Iterator[tuple[Options, int, NeededRight]]:
    """Each right of a flow with all options, and those that only one with others needs."""
    seen = set()
    with TemporaryDirectory() as folder:
        home = Path(folder) / "primary"
        home.mkdir()
        for options in get_args(Options):
            for index, it in enumerate(needed_rights(flow_with_many_options(home, None, options))):
                # Since Kafka 3.8, ALTER is enough for it (KIP-1037).
                unmissed = options == "all" and it.right.operation == "CLUSTER_ACTION"
                if (it.side, it.right) not in seen and not unmissed:
                    seen.add((it.side, it.right))
                    yield options, index, it


RIGHTS = list(_rights())


def test_every_line_of_the_list_is_taken_away_below() -> None:
    operations = {(it.side, it.right.resource_type, it.right.operation) for *_, it in RIGHTS}
    lines = {
        (side, need.on[0], operation)
        for side, needs in NEEDS.items()
        for need in needs
        for operation in need.operations
    }
    assert lines == operations


@pytest.mark.short(
    "source: READ on topics with the prefix primary-",
    "target: WRITE on topics with the prefix primary.primary-",
    "target: READ on the group ferry.primary->primary-backup",
    "target: ALTER on the cluster",
)
@pytest.mark.parametrize(
    ("options", "index"),
    [(options, index) for options, index, _ in RIGHTS],
    ids=[f"{it.side}: {it.right}" for *_, it in RIGHTS],
)
def test_a_right_that_is_missing_is_named_with_the_command_that_grants_it(
    folder: Path, brokers: Brokers, caplog: pytest.LogCaptureFixture, options: Options, index: int
) -> None:
    scene = Scene.of(folder, brokers, options)
    needed = needed_rights(scene.flow)
    taken = needed[index].right
    grant(brokers, [it for it in needed if it.right != taken or it.side != needed[index].side])
    said: list[str] = []

    for step in scene.runs():
        said += [*step.failures, *step.notes, *caplog.messages]
        if any(taken.implies(it) for it in granted_by(said)):
            break
    else:
        pytest.fail(f"{taken} is missing, and nothing says so:\n" + "\n".join(said))


@pytest.mark.long
def test_the_commands_of_an_error_and_of_the_list_grant_the_rights_and_the_next_run_goes_on(
    folder: Path, brokers: Brokers
) -> None:
    scene = Scene.of(folder, brokers)
    needed = needed_rights(scene.flow)
    taken = [it for it in needed if it.right.resource_type == "TRANSACTIONAL_ID"]
    grant(brokers, [it for it in needed if it not in taken])
    steps = steps_of(scene.flow, "run-1")
    said = [sentence for step in steps for sentence in step.failures]
    (command,) = commands_in(said)

    begin = command.replace("BROKER", brokers["target"].bootstrap).replace("User:NAME", PRINCIPAL)
    acls(*shlex.split(begin)[1:])

    right = Right.transactional_id("WRITE", f"ferry.{scene.flow.name}.run")
    assert granted_by(said) == {right}
    assert acl_of(right) in acls_of(brokers["target"])
    for side, broker in brokers.items():
        rights = [it.right for it in needed if it.side == side]
        for granting in grant_commands(rights, principal=PRINCIPAL, bootstrap=broker.bootstrap):
            acls(*shlex.split(granting)[1:])
        assert {acl_of(it) for it in rights} <= acls_of(broker)
    for step in steps_of(scene.flow, "run-2"):
        assert "\n".join(step.failures) == ""
