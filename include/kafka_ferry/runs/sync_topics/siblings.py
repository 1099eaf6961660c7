"""Topics that another run of the same flow has created while a run was about to: a backfill beside a scheduled run."""

from __future__ import annotations

from collections.abc import Collection

from kafka_ferry.errors import FerryError
from kafka_ferry.model import Plan
from kafka_ferry.retry import retry_each
from kafka_ferry.runs.state.run_context import RunContext


class _Unmarked(FerryError):
    """Another run has announced that it creates a topic, and has neither marked it nor given up."""

    transient = True


def topics_of_siblings(run: RunContext, plan: Plan, topics: Collection[str]) -> frozenset[str]:
    """Which topics another run of the flow has created since ``plan`` was made.

    The run that has created a topic marks it so in the ledger soon after; one that finds it there does not.
    So a topic is waited for as long as another run says that it is about to create it.

    Args:
        run: the run.
        plan: its plan, which creates the topics.
        topics: remote topics that exist by now.
    """

    def ask(some: list[str]) -> dict[str, bool | FerryError]:
        # In this order: what was announced and is marked by now is no longer announced.
        run.project_ledger()
        marked = run.ledger.topics_created_since(plan.ledger_end, but_by=plan.run)
        announced = {name for name, runs in run.ledger.creators().items() if runs - {plan.run}}
        return {
            name: _Unmarked(f"another run is about to create {name}.")
            if name in announced - marked
            else name in marked
            for name in some
        }

    answers = retry_each(topics, ask)
    return frozenset(name for name, answer in answers.items() if answer is True)
