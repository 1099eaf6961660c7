"""A run of only some of its flow's topics: what it leaves alone. Pure.

Which topics the flow mirrors, and under which names, is decided for all of them first: two topics with
the same remote topic are refused, whether a run includes both of them or not.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import Final

import regex

from kafka_ferry.config import Flow
from kafka_ferry.config.types.name_filter import compile_patterns, star_expression
from kafka_ferry.config.types.problems import did_you_mean_each
from kafka_ferry.errors import InputError
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    QuotaChange,
    QuotaEnd,
    UserChange,
    needed_denials,
)
from kafka_ferry.model.plan import OffsetsChoice
from kafka_ferry.model.remarks import Note
from kafka_ferry.model.run_options import RunOptions
from kafka_ferry.plan.topics.topic_filter import Selection

_NAMES_SHOWN: Final = 10
# A name, perhaps with dots; not other patterns, of which one list may need several items.
_LITERAL: Final = regex.compile(r"[A-Za-z0-9._-]+")

_AccessStep = AclChange | Acl | QuotaChange | QuotaEnd | UserChange | Note


def _expressions(patterns: Iterable[str]) -> str:
    """The expressions that are meant by patterns of a shell, in a sentence; "" where there are none."""
    meant = [repr(whole) for pattern in patterns if (whole := star_expression(pattern))]
    return f"Did you mean {', '.join(meant)}?" if meant else ""


def narrow(flow: Flow, selection: Selection, options: RunOptions) -> tuple[Selection, Note]:
    """The part of ``selection`` that the run includes, and a note that says so.

    Raises:
        ConfigError: a pattern of ``options.topics`` is not valid.
        FerryError: no topic of the flow matches.
    """
    wanted = options.topic_filter
    assert wanted
    names = {name: remote for name, remote in selection.names.items() if wanted.matches(name)}
    refused = [refusal for refusal in selection.refused if wanted.matches(refusal.topic)]
    skipped = [skip for skip in selection.skipped if wanted.matches(skip.topic)]
    known = [*selection.names, *(entry.topic for entry in selection.refused)]
    requested = ", ".join(options.topics[:_NAMES_SHOWN])
    if not names and not refused:
        why = "; ".join(f"{skip.topic} is left out: {skip.reason}" for skip in skipped[:1])
        raise InputError(
            f"{flow.name} has no topic on {flow.source.alias} that matches {requested}"
            f"{f' ({why})' if why else ''}.",
            advice=_expressions(options.topics)
            or did_you_mean_each(options.topics, known)
            or "Name topics of the flow by their names on the source, or by patterns.",
        )
    remaining = len(selection.names) - len(names)
    text = (
        f"This run is only for {requested}: {len(names):,} of the flow's topics. The other {remaining:,}, "
        "deleted topics, client quotas and SCRAM users wait for a run of all topics."
    )
    if vain := unmatched_names(options.topics, known):
        text += f" None of them matches {', '.join(vain[:_NAMES_SHOWN])}."
        text = f"{text} {did_you_mean_each(vain, known)}".rstrip()
    return Selection(names, skipped, refused), Note("", text)


def unmatched_names(patterns: Iterable[str], known: Collection[str]) -> list[str]:
    """The names among ``patterns`` that match none of the topics that are known; a misspelt one is among them."""
    return [
        name
        for name in patterns
        if _LITERAL.fullmatch(name)
        and name not in known
        and not any(map(compile_patterns([name]).fullmatch, known))
    ]


def access_of(choices: Iterable[OffsetsChoice], steps: Iterable[_AccessStep]) -> list[_AccessStep]:
    """Of the access changes, those of ACLs on the run's own topics, and the notes.

    ACLs are only safe together. What denies comes with what it limits, whatever its pattern, and stays
    while an ACL that it limits waits for a run of all topics.
    """
    steps = list(steps)
    remote = {choice.remote_topic for choice in choices}
    changes = {step for step in steps if isinstance(step, AclChange)}
    own = {change for change in changes if _is_on(change.acl, remote)}
    narrowing = [change for change in changes - own if not change.widens]
    waiting = [acl_change.acl for acl_change in narrowing if acl_change.change == "revoke"]
    own -= needed_denials(own, waiting)
    widened = [acl_change.acl for acl_change in own if acl_change.widens]
    own |= {
        acl_change
        for acl_change in narrowing
        if acl_change.change == "grant" and any(map(acl_change.acl.meets, widened))
    }
    return [step for step in steps if isinstance(step, (Note, Acl)) or step in own]


def _is_on(acl: Acl, topics: Container[str]) -> bool:
    return (acl.resource_type, acl.pattern_type) == ("TOPIC", "LITERAL") and acl.name in topics
