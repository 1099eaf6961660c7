"""Two clusters on which a flow may do what its list of rights says, and a flow that needs all of them."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from kafka_ferry.certificates import stored_certificates
from kafka_ferry.config import Cluster, Flow, load_flow
from kafka_ferry.config.client.cluster import ClientProperties
from kafka_ferry.control import ClusterControl
from kafka_ferry.control.groups import GroupControl
from kafka_ferry.errors import FerryError
from kafka_ferry.model import TopicPartition
from kafka_ferry.model.changes import Acl
from kafka_ferry.model.groups import Committed, Group
from kafka_ferry.model.remarks import PlanRemarks
from kafka_ferry.model.rights import CLUSTER_NAME, ResourceType, Right
from kafka_ferry.runs import Run
from kafka_ferry.runs.mirror.mirror import Copying
from kafka_ferry.runs.publish.publish import publish_run
from kafka_ferry.runs.rights import NeededRight, Side
from kafka_ferry.wire import WireCluster
from kafka_ferry.wire.access.acls import create_acls, delete_acls, describe_acls
from kafka_sandbox.logins.secure import SecureBroker
from tests.support.brokers.access import add_user, allow, set_quota
from tests.support.brokers.secure import login
from tests.support.records.builders import (
    Record,
    add_partitions,
    create_topic,
    delete_before,
    delete_topic,
    produce,
    read_all,
    set_config,
)
from tests.support.runs.flows import assert_same, copy_now, copy_planned, failures, make_flow
from tests.support.runs.proof import NO_SPARK
from tests.support.runs.topologies import delete_groups

_T = TypeVar("_T")

USER: Final = "ferry"
PASSWORD: Final = "of-the-flow"
PRINCIPAL: Final = f"User:{USER}"
_LARGE: Final = 20_000

_OTHERS: Final[dict[str, object]] = {
    "sync.topic.acls.enabled": False,
    "sync.scram.users.enabled": False,
    "sync.topic.configs.enabled": False,
    "offset-syncs.topic.location": "target",
    "on.foreign.records": "adopt",
    "on.returned.records": "leave-out",
}

Options = Literal["all", "others"]
Brokers = dict[Side, SecureBroker]


def acl_of(right: Right) -> Acl:
    """The ACL that gives the flow's principal a right."""
    return Acl(
        right.resource_type,
        right.name,
        right.pattern_type,
        PRINCIPAL,
        "*",
        right.operation,
        "ALLOW",
    )


def grant(brokers: Brokers, needed: Iterable[NeededRight]) -> None:
    """Give the flow's principal exactly these rights; returns when the brokers have heard of it."""
    acls: dict[Side, set[Acl]] = {"source": set(), "target": set()}
    for it in needed:
        acls[it.side].add(acl_of(it.right))
    for side, wanted in acls.items():
        with WireCluster(side, {"bootstrap_servers": [brokers[side].bootstrap]}) as cluster:
            there = _acls_of_the_flow(cluster)
            assert not delete_acls(cluster, there - wanted)
            assert not create_acls(cluster, wanted - there)
            while _acls_of_the_flow(cluster) != wanted:
                time.sleep(0.01)


def _acls_of_the_flow(cluster: WireCluster) -> set[Acl]:
    return {acl for acl in describe_acls(cluster) if acl.principal == PRINCIPAL}


