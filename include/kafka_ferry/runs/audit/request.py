"""What a person, or a flow's timetable, asks an audit to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_ferry.audit.terms import AuditTerms


@dataclass(frozen=True)
class AuditRequest:
    """What is to be audited.

    Attributes:
        terms: what is compared, and how.
        topics: only these topics of the flow, names or Java regular expressions; all where there are none.
        names: topics of the target by topics of the source, instead of the replication policy.
        lag_ms: how far the mirror may be behind; 0 for not at all.
        paired_only: whether topics that the target does not have are passed over.
        run: of what it is an audit, if only one of the same is to continue it.
    """

    terms: AuditTerms = field(default_factory=AuditTerms)
    topics: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    lag_ms: int = 0
    paired_only: bool = False
    run: str = ""
