"""Sends notifications about a run: one message per run and channel, when all tasks have ended.

A teardown task sends them, not a callback of the DAG. Airflow 3.3 runs a DAG's callbacks in the DAG
processor: at most once, while it parses the file, which is killed after 50 s, with a log that no page
shows, and maybe on a machine without the state folder; a run that a user marks as failed has none. A
teardown runs on a worker when all other tasks have ended, in any state, is retried, has an ordinary log,
and does not decide whether the run failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowException

from kafka_ferry_airflow.links import absolute
from kafka_ferry_airflow.monitoring.channels import check_providers, send
from kafka_ferry_airflow.page.urls import page_url, report_url

if TYPE_CHECKING:
    from kafka_ferry.config import Flow
    from kafka_ferry.config.options.notify import Channel
    from kafka_ferry.report.notice import Notice

log = logging.getLogger(__name__)

NOTIFY: Final = "notify"
_WORST: Final = ("failed", "upstream_failed", "skipped", "removed", "success")
_OVER: Final = ("failed", "success")
_TELLING_S: Final = 180.0


def add_notify_task(published: Any, flow: Flow) -> None:
    """Adds the task ``notify`` after all other tasks of a run; none if the flow has no channels.

    Args:
        published: the task ``publish``, or what it returns; its DAG has all other tasks by now.
        flow: the flow.

    Raises:
        ConfigError: the provider of one of the flow's channels is not installed.
    """
    if not flow.notify:
        return
    check_providers(flow)

    # The state that is kept from run to run has one writer at a time.
    @task(
        task_id=NOTIFY,
        max_active_tis_per_dag=1,
        retries=2,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=0.0,
        execution_timeout=timedelta(minutes=3),
    )
    def notify() -> dict[str, str]:
        """Sends the run's message to each channel, if the run has something to report."""
        return _notify(flow)

    ends = getattr(published, "operator", published).dag.leaves
    ends >> notify().as_teardown()


