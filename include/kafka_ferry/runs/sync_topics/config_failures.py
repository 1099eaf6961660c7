"""The configs of remote topics that could not be set, and why; which of several the target refuses, it is asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from confluent_kafka import KafkaError

from kafka_ferry.config import Flow
from kafka_ferry.errors import BrokerError, FerryError
from kafka_ferry.model.changes import ConfigChange
from kafka_ferry.plan.topics.configs import REMOTE_STORAGE, is_of_tiers, no_tiers, refused_values

_LEAVE_OUT: Final = (
    "Leave it out with config.properties.exclude, or say another value in topics.configs."
)
_CORRECT: Final = "Correct it in topics.configs, or take it out there."
_TOO_OLD: Final = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})

_Value = TypeVar("_Value", str, ConfigChange)


@dataclass
class ConfigFailures:
    """Collects what could not be set.

    Attributes:
        flow: the flow.
        sources: the source's topics by their remote topics.
        notes: notes on the target as a whole.
    """

    flow: Flow
    sources: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    _by_topic: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _refused: set[tuple[str, str]] = field(default_factory=set)

    @property
    def sentences(self) -> list[str]:
        """What could not be set, a sentence each; nothing of what a note says."""
        return sorted(
            {text for of_topic in self._by_topic.values() for text in of_topic.values()} - {""}
        )

    def of(self, remote_topic: str) -> dict[str, str]:
        """The configs of a topic that could not be set, each with a sentence."""
        return self._by_topic[remote_topic]

    def add(self, change: ConfigChange, why: str) -> None:
        """Add a change that is not made."""
        self.of(change.remote_topic)[change.name] = f"{change} was left out: {why}"

    def add_all(self, remote_topic: str, names: Iterable[str], error: FerryError) -> None:
        """Add all configs of a topic, none of which could be changed."""
        sentence = f"{remote_topic}: its configs could not be changed. {error}"
        if isinstance(error, BrokerError) and error.code in _TOO_OLD:
            self._note(
                f"{self.flow.target.alias} cannot change single configs of a topic (brokers can "
                "since 2.3), so that later changes of configs are not made there."
            )
            sentence = ""
        self.of(remote_topic).update(dict.fromkeys(names, sentence))

    def leave_out(
        self,
        remote_topic: str,
        values: Mapping[str, _Value],
        error: FerryError,
        ask: Callable[[Mapping[str, _Value]], FerryError | None],
    ) -> frozenset[str]:
        """Add the configs that the target refuses; none where it refuses the topic for another reason.

        Args:
            remote_topic: the topic.
            values: what was to be set.
            error: the target's error.
            ask: gives its error if some of the values were to be set.

        Returns:
            Their names.
        """

        def refusal(some: Mapping[str, _Value]) -> FerryError | None:
            answer = ask(some)
            if answer and not is_about_configs(answer):
                raise answer
            return answer

        if not is_about_configs(error):
            return frozenset()
        texts = {
            name: str(value.value if isinstance(value, ConfigChange) else value)
            for name, value in values.items()
        }
        own = self.flow.configs_of(self.sources.get(remote_topic, remote_topic))
        optional = {name for name in values if is_of_tiers(name) and name not in own}
        # What is optional is asked for last, so that it is never the reason to refuse what is not.
        suspects = [it for it in texts if (it, texts[it]) in self._refused or it in optional]
        try:
            refused = refused_values(values, refusal, suspects)
        except FerryError:
            return frozenset()
        for name, why in refused.items():
            self._refused.add((name, texts[name]))
            advice = _CORRECT if name in own else _LEAVE_OUT
            sentence = f"{remote_topic}: {name} could not be set. {why.message} {advice}"
            if name in optional:
                self._note(
                    no_tiers(self.flow.target.alias)
                    if name == REMOTE_STORAGE
                    else f"{remote_topic}: {name} is left out. {why.message}"
                )
                sentence = ""
            self.of(remote_topic)[name] = sentence
        return frozenset(refused)

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def is_about_configs(error: FerryError) -> bool:
    """Whether a broker has refused a config, and not its topic."""
    return isinstance(error, BrokerError) and error.code == KafkaError.INVALID_CONFIG
