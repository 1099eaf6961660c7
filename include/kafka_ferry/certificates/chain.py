"""Whether certificates say the truth about themselves and about each other. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafka_ferry.certificates.document import Certificate, CertificateError, Pruned, root_of
from kafka_ferry.certificates.signature import key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    PublicKeys = Sequence[Ed25519PublicKey]

_NOT_YET = (
    "No certificate is signed with the last of these keys: an older one could sign a whole chain. Until the flow has "
    "signed with it, check with those before it."
)


def faults_of_chain(certificates: Sequence[Certificate], keys: PublicKeys) -> list[str]:
    """All that is wrong with a flow's certificates, a sentence each.

    Args:
        certificates: by their serials.
        keys: one of which has to have signed each, in the order in which the flow had them, and all of which it
            had; none where signatures are not looked at.
    """
    faults = list(_own_faults_of_all(certificates, keys))
    if len(keys) > 1 and not any(is_signed_by(one, keys[-1:]) for one in certificates):
        faults.append(_NOT_YET)
    pruned = pruning_of(certificates, keys)
    through = pruned.through if pruned else 0
    for earlier, later in itertools.pairwise(certificates):
        faults += _broken_links(earlier, later, through)
    if pruned and certificates[0].header.serial > through + 1:
        first = certificates[0].header
        missing = _interval(through + 1, first.serial - 1)
        faults.append(f"{missing} of {first.flow} missing: the chain was pruned until {through}.")
    return faults + list(_wrong_pruning(certificates))


def faults_of_present(certificates: Sequence[Certificate], keys: PublicKeys) -> list[str]:
    """The faults of an incomplete chain: a missing certificate is none."""
    faults = list(_own_faults_of_all(certificates, keys))
    for earlier, later in itertools.pairwise(certificates):
        if later.header.serial <= earlier.header.serial + 1:
            faults += _broken_links(earlier, later, 0)
    return faults + list(_wrong_pruning(certificates))


def unsigned_beginning(certificates: Sequence[Certificate], keys: PublicKeys) -> list[Certificate]:
    """The certificates that a flow issued before it had a key: they prove nothing, and are no forgery.

    Each leads to the first one that is signed, by the hash that the one after it names, so none can be put
    there or changed later. None names a key in its header, which one that was signed and lost its signature does.

    Args:
        certificates: by their serials.
        keys: as of ``faults_of_chain``; without any, there are none.
    """
    beginning: list[Certificate] = []
    if not keys:
        return beginning
    signed = next((at for at, it in enumerate(certificates) if is_signed_by(it, keys)), 0)
    for later, one in itertools.pairwise(reversed(certificates[: signed + 1])):
        follows = (later.header.serial - 1, later.header.previous) == (
            one.header.serial,
            one.digest,
        )
        if one.signature or one.header.key or not follows:
            break
        beginning.insert(0, one)
    return beginning


def pruning_of(certificates: Iterable[Certificate], keys: PublicKeys) -> Pruned | None:
    """Until where a chain was pruned, by those of its certificates that can be believed; None for not at all.

    Args:
        certificates: of one flow.
        keys: one of which has to have signed a certificate that is to be believed; none for all of them.
    """
    prunings = [one.header.pruned for one in certificates if not keys or is_signed_by(one, keys)]
    return max(
        (pruning for pruning in prunings if pruning), key=lambda it: it.through, default=None
    )


def is_signed_by(one: Certificate, keys: PublicKeys) -> bool:
    """Whether a certificate's first line has the signature of one of these keys."""
    signature = one.signature
    return signature is not None and any(signature.is_of(key, one.line) for key in keys)


def _own_faults_of_all(certificates: Sequence[Certificate], keys: PublicKeys) -> Iterator[str]:
    unsigned = unsigned_beginning(certificates, keys)
    # Whether a signature is of the key that it names is among a certificate's own faults.
    numbers = {key_id(key): number for number, key in enumerate(keys)}
    newest, since = 0, ""
    for one in certificates:
        yield from own_faults(one, () if one in unsigned else keys)
        number = numbers.get(one.signature.key, newest) if one.signature else newest
        if number < newest:
            yield f"{one.name} is signed with a key that had been replaced in {since}."
        elif number > newest:
            newest, since = number, one.name


