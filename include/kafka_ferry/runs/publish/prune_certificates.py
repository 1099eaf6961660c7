"""Until where a flow's chain of certificates is pruned, as ``certificates.keep.*`` says.

A. A certificate records the pruning before anything is deleted, with the hash of the last one that goes; so a
   certificate that is absent is either named by a record, which its signature covers, or missing.
B. Only the beginning of the chain goes, certificate by certificate, and only what holds: a certificate that was
   changed, or does not follow the one before it, is evidence, and stays with all after it.
C. What an interrupted run has left is deleted by the next one that issues a certificate.
D. Only the flow's own options say what goes. What a certificate says of an earlier pruning says where the chain
   begins, and only if it carries the flow's signature, where the flow has a key; it deletes nothing.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafka_ferry.certificates import Certificate, CertificateError, stored_certificates
from kafka_ferry.certificates.chain import own_faults, pruning_of
from kafka_ferry.certificates.document import Pruned
from kafka_ferry.runs.state.certificate_files import certificate_files, file_serials, one_file

if TYPE_CHECKING:
    from kafka_ferry.certificates.chain import PublicKeys
    from kafka_ferry.runs.state.run_context import RunContext

log = logging.getLogger(__name__)

_DAY_MS: Final = 24 * 60 * 60 * 1000


class Pruning:
    """Which certificates of a flow are no longer kept.

    Args:
        run: the run that issues the next certificate.
        keys: the one that the flow signs with; none where it signs none.
    """

    def __init__(self, run: RunContext, keys: PublicKeys) -> None:
        self._run, self._flow, self._keys = run, run.flow, keys

    def point(self, newest: Certificate, now: int) -> Pruned | None:
        """Until where the chain is pruned once the next certificate is there; None for not at all.

        Args:
            newest: the certificate that the next one follows.
            now: when the next one is issued, in milliseconds since 1970.

        Raises:
            FerryError: if certificates cannot be read.
        """
        if self._flow.certificates_keep_days < 0 and self._flow.certificates_keep_count < 0:
            return None
        pruned = pruning_of([newest], self._keys)
        if pruned is None and self._serials and self._serials[0] > 1:
            # An earlier one has the record, from before the options were changed.
            pruned = pruning_of(certificate_files(self._run.state), self._keys)
        first = pruned.through + 1 if pruned else 1
        for serial in range(first, newest.header.serial + 1):
            # Almost always it is kept by both, and no file is read.
            if not self._may_be_due(serial, newest.header.serial + 1):
                break
            one = self._find(serial, pruned)
            if one is None or not self._is_due(one, newest.header.serial + 1, now):
                break
            pruned = Pruned(through=serial, hash=one.digest)
        return pruned

    def find_stored(self, certificate: Certificate) -> list[Certificate]:
        """The certificates that a new one says are pruned, that the options do not keep, and that are still there."""
        header, pruned = certificate.header, certificate.header.pruned
        if pruned is None:
            return []
        serials = {serial for serial in self._serials if serial <= pruned.through}
        if "_on_target" in self.__dict__:
            serials |= {serial for serial in self._on_target if serial <= pruned.through}
        left = (one for serial in sorted(serials) if (one := self._read(serial)))
        return [one for one in left if self._is_due(one, header.serial, header.issued_at)]

    @cached_property
    def _serials(self) -> list[int]:
        return file_serials(self._run.state)

    @cached_property
    def _on_target(self) -> dict[int, Certificate]:
        flow = self._flow
        stored = stored_certificates(flow.target, flow.source.alias, flow.name)
        return {one.header.serial: one for one in stored}

    def _may_be_due(self, serial: int, new: int) -> bool:
        return self._flow.certificates_keep_days >= 0 or self._is_too_many(serial, new)

    def _is_too_many(self, serial: int, new: int) -> bool:
        keep = self._flow.certificates_keep_count
        return keep >= 0 and serial <= new - keep

    def _is_due(self, one: Certificate, new: int, now: int) -> bool:
        """Whether the options say that a certificate goes when the one with the serial ``new`` is issued."""
        days = self._flow.certificates_keep_days
        is_old = days >= 0 and one.header.issued_at < now - days * _DAY_MS
        return is_old or self._is_too_many(one.header.serial, new)

    def _find(self, serial: int, before: Pruned | None) -> Certificate | None:
        """A certificate that holds and follows the last one that is pruned; None where it does not."""
        one = self._read(serial)
        if one is None:
            log.warning("Certificate %d is missing: the chain is not pruned further.", serial)
            return None
        if fault := next(own_faults(one, ()), ""):
            log.warning("The chain is not pruned further: %s", fault)
            return None
        if one.header.previous != (before.hash if before else ""):
            log.warning("The chain is not pruned further: %s does not follow.", one.name)
            return None
        return one

    def _read(self, serial: int) -> Certificate | None:
        try:
            if serial in self._serials:
                return one_file(self._run.state, serial)
            return self._on_target.get(serial)
        except CertificateError as error:
            log.warning("%s", error)
            return None
