"""What a flow syncs in addition to records: names, configs, access, users, quotas."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import regex
from pydantic import BeforeValidator, Field, field_validator

from kafka_ferry.config.options.base import Options, SecretFile
from kafka_ferry.config.types.durations import Milliseconds
from kafka_ferry.config.types.first_start import read_first_start
from kafka_ferry.config.types.principal_mapping import Principals, PrincipalTexts
from kafka_ferry.config.types.values import Number, TopicNames, TopicPatterns, Truth

_WEEK_MS: Final = 7 * 24 * 60 * 60 * 1000


def _share(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a share, such as 0.1")
    percent = regex.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(%?)\s*", str(value))
    if percent and (percent[2] or float(percent[1]) > 1):
        share = float(percent[1]) / 100
        meant = f". Did you mean '{share:g}'?" if share <= 1 else ""
        raise ValueError(f"must be a share from 0 to 1, and not '{value}'{meant}")
    return value


class SyncOptions(Options):
    """The options of a flow about what it syncs from the source to the target, and how."""

    topics_rename: TopicNames = Field(
        default=TopicNames(),
        description="Explicit names of remote topics, regardless of the replication policy: a "
        "mapping from the source's names to the target's; in properties files, "
        "name:name, name:name.",
    )
    heartbeats_replication_enabled: Truth = Field(
        default=False,
        description="Whether MirrorMaker 2's heartbeats are copied even where topics or topics.exclude leave them "
        "out; true by default in MirrorMaker 2's properties.",
    )
    replication_policy_internal_topic_separator_enabled: Truth = Field(
        default=True,
        description="Whether the names of MirrorMaker 2's internal topics, which are never copied, "
        "also have replication.policy.separator.",
    )
    auto_offset_reset: Literal["earliest", "latest"] = Field(
        default="earliest",
        description="Where copying begins in a partition that the flow has never copied: with latest, "
        "only records after the first run are copied.",
    )
    sync_topic_configs_enabled: Truth = Field(
        default=True,
        description="Whether later changes of a topic's configs are applied to its remote topic too; "
        "new remote topics have the configs anyway.",
    )
    config_properties_exclude: TopicPatterns = Field(
        default=(
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.after.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ),
        description="Names or Java regular expressions of topic configs that remote topics never "
        "take over.",
    )
    use_defaults_from: Literal["target", "source"] = Field(
        default="target",
        description="Which cluster's defaults apply to remote topics where a source topic does not set "
        "a config: the target's, or the source's, which are then set on each remote topic.",
    )
    sync_topic_acls_enabled: Truth = Field(
        default=True,
        description="Whether ACLs are synced, where the source has an authorizer.",
    )
    acls_mode: Literal["read-only", "exact"] = Field(
        default="read-only",
        description="read-only gives principals that may read a topic, by ACLs on its exact name, the "
        "same permission on its remote topic, as MirrorMaker 2 does, and no principal WRITE; exact "
        "copies the ACLs on topics (also prefixed ones), groups, transactional ids and the cluster.",
    )
    acls_principals: PrincipalTexts = Field(
        default=(),
        description="The names of principals on the target, as rules in the form of Kafka's "
        "ssl.principal.mapping.rules, for the whole text such as User:anna: RULE:pattern/"
        "replacement/ followed by L or U for a name in lower or upper case, or DEFAULT, which "
        "keeps it; the first that matches counts, and principals that none matches are not "
        "synced. Without rules, names stay, and User:* always does.",
    )
    acls_own_principals: Principals = Field(
        default=(),
        description="The principals as which the flow logs in on the target, such as User:ferry, where "
        "its login has no name: with a certificate, Kerberos or a token. ACLs that deny them something "
        "are not synced. In properties files, separated by semicolons, as in Kafka's super.users.",
    )
    sync_client_quotas_enabled: Truth = Field(
        default=False,
        description="Whether quotas of users, client ids and addresses are synced.",
    )
    sync_scram_users_enabled: Truth = Field(
        default=False,
        description="Whether SCRAM users are synced. Kafka never returns their passwords: users "
        "in scram.passwords.file are created on the target, the others are reported.",
    )
    scram_passwords_file: SecretFile = Field(
        default=None,
        description="A properties file of SCRAM users and their passwords on the target, read only "
        "when a user is created.",
    )
    approval: Literal["never", "changes", "always"] = Field(
        default="never",
        description="Whether a run in Airflow waits after its plan until a user approves it: "
        "always, or only where it changes more than records and positions (topics, configs, "
        "ACLs, quotas, users).",
    )
    removals_max: Annotated[float, BeforeValidator(_share)] = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Which share of the ACLs, client quotas, SCRAM users, configs, topics and groups' offsets "
        "that the flow has created on the target one run may take away there, since the source lacks them, "
        "without an approval; five of each kind always may go. 1 asks for none.",
    )
    partitions_max: Number = Field(
        default=200_000,
        gt=0,
        description="How many partitions the flow's topics may have together, on either cluster: the plan of a flow "
        "with more ends with an error, before it takes memory, and before anything is created.",
    )
    removals_cluster_id: str | None = Field(
        default=None,
        min_length=1,
        description="The cluster id of a source that has taken the former one's place, such as one that was "
        "rebuilt: what was created for the former one and is missing on this one is then taken away on the "
        "target. By default nothing is, while the source is another cluster than at that time.",
    )
    retire_after_ms: Milliseconds = Field(
        default=_WEEK_MS,
        ge=0,
        description="With on.source.topic.deleted: retire, how long a remote topic stays after a "
        "run first found its source topic missing, in milliseconds.",
    )
    admin_timeout_ms: Milliseconds = Field(
        default=60_000,
        gt=0,
        description="How long a step of a run waits for a cluster that does not answer, in milliseconds, all of "
        "the step's requests together; a single one has five seconds at least. Copying waits partition.wait.ms.",
    )

    @field_validator("auto_offset_reset", mode="before")
    @classmethod
    def _begins_somewhere(cls, value: object) -> object:
        if value == "none":
            raise ValueError(
                "must be earliest or latest: none stops MirrorMaker 2 where it has no position, and "
                "here every partition begins somewhere"
            )
        if isinstance(value, str) and value.startswith("by_duration"):
            raise ValueError(
                "must be earliest or latest: what by_duration (KIP-1106) says is topics.start here, such as -7d"
            )
        if isinstance(value, str) and _is_first_start(value):
            raise ValueError(
                f"must be earliest or latest, and not '{value}': write topics.start: {value}"
            )
        return value


def _is_first_start(text: str) -> bool:
    """Whether a text is a value of ``topics.start`` that is no value of ``auto.offset.reset``."""
    try:
        return read_first_start(text).kind not in ("earliest", "latest")
    except ValueError:
        return False
