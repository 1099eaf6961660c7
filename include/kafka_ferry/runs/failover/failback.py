"""Failing back: the reverse flow copies records back, and the same ledger moves the groups back.

``flow`` is the one from the old cluster, A, to the one that the groups are on, B; ``back`` goes from B to A:

- with kept names, ``back`` copies what is new in a topic on B and leaves out what came from A
  (``copy.source.opposite_flow_filter``); a group's offset there is translated by both ledgers together;
- with other names, ``A.orders`` on B is not copied, since all of it is in ``orders`` on A: a group's offset
  in it is translated backwards by the flow's own ledger (``sync_groups.home_routes``). B's own topics
  are copied as in any flow.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from kafka_ferry.clock import now_ms, run_id_now
from kafka_ferry.control import ClusterControl
from kafka_ferry.errors import AccessDenied, InputError
from kafka_ferry.ledger import LedgerError
from kafka_ferry.model.removals import first_of
from kafka_ferry.model.rights import Right, how_to_grant
from kafka_ferry.plan import policy_of, select_topics
from kafka_ferry.runs.failover.failover import copied_ends, outlook, projected_ledger
from kafka_ferry.runs.failover.passed_records import passed_records
from kafka_ferry.runs.state.flow_state import flow_state
from kafka_ferry.runs.state.history import HISTORY
from kafka_ferry.runs.state.step_time import step_time
from kafka_ferry.runs.sync_groups.sync import move_groups

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.groups.moves import GroupMoves
    from kafka_ferry.groups.outlook import Outlook

_ANY: Final = "orders"
_SHOWN: Final = 10


def failback(
    flow: Flow, back: Flow, groups: Collection[str] = (), *, dry_run: bool = False
) -> Outlook:
    """Commit the groups' progress on ``flow``'s target as offsets on its source, where they came from.

    Call it after ``back`` has run: a group cannot continue with records that ``back`` has not copied.

    Args:
        flow: the flow.
        back: the reverse flow.
        groups: names of groups; all that the flow chooses where empty.
        dry_run: only report what would be done.

    Raises:
        AccessDenied: as ``require_visible_topics``.
        FerryError: if one of the clusters cannot be read, or ``back`` was never run.
    """
    run = run_id_now("failback")
    at = now_ms()
    with step_time(flow):
        require_visible_topics(flow, back)
        # Where no application has written to the target, a run of the reverse flow had nothing to copy.
        ledger = projected_ledger(back, has_run=_has_run(back))
        moves = move_groups(back, ledger, run=run, write=not dry_run, only=groups, home=True)
        copied_to, unknown = copied_ends(back, ledger)
        notes = (*_notes(flow), *unknown, *_passed_notes(flow, moves))
        return outlook(
            back, ledger, moves, copied_to, run=run, at=at, is_done=not dry_run, notes=notes
        )


def require_visible_topics(flow: Flow, back: Flow) -> None:
    """Fail where ``flow``'s target may have a topic under the name of one that was copied, and does not show it.

    A broker silently omits such a topic from its list. ``back``, whose topics may all be missing, would have copied
    nothing of what applications have written to it, and the groups would never read that.

    Raises:
        AccessDenied: with the rights that let ``back`` see them.
    """
    try:
        copied = projected_ledger(flow).topics()
    except InputError:
        # It has never run.
        return
    target = ClusterControl(flow.target)
    if hidden := sorted(target.hidden(select_topics(back, copied)[0], target.topic_names())):
        raise AccessDenied(
            f"{flow.target.alias} does not let {back.name} see whether it has {first_of(hidden, _SHOWN)}. What "
            "applications have written there is not copied back, and no group is moved.",
            advice=how_to_grant(*(Right.topic("READ", topic) for topic in hidden[:_SHOWN])),
        )


def _has_run(flow: Flow) -> bool:
    """Whether a run of the flow was published."""
    return flow_state(flow).folder("runs").stamp(HISTORY) is not None


def _passed_notes(flow: Flow, moves: GroupMoves) -> tuple[str, ...]:
    """Which records the groups have passed on ``flow``'s target, or why that is unknown."""
    try:
        return tuple(passed_records(flow, projected_ledger(flow), moves))
    except InputError:
        # It has never run, and lacks nothing.
        return ()
    except (AccessDenied, LedgerError) as error:
        return (f"Which records the groups have passed on {flow.target.alias} is unknown: {error}",)


def _notes(flow: Flow) -> tuple[str, ...]:
    """What has to be done before ``flow`` runs again."""
    keeps_names = policy_of(flow).remote_topic(_ANY) == _ANY or flow.topics_rename
    if flow.on_returned_records == "leave-out" or not keeps_names:
        return ()
    return (
        f"Before {flow.name} runs again: where both clusters have a topic under one name, it leaves out "
        f"what {flow.target.alias} has copied back only with on.returned.records: leave-out. Without it, "
        "it copies nothing of such topics.",
    )
