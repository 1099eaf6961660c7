"""Which subjects a flow mirrors, and what they are called on the target. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import regex

from kafka_ferry.config.types.name_filter import NameFilter
from kafka_ferry.model.ranges import ID_PARTS, IdPart

if TYPE_CHECKING:
    from kafka_ferry.config import Flow


# "", "." and ".." leave only what is above them in an address; a context's name alone is all of its subjects.
_WHOLE: Final = regex.compile(r"\.{0,2}|:[.*][^:]*:")
# A context has ids of its own; ":.:" is the default one.
_OF_CONTEXT: Final = regex.compile(r":\.[^:]+:.*", regex.DOTALL)


def is_one(subject: str) -> bool:
    """Whether a name is that of a single subject: settings of another one would be those of a whole registry."""
    return not _WHOLE.fullmatch(subject)


def is_of_context(subject: str) -> bool:
    """Whether a subject is in another context than the default one, so that its ids are not those of records."""
    return bool(_OF_CONTEXT.fullmatch(subject))


class SubjectNames:
    """The names of subjects on the target.

    A subject that is named after a topic, ``{topic}-key``, ``{topic}-value`` or ``{topic}-{record}``, is named
    after the remote topic there; all others keep their names.

    Args:
        remote_topics: the flow's topics, each with its remote topic.
    """

    def __init__(self, remote_topics: Mapping[str, str]) -> None:
        # Of topics that begin alike, a subject belongs to the longest.
        self._topics = sorted(remote_topics.items(), key=lambda it: -len(it[0]))

    def remote(self, subject: str) -> str:
        """The subject's name on the target."""
        for topic, remote in self._topics:
            if subject.startswith(f"{topic}-"):
                return remote + subject.removeprefix(topic)
        return subject


def chosen_subjects(flow: Flow, topics: Iterable[str], existing: Collection[str]) -> list[str]:
    """The subjects that the flow mirrors, without those that their schemas refer to.

    Args:
        flow: the flow.
        topics: its topics.
        existing: the subjects that the source has.
    """
    topic_subjects = {f"{topic}-{part}" for topic in topics for part in ID_PARTS}
    wanted = NameFilter(flow.schemas_subjects, (), any_text=True)
    return sorted(
        subject
        for subject in filter(is_one, existing)
        if subject in topic_subjects or wanted.matches(subject)
    )


def parts_with_ids(
    flow: Flow, topic: str, existing: Collection[str], before: Collection[IdPart] = ()
) -> tuple[IdPart, ...]:
    """The parts of a topic's records that hold ids of schemas.

    Args:
        flow: the flow.
        topic: the topic on the source.
        existing: the subjects that the source has.
        before: the parts that held some when the topic was copied last: a subject that is gone since takes no ids
            from records.
    """
    option = flow.schemas_ids_in.of(topic)
    if option == "subjects":
        return tuple(part for part in ID_PARTS if f"{topic}-{part}" in existing or part in before)
    return tuple(part for part in ID_PARTS if option in (part, "both"))
