"""The DAGs for emergencies: ``failover_{source}_to_{target}`` and ``failback_{source}_to_{target}``.

A person triggers them. They are not paused, and their form is a dry run until the person says otherwise, by the
flow's name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, Param, TriggerRule, get_current_context, task
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from kafka_ferry.config import Flow
from kafka_ferry.config.reverse_flow import load_reverse_flow
from kafka_ferry.errors import AccessDenied, FerryError, GroupsFailed, InputError
from kafka_ferry_airflow.connections import provide_connections
from kafka_ferry_airflow.dags.description import tags_of
from kafka_ferry_airflow.dags.params import require_known, show_form
from kafka_ferry_airflow.errors import FAILURE_CALLBACKS, airflow_errors, have_reason_logged

if TYPE_CHECKING:
    from kafka_ferry.groups.outlook import Outlook

log = logging.getLogger(__name__)

_GROUPS: Final = Param(
    [],
    # Airflow marks what may not be empty with a red star.
    type=["null", "array"],
    items={"type": "string"},
    title="Groups",
    description="Only these of the groups that the mirror moves, one a line; all of them if empty.",
)
_DRY_RUN: Final = Param(
    True,
    type=["null", "boolean"],
    title="Dry run",
    description="Show where each group would continue; change nothing. Switch it off to move the groups.",
)
_SOURCE_DOWN: Final = Param(
    False,
    type=["null", "boolean"],
    title="Source is down",
    description="Do not try to ask the source cluster.",
)
_COPY_ONLY: Final = Param(
    False,
    type=["null", "boolean"],
    title="Copy only",
    description="Only copy, and move no groups: use it while applications still run on the target.",
)
_FAILOVER: Final = """\
**Use this DAG if the cluster {source} is lost, or if its applications are to continue at {target}.**

The task commits on **{target}** the counterpart of what each group has read on **{source}**, and its log says
where each group continues. It works while {source} is down. You may repeat it at any time: it never sets an
offset back, and leaves alone the groups that are in use on {target}.

1. Stop the applications on {source}, if they still run.
2. Trigger this DAG, with **Dry run** off and **{name}** as the name of the mirror. Read the log of the task
   **failover**: each group is READY, IN USE or STUCK, with the first record that it will read.
3. Start the applications on {target}. `{naming}` determines the names of their topics there.
"""
_FAILBACK: Final = """\
**Use this DAG when the cluster {source} is back: it copies what is new on {target} to {source}, and moves the
groups back.**

1. Trigger this DAG with **Copy only** while the applications still run on {target}, with **Dry run** off and
   **{name}** as the name of the mirror: this copies most of the records.
2. Stop the applications on {target}, consumers and producers.
3. Trigger it again, without Copy only. Read the log of the task **move_groups**.
4. Start the applications on {source}.
"""


def failover_dag(flow: Flow) -> DAG:
    """The DAG that lets the groups of ``flow`` continue on its target."""
    with _by_hand(flow, "failover", _FAILOVER) as dag:

        @task(task_id="failover", **FAILURE_CALLBACKS)
        def fail_over() -> dict[str, Any]:
            """Syncs the groups' offsets a last time; its log says where each group continues."""
            from kafka_ferry.runs.failover.failover import failover  # noqa: PLC0415  (PyArrow)

            params = get_current_context()["params"]
            with airflow_errors():
                require_known(get_current_context())
            require_confirmed(flow, params)
            provide_connections(flow)
            with airflow_errors():
                return _shown(
                    failover(
                        flow,
                        named_groups(flow, params),
                        dry_run=bool(params["dry_run"]),
                        source_down=bool(params["source_down"]),
                    )
                )

        fail_over()
    show_form(dag, _form(flow, groups=_GROUPS, source_down=_SOURCE_DOWN))
    return dag