@dataclass
class Scene:
    """A flow that uses every right of its list, on topics, groups and users of its own.

    Attributes:
        folder: for the flows' files.
        brokers: the two clusters.
        flow: the flow, which logs in as the principal with few rights.
    """

    folder: Path
    brokers: Brokers
    flow: Flow

    @classmethod
    def of(cls, folder: Path, brokers: Brokers, options: Options = "all") -> Scene:
        """Everything that there is before the first run."""
        scene = cls(folder, brokers, flow_with_many_options(folder, brokers, options))
        scene._prepare()
        return scene

    @property
    def name(self) -> str:
        """The source's alias, and the beginning of all names."""
        return self.folder.name

    def called(self, name: str) -> str:
        """A topic or group of this scene."""
        return f"{self.name}-{name}"

    def runs(self) -> Iterator[Step]:
        """The steps of two runs."""
        yield from steps_of(self.flow, "run-1")
        self.go_on()
        yield from steps_of(self.flow, "run-2")

    def go_on(self) -> None:
        """What happens on the source between the two runs."""
        source = self.brokers["source"]
        add_partitions(source, self.called("orders"), 2)
        set_config(source, self.called("orders"), "retention.ms", "987654321")
        produce(source.bootstrap, self.called("orders"), [Record(key=b"new", partition=1)])
        delete_before(source, self.called("preserved"), 5)
        delete_topic(source, self.called("retired"))
        delete_groups(source, [self.called("leaver")])
        allow(source, f"topic {self.called('orders')}: app-{self.name} ALLOW DESCRIBE")
        if self.flow.on_foreign_records == "adopt":
            stranger = f"stranger-{self.name}"
            create_topic(source.bootstrap, stranger)
            produce(source.bootstrap, stranger, [Record(key=b"other")])
            _copy(self._other("source", "target", stranger, f"{self.name}.{self.called('orders')}"))

    def assert_done(self) -> None:
        """After both runs: topics are copied, one is deleted, the group is moved, and it is certified."""
        source, target = self.brokers["source"], self.brokers["target"]
        there = ClusterControl(self._plain("target")).topic_names()
        assert f"{self.name}.{self.called('retired')}" not in there
        leaves_out = self.flow.on_returned_records == "leave-out"
        assert (f"{self.name}.{self.called('imported')}" in there) == leaves_out
        copied = ["preserved"]
        # Another flow writes to it too.
        copied += ["orders"] if self.flow.on_foreign_records == "fail" else []
        for topic in map(self.called, copied):
            assert_same(source, topic, target, f"{self.name}.{topic}")
        rejected = read_all(target.bootstrap, self.flow.dead_letter_name)
        assert [len(record.value or b"") for record in rejected[0]] == [_LARGE]
        with GroupControl(self._plain("target")) as groups:
            names = self.called("billing"), self.called("leaver")
            moved, left = groups.committed_offsets([*map(Group, names)]).values()
        assert not isinstance(moved, FerryError)
        # The transaction with the rejected record was written twice.
        ((at, committed),) = moved.items()
        read = {it.offset: it.key for it in read_all(target.bootstrap, at.topic)[0]}
        assert read[committed.offset] == b"10"
        assert left == {}
        assert len(stored_certificates(self._plain("target"), self.name, self.flow.name)) == 2

    def _plain(self, side: Side) -> Cluster:
        values = {"bootstrap.servers": self.brokers[side].bootstrap}
        return Cluster(alias=side, properties=ClientProperties(values))

    def _prepare(self) -> None:
        source = self.brokers["source"]
        records = [Record(key=b"%d" % number, partition=0) for number in range(20)]
        for topic in ("orders", "retired", "started", "bulky"):
            create_topic(source.bootstrap, self.called(topic))
            produce(source.bootstrap, self.called(topic), records)
        produce(source.bootstrap, self.called("bulky"), [Record(value=b"x" * _LARGE)])
        create_topic(source.bootstrap, self.called("preserved"))
        for _ in range(2):
            produce(
                source.bootstrap,
                self.called("preserved"),
                records,
                transactional_id=f"application-{self.name}",
            )
        with GroupControl(self._plain("source")) as groups:
            half = {TopicPartition(self.called("orders"), 0): Committed(10)}
            started = {TopicPartition(self.called("started"), 0): Committed(10)}
            names = (self.called("billing"), self.called("leaver"))
            assert not groups.commit({Group(name): half for name in names})
            assert not groups.commit({Group(f"start-{self.name}"): started})
        user = f"app-{self.name}"
        allow(source, f"topic {self.called('orders')}: {user} ALLOW READ")
        set_quota(source, (("user", user),), "producer_byte_rate", 1e6)
        add_user(source, user, "secret")
        # It has one name whichever flow creates it.
        target = self.brokers["target"]
        if "heartbeats" in ClusterControl(self._plain("target")).topic_names():
            delete_topic(target, "heartbeats")
        # Other flows into both clusters.
        create_topic(target.bootstrap, self.called("news"))
        produce(target.bootstrap, self.called("news"), records)
        _copy(self._other("target", "source", self.called("news"), self.called("imported")))
        with GroupControl(self._plain("target")) as groups:
            there = {TopicPartition(self.called("news"), 0): Committed(1)}
            assert not groups.commit({Group(f"ferry.another->{self.flow.target.alias}"): there})

    def _other(self, source: Side, target: Side, topic: str, remote: str) -> Flow:
        """A flow that may do everything, and copies one topic to a topic of that name.

        From the target it is the opposite flow, if this one leaves out what came from there.
        """
        leaves_out = self.flow.on_returned_records == "leave-out"
        opposite = leaves_out and source == "target"
        of_flow = self.flow.target.alias, self.flow.source.alias
        others = f"{self.name}-from-{source}", f"{self.name}-into-{target}"
        alias, into = of_flow if opposite else others
        folder = self.folder / alias
        return make_flow(
            folder,
            self.brokers[source],
            self.brokers[target],
            [topic],
            into=into,
            topics_rename={topic: remote},
            on_foreign_records="adopt",
            sync_topic_acls_enabled=False,
        )


def _copy(flow: Flow) -> None:
    assert not failures(copy_now(flow))


