"""A plan as text: what it says, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_ferry.model import (
    AdvisedAcl,
    Creation,
    Estimate,
    Growth,
    Note,
    OffsetsChoice,
    Plan,
    Range,
    Refusal,
    Risk,
    RunOptions,
    Skipped,
    Window,
)
from kafka_ferry.model.changes import (
    Acl,
    AclChange,
    ConfigChange,
    Drift,
    QuotaChange,
    Retirement,
    RuleChange,
    UserChange,
)
from kafka_ferry.model.removals import Excess, OffsetDeletion
from kafka_ferry.report.plan_text import deletions, plan_text, rule_changes, summary
from tests.support.runs.reports import changed

DAY = 24 * 3600 * 1000
PLAN = Plan("primary->backup", "run-1", 9 * DAY, "A", "B")
ACL = Acl("TOPIC", "primary.orders", "LITERAL", "User:anna", "*", "READ", "ALLOW")


def a_range(topic: str, partition: int, start: int, end: int) -> Range:
    return Range(topic, partition, start, end, "I", f"primary.{topic}", 3)


def lines(plan: Plan, *, verbose: bool = False) -> list[str]:
    return [line.text for line in plan_text(plan, verbose=verbose)]


def test_a_plan_lists_the_offsets_of_groups_that_it_deletes_and_what_needs_an_approval() -> None:
    plan = changed(
        PLAN,
        offset_deletions=(
            OffsetDeletion("billing", "primary.orders", (0, 2)),
            OffsetDeletion("billing", "primary.payments", (1,)),
        ),
        excesses=(Excess("group's offsets", ("billing", "shipping"), 7, 1),),
    )
    assert lines(plan) == [
        "primary->backup: groups to delete offsets of: 1",
        "delete the offsets of the group billing in primary.orders (2 partitions)",
        "delete the offsets of the group billing in primary.payments (partition 1)",
        "APPROVAL the offsets of 2 groups of the 7 that this flow has created would be taken away on the "
        "target, and removals.max allows 1 without an approval: billing; shipping.",
    ]


def test_a_run_names_topics_whose_copied_records_went_through_another_rule() -> None:
    changes = (RuleChange("mails", 0, "", "ab12"), RuleChange("new", 1, "cd34"))
    assert [*rule_changes(changed(PLAN, rules=changes))] == [
        "records of mails stay as they are from now on; earlier ones went through rule ab12"
    ]


def test_a_plan_that_changes_nothing_says_so() -> None:
    assert lines(PLAN) == ["primary->backup: nothing to do"]


TWO_TOPICS = changed(
    PLAN,
    ranges=(
        a_range("payments", 0, 5, 4_005),
        a_range("orders", 1, 0, 10),
        a_range("orders", 0, 7, 12),
        a_range("idle", 0, 8, 8),
    ),
    estimates=(
        Estimate("payments", 0, 3_600, 3 * 1024 * 1024),
        Estimate("orders", 1, 10, None),
        Estimate("orders", 0, 5, 100),
    ),
)


def test_what_is_to_be_copied_is_summed_by_topic() -> None:
    assert lines(TWO_TOPICS) == [
        "primary->backup: about 3,615 records in 3 partitions",
        "  topic     becomes           partitions  offsets  records     bytes",
        "  orders    primary.orders             2       15      ~15         -",
        "  payments  primary.payments           1    4,000   ~3,600  ~3.0 MiB",
    ]


def test_a_backfill_says_what_it_looks_at_which_is_no_promise_to_copy_it() -> None:
    plan = replace(TWO_TOPICS, options=RunOptions(window=(window := Window(1, 2))))
    assert summary(plan) == (
        f"backfill of {window}: looks at about 3,615 records in 3 partitions, and copies those of the time that the "
        "target lacks"
    )


def test_a_backfill_of_what_the_source_has_deleted_is_not_nothing_to_do() -> None:
    note = Note("orders", "the log starts at 200.", partition=0, of_deleted=True)
    plan = changed(PLAN, notes=(note,))
    assert summary(plan) == "nothing left that can be copied"


def test_records_in_topics_of_heartbeats_are_counted_apart() -> None:
    ranges = (a_range("orders", 0, 0, 40), a_range("heartbeats", 0, 0, 153))
    sizes = tuple(Estimate(it.topic, it.partition, len(it), None) for it in ranges)
    plan = changed(PLAN, ranges=ranges, estimates=sizes, heartbeats=("heartbeats",))
    assert summary(plan) == "about 40 records and 153 heartbeats in 2 partitions"


def test_each_partition_is_listed_when_it_is_asked_for() -> None:
    assert lines(TWO_TOPICS, verbose=True)[1:] == [
        "  topic     partition  becomes           start   end  offsets  records       bytes",
        "  orders            0  primary.orders        7    12        5       ~5  ~100 bytes",
        "  orders            1  primary.orders        0    10       10      ~10           -",
        "  payments          0  primary.payments      5  4005    4,000   ~3,600    ~3.0 MiB",
    ]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (2000 * 1024**5, "2,000.0 PiB"),
        (None, None),
    ],
)
def test_bytes_are_said_in_a_unit_that_fits_and_only_where_they_are_known(
    size: int | None, said: str | None
) -> None:
    plan = changed(
        PLAN, ranges=(a_range("orders", 0, 0, 10),), estimates=(Estimate("orders", 0, 10, size),)
    )
    assert summary(plan) == f"about 10 records{f' ({said})' if said else ''} in 1 partition"


def test_everything_that_a_run_changes_is_a_line_and_counted_in_the_first() -> None:
    plan = changed(
        PLAN,
        creations=(
            Creation("primary.orders", 3, 2, {"retention.ms": "7"}),
            Creation("primary.a", 1, 3, {"retention.ms": "7"}, {"r1": 2, "r2": 1}, ((1, 2, 4),)),
        ),
        growths=(
            Growth("primary.clicks", 4),
            Growth("primary.b", 2, {"r1": 1}, ((1,),)),
        ),
        config_changes=(
            ConfigChange("a", "primary.a", "retention.ms", "7", "5"),
            ConfigChange("b", "primary.b", "segment.ms", None, "5"),
        ),
        retirements=(
            Retirement("old", "primary.old", "id", DAY, 8 * DAY),
            Retirement("ill", "primary.ill", "id", 5 * DAY, 12 * DAY),
        ),
        acl_changes=(AclChange(ACL, "grant"), AclChange(replace(ACL, host="10.0.0.1"), "revoke")),
        quota_changes=(
            QuotaChange((("user", "anna"), ("client-id", None)), "producer_byte_rate", 1e6, 500.0),
            QuotaChange((("ip", "10.0.0.1"),), "connection_creation_rate", None, 7.0),
        ),
        user_changes=(UserChange("anna", "SCRAM-SHA-512", 4096, "create"),),
    )
    assert [line.split(":")[0] for line in deletions(plan)] == ["delete primary.old"]
    found = lines(plan)
    assert found[0] == (
        "primary->backup: topics to create: 2; topics to grow: 2; configs to change: 2; "
        "topics to delete: 1; ACLs to change: 2; quotas to change: 2; users to change: 1"
    )
    assert found[1:7] == [
        "create primary.orders: 3 partitions x 2 replicas, retention.ms=7",
        "create primary.a: 1 partitions x 3 replicas on racks (r1: 2, r2: 1), retention.ms=7",
        "grow primary.clicks to 4 partitions",
        "grow primary.b to 2 partitions on racks (r1: 1)",
        "alter primary.a: set retention.ms=7 (it was 5)",
        "alter primary.b: unset segment.ms (it was 5)",
    ]
    assert [line.split(":")[0] for line in found[7:9]] == [
        "delete primary.old",
        "retire primary.ill",
    ]
    assert found[9:] == [
        "grant ALLOW READ on the topic primary.orders to User:anna",
        "revoke ALLOW READ on the topic primary.orders to User:anna from 10.0.0.1",
        "set the quota producer_byte_rate=1,000,000 of user anna, the default client-id (it was 500)",
        "unset the quota connection_creation_rate of ip 10.0.0.1 (it was 7)",
        "create the SCRAM user anna (SCRAM-SHA-512, 4096 iterations)",
    ]


def test_how_offsets_are_kept_is_said_with_why_and_what_it_takes() -> None:
    share = "auto: about 91% of the source's offsets have a record."
    few = "auto: about 12% of the source's offsets have a record."
    plan = changed(
        PLAN,
        choices=(
            OffsetsChoice("orders", "primary.orders", False, "offsets: translated."),
            OffsetsChoice(
                "payments", "primary.payments", True, share, "auto", gaps=1_234, fill_ms=7_404
            ),
            OffsetsChoice("clicks", "primary.clicks", False, few, "auto"),
        ),
        advised_acls=(
            AdvisedAcl("primary.payments", "User:ferry", "WRITE", "ALLOW"),
            AdvisedAcl("primary.payments", "User:ferry", "DELETE", "ALLOW"),
            AdvisedAcl("primary.payments", "User:*", "READ", "ALLOW"),
        ),
    )
    assert lines(plan)[1:] == [
        "  topic     offsets      gaps  filled in  why",
        f"  payments  preserved   1,234      7.4 s  {share}",
        f"  clicks    translated                    {few}",
        "advised: ALLOW WRITE, DELETE on primary.payments to User:ferry",
        "advised: ALLOW READ on primary.payments to User:*",
    ]


def test_nothing_is_said_of_offsets_that_are_all_translated_anyway() -> None:
    choice = OffsetsChoice("orders", "primary.orders", False, "offsets: translated.")
    assert len(lines(changed(PLAN, choices=(choice,)))) == 1


def test_what_a_person_must_see_comes_last_and_has_a_tone_of_its_own() -> None:
    plan = changed(
        PLAN,
        skipped=(Skipped("mm2-x.internal", "it is internal"),),
        drifts=(Drift("orders", "primary.orders", "retention.ms", "7", "5", False),),
        risks=(Risk("orders", 3, 1, 60, "offsets [40, 100) may go.", "Hurry."),),
        notes=(Note("orders", "it is odd.", partition=3), Note("", "All is odd.")),
        refused=(Refusal("old", "it was recreated.", "Rename it."),),
        unapplied=("primary.a: retention.ms was refused.",),
    )
    found = [(line.tone, line.text) for line in plan_text(plan)][1:]
    assert [tone for tone, _ in found] == [
        *("aside", "warning", "warning", "warning", "warning", "refusal", "refusal")
    ]
    assert found[1][1].startswith("DRIFT primary.orders")
    assert [text for _, text in found[2:]] == [
        "RISK orders-3: offsets [40, 100) may go. Hurry.",
        "NOTE orders-3: it is odd.",
        "NOTE All is odd.",
        "REFUSED old: it was recreated. Rename it.",
        "NOT APPLIED primary.a: retention.ms was refused.",
    ]


def test_refusals_for_one_reason_are_one_line_unless_each_is_asked_for() -> None:
    refused = [Refusal(name, "it was recreated.", "Rename it.") for name in ("a", "b")]
    other = Refusal("c", "it is odd.", "Look.", partition=1)
    plan = changed(PLAN, refused=(refused[0], other, refused[1]))
    assert lines(plan)[1:] == [
        "REFUSED a, b: it was recreated. Rename it.",
        "REFUSED c-1: it is odd. Look.",
    ]
    assert [line.text for line in plan_text(plan, verbose=True)][1:] == [
        f"REFUSED {it}" for it in plan.remarks.refused
    ]


def test_topics_left_out_for_one_reason_are_one_line_and_the_first_ones_are_named() -> None:
    names = [f"t{number:02}" for number in range(12)]
    skipped = (*(Skipped(name, "excluded") for name in names), Skipped("x", "internal"))
    plan = changed(PLAN, skipped=skipped)
    assert lines(plan)[1:] == [
        f"skip {', '.join(names[:10])} and 2 more: excluded",
        "skip x: internal",
    ]
    assert lines(plan, verbose=True)[1] == f"skip {', '.join(names)}: excluded"


def test_of_many_topics_at_the_same_risk_the_worst_is_told_and_the_others_are_named() -> None:
    risks = tuple(Risk(f"t{it:02}", 0, 1, it, f"{it} may go.", "Hurry.") for it in range(13))
    plan = changed(PLAN, risks=(*risks, Risk("x", 0, 1, 5, "It may go.", "Wait.")))
    said = [line.text for line in plan_text(plan) if line.text.startswith("RISK")]
    names = ", ".join(f"t{it:02}" for it in reversed(range(2, 12)))
    assert said == [
        "RISK t12-0: 12 may go. Hurry.",
        f"RISK The same, with offsets of their own: {names} and 2 more",
        "RISK x-0: It may go. Wait.",
    ]
    whole = [line.text for line in plan_text(plan, verbose=True) if line.text.startswith("RISK")]
    assert len(whole) == 14
    few = changed(PLAN, risks=risks[:3])
    assert sum(line.text.startswith("RISK") for line in plan_text(few)) == 3
