"""What a flow does in each situation without a single correct answer.

The first value of each option is its default; ``fail`` reports what is wrong and copies the rest.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from kafka_ferry.config.options.base import Options
from kafka_ferry.config.types.values import KAFKAS_OWN, OWN_TOPICS, topic_name

_OF_LETTERS: Final = "ferry-dead-letter."


def _letters_topic(name: str | None) -> str | None:
    if not name:
        return None
    if name in KAFKAS_OWN:
        raise ValueError("must be a topic for dead letters, and not one of Kafka's own")
    # A letter has what the record's producer wrote: in a ledger, it would count as an entry of the flow's own.
    if OWN_TOPICS.fullmatch(name) and not name.startswith(_OF_LETTERS):
        raise ValueError(
            "must be a topic for dead letters, and not one with a flow's ledger or certificates"
        )
    return topic_name(name)


class PolicyOptions(Options):
    """The options of a flow that say whether and how it continues."""

    on_source_truncation: Literal["fail", "continue"] = Field(
        default="fail",
        description="When the source deleted records before they were copied (retention, "
        "DeleteRecords): continue copies from the log's start on, and the ledger and the report "
        "name the lost offsets. A backfill fails for a partition that has nothing of its window left, or notes it.",
    )
    on_source_topic_deleted: Literal["keep", "fail", "retire"] = Field(
        default="keep",
        description="When a topic that was copied is gone from the source: keep leaves its copy as "
        "it is and notes it in plan and report; fail reports it and fails the run; retire deletes "
        "its copy after retire.after.ms, if the flow has created it.",
    )
    on_source_topic_recreated: Literal["fail", "append"] = Field(
        default="fail",
        description="When a topic was deleted on the source and recreated: append copies all of "
        "the new one after the old one's records, into the same remote topic.",
    )
    on_source_divergence: Literal["fail", "continue"] = Field(
        default="fail",
        description="When the source's log was truncated below what was copied (an unclean leader "
        "election): continue copies from where the logs diverge; the target keeps its records of "
        "the lost branch, and the report names them.",
    )
    on_target_topic_lost: Literal["fail", "recopy"] = Field(
        default="fail",
        description="When a remote topic was deleted, or deleted and recreated: recopy creates it "
        "where it is missing and copies everything that the source still has.",
    )
    on_position_moved: Literal["fail", "ledger"] = Field(
        default="fail",
        description="When another client has committed a position in the flow's group: ledger continues "
        "where copying ended by the ledger, and commits that position.",
    )
    on_foreign_records: Literal["fail", "adopt"] = Field(
        default="fail",
        description="When a remote topic holds records before the flow ever copied to it: adopt "
        "copies after them.",
    )
    on_returned_records: Literal["skip", "leave-out"] = Field(
        default="skip",
        description="When a topic of the source holds records that the opposite flow has copied there "
        "from the target: skip leaves the whole topic out; leave-out copies it without those records, "
        "which the opposite flow's ledger on the source names. Then the remote topic has its own "
        "producers, and the verification ignores records that the flow has not copied.",
    )
    on_config_drift: Literal["keep", "overwrite"] = Field(
        default="keep",
        description="When another client has changed a remote topic's config: keep leaves it as it is "
        "and notes it in plan and report; overwrite sets it as on the source.",
    )
    on_source_start_moved: Literal["follow", "keep"] = Field(
        default="follow",
        description="When the source deleted old records of a topic whose offsets are preserved "
        "(retention, DeleteRecords): follow deletes them on the target too, so that both logs start "
        "at the same offset; keep leaves them to the target's own retention.",
    )
    on_fill_limit: Literal["fail", "translate"] = Field(
        default="fail",
        description="When preserving a topic's offsets would take longer than fill.max.ms: translate "
        "copies it with translated offsets, unless the flow has begun to preserve them.",
    )
    on_rejected_record: Literal["fail", "dead-letter"] = Field(
        default="fail",
        description="When the target rejects a record (too large, no key in a compacted topic, "
        "a timestamp out of bounds): dead-letter writes it to the dead letter topic in the same "
        "transaction, and copies the others.",
    )
    dead_letter_topic: Annotated[str | None, AfterValidator(_letters_topic)] = Field(
        default=None,
        description="The target's topic for records that it rejects; by default "
        "ferry-dead-letter.{source's alias}.internal.",
    )