def own_faults(one: Certificate, keys: PublicKeys) -> Iterator[str]:
    """What is wrong with a certificate alone; as of ``faults_of_chain``."""
    header = one.header
    if root_of(one) != header.root:
        yield (
            f"{one.name}: its {len(one.range_lines)} range lines do not have the root that it signs: "
            "one was changed, added, moved or taken away."
        )
    else:
        yield from _wrong_sums(one)
    if one.signature is None and header.key:
        yield f"{one.name} is not signed any more: its header names the key that has signed it."
    elif keys and one.signature is None:
        yield f"{one.name} is not signed."
    elif keys and not is_signed_by(one, keys):
        of = "this key" if len(keys) == 1 else "these keys"
        yield f"{one.name}: its signature is not of {of} and these bytes."


def _wrong_sums(one: Certificate) -> Iterator[str]:
    header = one.header
    try:
        rows = one.ranges()
        reasons = Counter[str]()
        for row in rows:
            reasons.update(row["reasons"])
        sums = (
            len(rows),
            sum(row["end"] - row["start"] for row in rows),
            sum(row["read_back"] for row in rows),
            sum(row.get("witnessed", 0) for row in rows),
        )
    except (CertificateError, KeyError, TypeError, AttributeError):
        yield f"{one.name} has ranges of another format."
        return
    header_sums = (header.ranges, header.source_offsets, header.records, header.witnessed)
    if sums != header_sums or dict(reasons) != dict(header.reasons):
        yield f"{one.name}: its header does not sum up its ranges."


def _wrong_pruning(certificates: Sequence[Certificate]) -> Iterator[str]:
    """What certificates say of those that were pruned, and is not so."""
    hashes = {one.header.serial - 1: one.header.previous for one in certificates}
    hashes |= {one.header.serial: one.digest for one in certificates}
    for one in certificates:
        pruned = one.header.pruned
        if pruned is None:
            continue
        if pruned.through >= one.header.serial:
            yield f"{one.name} says that the chain was pruned until {pruned.through}, past itself."
        elif hashes.setdefault(pruned.through, pruned.hash) != pruned.hash:
            yield (
                f"{one.name} says that the chain was pruned until {pruned.through} with the hash "
                f"{pruned.hash[:16]}..., and another certificate has {hashes[pruned.through][:16]}..."
            )


def _broken_links(earlier: Certificate, later: Certificate, pruned: int) -> Iterator[str]:
    before, after = earlier.header, later.header
    if after.serial == before.serial:
        if earlier.digest != later.digest:
            yield f"There are two different certificates {after.serial} of {after.flow}."
    elif after.serial != before.serial + 1:
        # Certificates that are being pruned go one by one.
        if after.serial - 1 > pruned:
            missing = _interval(max(before.serial, pruned) + 1, after.serial - 1)
            yield f"{missing} of {after.flow} missing: {after.serial} follows {before.serial}."
    elif after.previous != earlier.digest:
        yield (
            f"{later.name} does not follow the certificate {before.serial} that is here: it names "
            f"{after.previous[:16] or 'none'}..., and this one has the hash {earlier.digest[:16]}..."
        )


def _interval(first: int, last: int) -> str:
    if first == last:
        return f"Certificate {first}"
    return f"Certificates {first} to {last}"


def in_order(certificates: Iterable[Certificate]) -> list[Certificate]:
    """Certificates by their serials, each one once."""
    once = {(one.header.serial, one.content()): one for one in certificates}
    return [once[key] for key in sorted(once)]


def intervals(serials: Sequence[int]) -> str:
    """Ascending serials, such as ``1 to 3, 5``."""
    ends: list[list[int]] = []
    for serial in serials:
        if ends and ends[-1][1] == serial - 1:
            ends[-1][1] = serial
        else:
            ends.append([serial, serial])
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ends)


def unsigned_text(serials: Sequence[int]) -> str:
    """That ``unsigned_beginning`` proves nothing, a sentence; "" where it has no certificate.

    Args:
        serials: those of its certificates, ascending.
    """
    if not serials:
        return ""
    if len(serials) == 1:
        return f"Certificate {serials[0]} is not signed, since the flow had no key yet: it proves nothing."
    return f"Certificates {intervals(serials)} are not signed, since the flow had no key yet: they prove nothing."