async def deadline_missed(
    config: str, flow: str, context: Mapping[str, Any] | None = None, home: str = ""
) -> None:
    """Notifies the channels that a run has not ended in time: for ``AsyncCallback``, in the triggerer.

    Not for ``SyncCallback``: Airflow 3.3 gives that a token with which it may not read a connection
    (its Execution API answers 403). Never raises: Airflow would log that where users do not look.

    Args:
        config: the flow's file.
        flow: the flow's name.
        context: Airflow's context of the run and its deadline.
        home: ``FERRY_HOME`` where the DAG was made: the flow's relative paths start there.
    """
    if home:
        os.environ.setdefault("FERRY_HOME", home)
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        _tell_late(config, flow, context or {})
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(told.set)

    # Not one of the loop's few threads, for which other DAGs' triggers would wait: who is told may answer byte by byte.
    Thread(target=copy_context().run, args=(tell,), name="kafka-ferry-late", daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(told.wait(), _TELLING_S)


def _tell_late(config: str, name: str, context: Mapping[str, Any]) -> None:
    from kafka_ferry.config import load_flow  # noqa: PLC0415  (for the triggerer only)
    from kafka_ferry.config.permissions import restrict  # noqa: PLC0415

    # The triggerer reads no other flow's file, and the file may be another one than that of the DAG by now.
    restrict()

    run: Mapping[str, Any] = context.get("dag_run") or {}
    if run.get("state") in _OVER:
        # A failed run keeps its deadline, and its failure was already sent.
        log.info("The run %s has ended: no notification about its deadline.", run.get("dag_run_id"))
        return
    try:
        flow = load_flow(config, name)
        if flow.deadline_from == "logical-date" and run.get("run_type") == "backfill":
            log.info("A backfill's run is late from the start: no notification is sent.")
            return
        notice = _late(flow, str(run.get("dag_run_id", "")), context.get("deadline") or {})
    except Exception:
        log.exception("The deadline of %s passed; no notification could be sent.", name)
        return
    log.warning("%s", notice.title)
    for channel in flow.notify:
        if (for_it := notice.about(channel.events)).facts:
            _tell(channel, for_it, links(flow, for_it))


def _late(flow: Flow, run: str, deadline: Mapping[str, Any]) -> Notice:
    from kafka_ferry.clock import now_ms  # noqa: PLC0415
    from kafka_ferry.report.notice import Notice, fact  # noqa: PLC0415  (rows of the proof)

    late = fact(
        "deadline",
        f"the run has not ended by {_when(deadline.get('deadline_time'))}",
        [_steps_ended(flow, run)],
        "Look at the run's tasks: does one wait for a slot in a pool, for an approval or for a run before it, "
        "or is there more to copy than there is time for? (docs/scheduling.md)",
    )
    return Notice(flow.name, run, now_ms(), (late,))


def _steps_ended(flow: Flow, run: str) -> str:
    """A sentence. The triggerer serves all DAGs, and reads no more of a store than the API server, nor for longer."""
    from kafka_ferry.errors import FerryError  # noqa: PLC0415
    from kafka_ferry.runs.publish.notifications import Notices  # noqa: PLC0415  (PyArrow)
    from kafka_ferry_airflow.page.store_reads import READS  # noqa: PLC0415

    try:
        ended = READS.read(flow.state_path, lambda: Notices(flow, run).steps_ended())
    except FerryError as error:
        return f"Which steps have ended is unknown. {error}"
    return f"Steps that have ended: {', '.join(ended) or 'none'}."


def _when(time: object) -> str:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC" if isinstance(time, datetime) else "its deadline"


def _notify(flow: Flow) -> dict[str, str]:
    """Notifies each channel that has not got the notice; returns the result of each."""
    from kafka_ferry.runs.publish.notifications import Notices  # noqa: PLC0415  (PyArrow)
    from kafka_ferry_airflow.errors import airflow_errors  # noqa: PLC0415

    context = get_current_context()
    run, ti = context["dag_run"], context["ti"]
    notices = Notices(flow, run.run_id)
    states = ti.get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])
    with airflow_errors():
        pending = notices.of_ending(run.clear_number or 0, task_states(states.get(run.run_id, {})))
    outcome: dict[str, str] = {}
    for channel in flow.notify:
        notice = pending.notice.about(channel.events)
        if not notice.facts:
            outcome[channel.name] = "nothing to tell"
        elif channel.name in pending.channels:
            outcome[channel.name] = "told before"
        elif _tell(channel, notice, links(flow, notice)):
            pending = notices.mark(pending, channel.name)
            outcome[channel.name] = "told"
        else:
            outcome[channel.name] = "could not be notified"
        log.info("%s: %s: %s", channel.name, outcome[channel.name], notice.title)
    untold = [name for name, what in outcome.items() if what == "could not be notified"]
    if untold:
        raise AirflowException(f"Could not notify {', '.join(untold)}: see above.")
    return outcome


def _tell(channel: Channel, notice: Notice, more: Mapping[str, str]) -> bool:
    """Whether a channel was notified; the log says why not."""
    try:
        send(channel, notice, more)
    except Exception:
        # Airflow masks the connection's secrets in it.
        log.exception("%s could not be notified.", channel.name)
        return False
    return True


def task_states(states: Mapping[str, Any]) -> dict[str, str]:
    """The state of each task; for a mapped one, the worst of its instances.

    Args:
        states: Airflow's, by task id, followed by an underscore and a number where mapped.
    """
    found: dict[str, str] = {}
    for name, state in states.items():
        stem, _, number = name.rpartition("_")
        task_id = stem if stem and number.isdigit() else name
        if task_id != NOTIFY:
            found[task_id] = min(found.get(task_id, str(state)), str(state), key=_badness)
    return found


def _badness(state: str) -> int:
    return _WORST.index(state) if state in _WORST else len(_WORST)


def links(flow: Flow, notice: Notice) -> dict[str, str]:
    """Names and addresses of a run's further pages."""
    run = quote(notice.run, safe="")
    urls = {
        "Run in Airflow": absolute(f"/dags/mirror_{quote(flow.slug)}/runs/{run}"),
        "Mirror": absolute(page_url(flow.slug, run=notice.run)),
    }
    if notice.published:
        urls["Report"] = absolute(report_url(flow.slug, notice.run))
    return urls
