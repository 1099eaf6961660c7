"""What certificates say, and whether that is true (oracle h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kafka_ferry.batches import Reason
from kafka_ferry.certificates import CertificateError
from kafka_ferry.certificates.chain import faults_of_chain
from kafka_ferry.errors import FerryError
from kafka_ferry.model.ranges import TopicPartition
from kafka_ferry.runs.certificates import (
    FoundCertificates,
    faults_of,
    find_certificates,
    restore_certificates,
)
from tests.simulation.world import Killed, Process

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.simulation.oracles.runs import Oracles

_FILE: Final = "signing.pem"
_KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))
_PUBLIC: Final = (_KEY.public_key(),)


def certificate_options(folder: Path) -> dict[str, object]:
    """The options of a flow that signs certificates; its key is in a folder."""
    pem = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / _FILE).write_bytes(pem)
    return {
        "certificates.enabled": True,
        "certificates.key": f"${{dir:{folder}:{_FILE}}}",
        "config.providers": "dir",
    }


def check_certified(way: Oracles, run: str) -> None:
    """Whether what the last run has certified is on the target, unless the target lost it while it was signed."""
    found = _found(way)
    newest = found.all[-1] if found and found.all else None
    if newest is None or newest.header.run != run or way.harmed_at >= way.published:
        return
    if newest.header.issued_at < way.wall_ms(way.published):
        return
    letters = {*way.letters()}
    later = {value for value, at in way.ended_again.items() if at >= way.began}
    for range_ in newest.ranges():
        source = TopicPartition(str(range_["topic"]), int(range_["partition"]))
        target = TopicPartition(str(range_["remote_topic"]), source.partition)
        log, there = way.source.log(source), way.target.log(target)
        is_known = log is not None and range_["topic_id"] == way.source.topic_id(source.topic)
        if range_["run"] != run or not is_known or way.replaced.get(source, -1.0) >= way.began:
            # Of ranges that an earlier run has copied, the source may be another one since.
            continue
        assert log
        must = {value for at, value in log.shown() if range_["start"] <= at < range_["end"]}
        have = {value for _, value in there.shown()} if there else set()
        missing = must - have - letters - way.removed - way.left_out - later
        if len(missing) > _count_absent(range_):
            what = f"{run} certifies {source} [{range_['start']}, {range_['end']})"
            way.blame("h", f"{what}, and {target} lacks {min(map(repr, missing))}")
            return


def _count_absent(range_: Mapping[str, Any]) -> int:
    """How many committed records of a range are not on the target, by the certificate's own word."""
    reasons = range_["reasons"]
    absent = sum(count for count in range_["absent"].values() if isinstance(count, int))
    return absent + sum(reasons.get(why, 0) for why in (Reason.OUTSIDE_WINDOW, Reason.LOST))


def check_chain(way: Oracles) -> None:
    """Whether a flow's certificates hold at the end, and can be put back where one of their places has lost some."""
    found = _found(way)
    if found is None or not found.all:
        return
    if way.was_injected("restore state") and way.was_injected("cut internal"):
        # Nothing has what both places have lost.
        return
    if faults := faults_of_chain(found.all, _PUBLIC):
        way.blame("h", f"the certificates do not hold: {faults[0]}")
        return

    def restore() -> list[str]:
        restore_certificates(way.flow, found, _PUBLIC)
        return list(faults_of(way.flow, find_certificates(way.flow), _PUBLIC))

    try:
        left: list[str] = way.world.run(Process("auditor"), restore)
    except (FerryError, Killed) as error:
        way.blame("h", f"the certificates cannot be put back: {error}")
        return
    if left and not way.is_hurt and way.harmed_at < 0:
        way.blame("h", f"the certificates do not hold: {left[0]}")


def _found(way: Oracles) -> FoundCertificates | None:
    """The certificates of both places; None where a place cannot be asked."""
    try:
        found: FoundCertificates = way.world.run(
            Process("auditor"), lambda: find_certificates(way.flow)
        )
    except CertificateError as error:
        way.blame("h", f"a certificate cannot be read: {error}")
        return None
    except (FerryError, Killed):
        return None
    return found