def flow_with_many_options(
    folder: Path, brokers: Brokers | None = None, which: Options = "all"
) -> Flow:
    """A flow that needs most rights of the list; the folder's name is the source's alias.

    Some rights cannot be missed where there are others: those take ``other`` options.
    """
    name = folder.name
    passwords = folder / "passwords.properties"
    passwords.write_text(f"app-{name}=secret\n")

    def side(which: Side, alias: str) -> dict[str, str]:
        return {
            "alias": alias,
            "bootstrap.servers": brokers[which].listener("SASL_PLAINTEXT")
            if brokers
            else f"{which}:9092",
            "security.protocol": "SASL_PLAINTEXT",
            **login("PLAIN", USER, PASSWORD),
        }

    options: dict[str, object] = {
        "source": side("source", name),
        "target": side("target", f"{name}-backup"),
        "groups": [f"{name}-.*"],
        "offsets": {f"{name}-preserved": "preserved"},
        "fill": "markers",
        "topics.start": {f"{name}-started": f"group=start-{name}"},
        "topics.configs": {f"{name}-bulky": {"max.message.bytes": 10_000}},
        "sync.group.offsets.enabled": True,
        "on.source.group.deleted": "delete",
        "on.source.topic.deleted": "retire",
        "retire.after.ms": 0,
        "on.rejected.record": "dead-letter",
        "emit.heartbeats.enabled": True,
        "emit.offset-syncs.enabled": True,
        "certificates.enabled": True,
        "acls.principals": [f"RULE:^User:app-{name}$/User:app-{name}/"],
        "sync.client.quotas.enabled": True,
        "sync.scram.users.enabled": True,
        "scram.passwords.file": str(passwords),
        **(_OTHERS if which == "others" else {}),
        "topics": [f"{name}-.*"],
        "replication.factor": -1,
        "writers": 1,
        "state.dir": str(folder / "state"),
    }
    file = folder / "flow.yaml"
    # JSON is YAML.
    file.write_text(json.dumps(options))
    return load_flow(file)


@dataclass(frozen=True)
class Step:
    """What a step of a run says.

    Attributes:
        failures: why it, or a part of it, failed.
        notes: what it says of all that it could not find out.
    """

    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def steps_of(flow: Flow, run: str) -> Iterator[Step]:
    """The steps of a run without Spark; it ends where topics cannot be planned or created."""
    this = Run(flow, run)
    for making in (this.plan, this.sync_topics):
        said, plan = _attempt(making)
        remarks = plan.remarks if plan else PlanRemarks()
        refused = (*remarks.refused, *remarks.unapplied)
        yield Step((*said, *map(str, refused)), tuple(map(str, remarks.notes)))
        if plan is None:
            return
        planned = plan
    yield Step(_attempt(lambda: Copying(this._context).begin(planned))[0])
    said, outcomes = _attempt(lambda: copy_planned(flow, planned))
    yield Step((*said, *(str(it.failure) for it in outcomes or () if it.failure)))
    # What others have written between this run and the one before belongs to both.
    yield Step(_attempt(lambda: this.verify(NO_SPARK, everything=True))[0])
    said, _ = _attempt(this.sync_groups)
    moves = this._folder.groups()
    yield Step(said, moves.notes if moves else ())
    said, report = _attempt(lambda: publish_run(this._context, ["plan", "verify"]))
    yield Step(said, report.measures.missing if report else ())


def _attempt(step: Callable[[], _T]) -> tuple[tuple[str, ...], _T | None]:
    try:
        return (), step()
    except FerryError as error:
        return (str(error),), None


def commands_in(sentences: Iterable[str]) -> set[str]:
    """The commands in error messages that grant rights."""
    return {
        command
        for sentence in sentences
        for command in re.findall(r"`(kafka-acls\.sh [^`]+)`", sentence)
    }


def granted_by(sentences: Iterable[str]) -> set[Right]:
    """The rights that commands in error messages grant, where the message names operation and resource too."""
    whole = "\n".join(sentences)
    found = {it for command in commands_in([whole]) for it in _rights_of(shlex.split(command))}
    return {right for right in found if f"{right}" in whole}


def _rights_of(words: Sequence[str]) -> Iterator[Right]:
    kinds: dict[str, ResourceType] = {
        "--topic": "TOPIC",
        "--group": "GROUP",
        "--transactional-id": "TRANSACTIONAL_ID",
        "--cluster": "CLUSTER",
    }
    (option,) = kinds.keys() & set(words)
    name = CLUSTER_NAME if option == "--cluster" else words[words.index(option) + 1]
    for at, word in enumerate(words):
        if word == "--operation":
            operation = re.sub("(?<!^)(?=[A-Z])", "_", words[at + 1]).upper()
            yield Right(kinds[option], name, operation, "prefixed" in words)


def is_refusal(sentence: str) -> bool:
    """Whether a sentence says that something was not allowed, or has failed."""
    return any(word in sentence for word in ("AUTHORIZATION_FAILED", "kafka-acls.sh", "Grant "))