def failback_dag(flow: Flow, add_tasks: Callable[[Flow], Any]) -> DAG:
    """The DAG that copies new records on ``flow``'s target back, and moves the groups back.

    Args:
        flow: the flow.
        add_tasks: adds the tasks of a run of the reverse flow; returns the last one.

    Raises:
        ConfigError: if the file's opposite flow is not valid.
    """
    back = load_reverse_flow(flow.file, flow)
    with _by_hand(flow, "failback", _FAILBACK) as dag:

        @task(on_execute_callback=have_reason_logged)
        def confirm() -> None:
            """Lets nothing begin that was not asked for by the mirror's name."""
            with airflow_errors():
                require_known(get_current_context())
                named_groups(back, get_current_context()["params"])
            require_confirmed(flow, get_current_context()["params"])

        @task(trigger_rule=TriggerRule.NONE_FAILED, **FAILURE_CALLBACKS)
        def move_groups() -> dict[str, Any]:
            """Translates the groups' offsets back, and commits them on the cluster that they came from."""
            from kafka_ferry.runs import Run  # noqa: PLC0415  (PySpark and Great Expectations)
            from kafka_ferry.runs.failover.failback import (  # noqa: PLC0415  (PyArrow)
                failback,
                require_visible_topics,
            )

            context = get_current_context()
            params = context["params"]
            provide_connections(flow)
            with airflow_errors():
                if params["copy_only"]:
                    require_visible_topics(flow, back)
                    log.info("Only copied: no group was moved.")
                    return {"ready": 0, "stuck": 0}
                groups = named_groups(back, params)
                if not params["dry_run"]:
                    Run(back, context["run_id"]).require_carried_out()
                    return _shown(failback(flow, back, groups))
                try:
                    outlook = failback(flow, back, groups, dry_run=True)
                except AccessDenied:
                    raise
                except FerryError as error:
                    log.info("Groups can only be translated once records are copied: %s", error)
                    return {"ready": 0, "stuck": 0}
                return _shown(outlook)

        copied = add_tasks(back)
        first = list(dag.roots)
        confirm() >> first
        copied >> move_groups()
    show_form(dag, _form(flow, groups=_GROUPS, copy_only=_COPY_ONLY))
    return dag


def named_groups(flow: Flow, params: Mapping[str, Any]) -> Sequence[str]:
    """The groups that the form names; none where it is for all.

    On the command line a person may name any group. Here a user who may trigger need not be who writes the flow's file.

    Raises:
        InputError: the flow's file leaves one of them out.
    """
    groups: Sequence[str] = params["groups"] or ()
    for name in groups:
        if not flow.group_filter.matches(name):
            raise InputError(
                f"{flow.name} leaves the group {name!r} out, by groups and groups.exclude of its file: no group was "
                "moved.",
                advice="Name groups that the file chooses, or have its author add this one.",
            )
    return groups


def require_confirmed(flow: Flow, params: Mapping[str, Any]) -> None:
    """Check that what changes anything was asked for by the flow's name.

    Raises:
        AirflowFailException: it was not; nothing has begun.
    """
    if params["dry_run"] or (params["confirm"] or "").strip() == flow.name:
        return
    raise AirflowFailException(
        f"Nothing was changed: without Dry run, the form has to have the mirror's name ({flow.name}), and it has "
        f"{params['confirm'] or 'none'!r}. Trigger the DAG again."
    )


def _form(flow: Flow, **params: Param) -> ParamsDict:
    confirm = Param(
        "",
        type=["null", "string"],
        title="Name of the mirror",
        description=f"Without Dry run: type {flow.name}.",
    )
    # Airflow writes a run's parameters into them.
    fields = {name: copy(param) for name, param in params.items()}
    return ParamsDict({"dry_run": copy(_DRY_RUN), "confirm": confirm, **fields})


def _by_hand(flow: Flow, what: str, text: str) -> DAG:
    return DAG(
        dag_id=f"{what}_{flow.slug}",
        # Behind its mirror in Airflow's list, which the names are the order of.
        dag_display_name=f"mirror_{flow.slug} ({what})",
        description=f"You trigger it: {what} of {flow.source.alias} to {flow.target.alias}",
        doc_md=text.format(
            name=flow.name,
            source=flow.source.alias,
            target=flow.target.alias,
            naming=flow.replication_policy_class,
        ),
        tags=tags_of(flow, what),
        # No start date: before it, a run that a person triggers has no task, and succeeds.
        schedule=None,
        max_active_runs=1,
        is_paused_upon_creation=False,
        auto_register=False,
    )


def _shown(outlook: Outlook) -> dict[str, Any]:
    """Writes the report to the task's log.

    Raises:
        GroupsFailed: if a group may not start, or something failed.
    """
    from kafka_ferry.groups.outlook_text import outlook_lines  # noqa: PLC0415

    for line in outlook_lines(outlook):
        bad = line.startswith(("STUCK", "FAILED"))
        log.log(logging.ERROR if bad else logging.INFO, "%s", line)
    if not outlook.all_can_start:
        raise GroupsFailed(outlook.problems, transient=False)
    states = [group.state for group in outlook.groups]
    return {state: states.count(state) for state in ("ready", "in use", "stuck")}
