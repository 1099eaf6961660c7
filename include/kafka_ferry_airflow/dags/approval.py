"""The task in which a run waits until a user approves its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from kafka_ferry_airflow.dags.plan_text import plan_markdown
from kafka_ferry_airflow.errors import FAILURE_CALLBACKS, airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

    from kafka_ferry.config import Flow
    from kafka_ferry.model import Plan


PLANNED: Final = "plan_made"
"""The digest of the plan that the task ``plan`` has made."""

PREPARED: Final = "plan_prepared"
"""The digest of the plan that the task ``sync_topics`` has left, which ``mirror`` copies by."""

APPROVED: Final = "plan_approved"
"""The digest of the plan that ``sync_topics`` may carry out: a task that is marked as successful has none."""


def require_planned(plan: Plan, context: Context) -> None:
    """Check that a stored plan is the one that this run's task ``plan`` has made.

    A user who writes in the state folder cannot write to XCom, and a failback whose run has the same id shares the
    folder.

    Raises:
        AirflowFailException: it is another one.
    """
    if plan.digest != context["ti"].xcom_pull(task_ids="plan", key=PLANNED):
        raise AirflowFailException(
            f"The stored plan of {plan.flow} is not the one that the task plan has made. Find out who writes in the "
            "state folder, or has triggered a failback by this run's id; then clear the task plan."
        )


class PlanApprovalOperator(ApprovalOperator):
    """Shows the plan of this run to a user, and continues once the person has approved it.

    Differs from its parent in three ways. It reads the stored plan when it runs, and shows that.
    With ``approval: changes`` it asks for no approval if the plan only copies records. And rejecting
    the plan fails the run, for good and with the name of the person who rejected it.

    Args:
        flow: what is mirrored.
        kwargs: as for ``ApprovalOperator``.
    """

    def __init__(self, *, flow: Flow, **kwargs: Any) -> None:
        super().__init__(
            subject=f"{flow.name}: approve the plan of this run?", **{**FAILURE_CALLBACKS, **kwargs}
        )
        self.flow = flow

    def execute(self, context: Context) -> Any:
        """Asks for approval, and waits in the state ``awaiting_input``, without a worker.

        Raises:
            AirflowFailException: there is no plan, or another one than the task ``plan`` has made.
            AirflowSkipException: the run ends with its plan.
        """
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        with airflow_errors():
            plan = Run(self.flow, context["run_id"]).stored_plan()
        require_planned(plan, context)
        if plan.options.dry_run:
            raise AirflowSkipException("No approval is needed: a dry run ends with its plan.")
        if self.flow.approval == "changes" and not plan.changes:
            self.log.info(
                "No approval is needed: the plan copies records and changes nothing else."
            )
            context["ti"].xcom_push(key=APPROVED, value=plan.digest)
            return None
        self.body = plan_markdown(plan)
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            # A user who edits XComs could let the person's answer count for another plan; these no user can edit.
            waiting.kwargs = {"shown": plan.digest}
            raise

    def execute_complete(self, context: Context, event: dict[str, Any], shown: str = "") -> Any:
        """Continues when a user has answered.

        Args:
            context: Airflow's.
            event: the answer.
            shown: the digest of the plan that the person has seen.

        Raises:
            AirflowFailException: the plan was rejected, or is not the one that was shown; nothing was changed.
        """
        person = event.get("responded_by_user") or {}
        if event.get("chosen_options") == [self.REJECT]:
            raise AirflowFailException(
                f"{person.get('name', 'A user')} rejected the plan of {self.flow.name}: "
                "nothing was changed or copied. Clear the task plan to plan the run again."
            )
        answered = super().execute_complete(context, event)
        from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)

        with airflow_errors():
            Run(self.flow, context["run_id"]).approve(str(person.get("name") or "a user"), shown)
        context["ti"].xcom_push(key=APPROVED, value=shown)
        return answered
