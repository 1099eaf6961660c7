"""The few calls of Airflow's REST API that the demo and the tests make."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import yaml

from kafka_sandbox.errors import SandboxError

_COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_DONE = ("success", "failed")
_LOG_LINES = 25
# The process of a task that asks ends five seconds after it has paused.
_SEEN_S = 3.0


@dataclass(frozen=True)
class DagRunResult:
    """How a DAG run ended.

    Attributes:
        run_id: the run.
        state: ``success`` or ``failed``.
        tasks: each task's state, in the order in which they ended.
        seconds: from its start to its end.
        log: the end of the first failed task's log; empty after a success.
    """

    run_id: str
    state: str
    tasks: Mapping[str, str]
    seconds: float
    log: str = field(default="", repr=False)


class AirflowApi:
    """Airflow at ``url``, logged in with a password.

    Its calls try again while SQLite is busy, and raise ``SandboxError`` with Airflow's answer.
    """

    def __init__(self, url: str, user: str, password: str) -> None:
        # Its first answers to tasks may keep Airflow from any other for a minute.
        self._client = httpx.Client(base_url=url, timeout=180)
        self._login = {"username": user, "password": password}

    def unhealthy(self) -> list[str]:
        """The components that do not report themselves healthy; ``api_server`` alone where that does not answer."""
        try:
            health = self._client.get("/api/v2/monitor/health").json()
        except (httpx.HTTPError, ValueError):
            return ["api_server"]
        return [name for name in _COMPONENTS if health.get(name, {}).get("status") != "healthy"]

    def load_settings(self, file: Path) -> None:
        """Creates or overwrites the connections, pools and variables of a settings file."""
        settings = yaml.safe_load(file.read_text())["airflow"]
        for connection in settings.get("connections") or ():
            self._put("connections", "connection_id", _connection(connection))
        for pool in settings.get("pools") or ():
            body = {
                "name": pool["pool_name"],
                "slots": pool["pool_slot"],
                "description": pool.get("pool_description") or "",
                "include_deferred": False,
            }
            self._put("pools", "name", body)
        for variable in settings.get("variables") or ():
            body = {"key": variable["variable_name"], "value": variable["variable_value"]}
            self._put("variables", "key", body)

    def add_connection(self, conn_id: str, conn_type: str, extra: Mapping[str, Any]) -> None:
        """Creates or overwrites a connection, all of whose settings are extras."""
        settings = {"conn_id": conn_id, "conn_type": conn_type, "conn_extra": extra}
        self._put("connections", "connection_id", _connection(settings))

    def delete_connection(self, conn_id: str) -> None:
        """Deletes a connection."""
        _check(self._send("DELETE", f"/connections/{quote(conn_id)}"))

    def wait_for_dag(self, dag_id: str, timeout: float = 120) -> None:
        """Waits until the DAG processor has found the DAG.

        Raises:
            SandboxError: it has not; with the import errors that there are.
        """
        deadline = time.monotonic() + timeout
        while self._send("GET", f"/dags/{quote(dag_id)}").status_code == httpx.codes.NOT_FOUND:
            if time.monotonic() > deadline:
                errors = self._call("GET", "/importErrors")["import_errors"]
                said = "\n".join(error["stack_trace"] for error in errors)
                raise SandboxError(f"There is no DAG {dag_id} after {timeout:g} s.\n{said}")
            time.sleep(0.5)

    def unpause_and_find_run(self, dag_id: str, timeout: float = 60) -> str | None:
        """Unpauses the DAG; returns the id of the run that is running or due, if any.

        Raises:
            SandboxError: a run is due and the scheduler has not started it in ``timeout`` seconds.
        """
        path = f"/dags/{quote(dag_id)}"
        due = self._call("PATCH", path, {"is_paused": False})["next_dagrun_run_after"]
        is_due = due is not None and datetime.fromisoformat(due) <= datetime.now(UTC)
        deadline = time.monotonic() + timeout
        while True:
            runs = self._call("GET", f"{path}/dagRuns?state=queued&state=running&limit=1")
            if runs["dag_runs"]:
                return str(runs["dag_runs"][0]["dag_run_id"])
            if not is_due:
                return None
            if time.monotonic() > deadline:
                raise SandboxError(f"The scheduler does not start the run of {dag_id} that is due.")
            time.sleep(0.2)

    def pause(self, dag_id: str) -> None:
        """Pauses a DAG: the scheduler starts and continues no run of it."""
        self._call("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": True})

    def pause_all(self) -> None:
        """Pauses all DAGs: the scheduler starts and continues none of them."""
        self._call("PATCH", "/dags?dag_id_pattern=~&limit=100", {"is_paused": True})

    def trigger(
        self,
        dag_id: str,
        conf: Mapping[str, Any] | None = None,
        logical_date: datetime | None = None,
    ) -> str:
        """Triggers a run of the DAG with these values of its form, and a logical date (now); returns its id."""
        at = logical_date or datetime.now(UTC)
        body = {"logical_date": at.isoformat(), "conf": dict(conf or {})}
        return str(self._call("POST", f"/dags/{quote(dag_id)}/dagRuns", body)["dag_run_id"])

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Says that a task has ended in a state; if it runs, it is killed."""
        self._call("PATCH", _task(dag_id, run_id, task_id), {"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str, *, downstream: bool = True) -> None:
        """Makes the scheduler run the task, and all that come after it, once more."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "include_downstream": downstream,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._call("POST", f"/dags/{quote(dag_id)}/clearTaskInstances", body)

    def wait(self, dag_id: str, run_id: str, timeout: float = 600) -> DagRunResult:
        """Waits for the end of a run.

        Raises:
            SandboxError: it has not ended; with the state of its tasks.
        """
        path = f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"
        deadline = time.monotonic() + timeout
        while (run := self._call("GET", path))["state"] not in _DONE:
            if time.monotonic() > deadline:
                page = self._client.base_url.join(f"/dags/{dag_id}")
                states = (f"{it['task_id']} {it['state'] or 'waits'}" for it in self._tasks(path))
                raise SandboxError(
                    f"{dag_id} has not ended after {timeout:g} s: {', '.join(states)}. Airflow and the clusters go on: "
                    f"look at {page}. make demo tries again, make demo-down stops all."
                )
            time.sleep(0.5)
        tasks = self._tasks(path)
        failed = next((task for task in tasks if task["state"] == "failed"), None)
        return DagRunResult(
            run_id=run_id,
            state=run["state"],
            tasks={task["task_id"]: task["state"] for task in tasks},
            seconds=run["duration"] or 0.0,
            log=self._log_end(path, failed) if failed else "",
        )

    def trigger_and_wait(
        self, dag_id: str, timeout: float = 600, conf: Mapping[str, Any] | None = None
    ) -> DagRunResult:
        """Runs the DAG to its end through the scheduler.

        Raises:
            SandboxError: it has not ended after ``timeout`` seconds.
        """
        return self.wait(dag_id, self.trigger(dag_id, conf), timeout)

    def backfill(
        self, dag_id: str, since: datetime, until: datetime, reprocess: str = "none"
    ) -> int:
        """Starts a backfill, as the dialog and ``airflow backfill create`` do; gives its id.

        Args:
            since: the first logical date.
            until: the last one, which is backfilled too.
            reprocess: ``none``, ``failed`` or ``completed``: which runs that exist are run again.
        """
        body = {
            "dag_id": dag_id,
            "from_date": since.isoformat(),
            "to_date": until.isoformat(),
            "reprocess_behavior": reprocess,
        }
        return int(self._call("POST", "/backfills", body)["id"])

    def wait_for_backfill(self, backfill: int, timeout: float = 600) -> None:
        """Waits until all runs of a backfill have ended.

        Raises:
            SandboxError: they have not after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while self._call("GET", f"/backfills/{backfill}")["completed_at"] is None:
            if time.monotonic() > deadline:
                raise SandboxError(f"The backfill {backfill} has not ended after {timeout:g} s.")
            time.sleep(0.5)

    def runs(self, dag_id: str, run_type: str) -> Mapping[str, str]:
        """The state of each run of a DAG that was started so: ``scheduled``, ``backfill``, ``asset_triggered``."""
        path = f"/dags/{quote(dag_id)}/dagRuns?run_type={run_type}&order_by=run_after&limit=100"
        return {run["dag_run_id"]: run["state"] for run in self._call("GET", path)["dag_runs"]}

    def end_run(self, dag_id: str, run_id: str, state: str = "failed") -> None:
        """Ends a run in a state; what it does is killed."""
        path = f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"
        self._call("PATCH", path, {"state": state})

    def asset_events(self, dag_id: str) -> Sequence[dict[str, Any]]:
        """The events of assets that the DAG's runs have emitted, the oldest first."""
        path = f"/assets/events?source_dag_id={quote(dag_id)}&order_by=timestamp&limit=100"
        return list(self._call("GET", path)["asset_events"])

    def pool(self, name: str) -> Mapping[str, Any]:
        """A pool: its slots, and how many of them are taken.

        Raises:
            SandboxError: there is none.
        """
        pool: Mapping[str, Any] = self._call("GET", f"/pools/{quote(name)}")
        return pool

    def question(self, dag_id: str, run_id: str, task_id: str, timeout: float = 120) -> str:
        """Waits until a task asks a person; gives what it shows, as Markdown.

        Raises:
            SandboxError: it has not asked after ``timeout`` seconds.
        """
        path = _task(dag_id, run_id, task_id)
        deadline = time.monotonic() + timeout
        while (state := self._call("GET", path)["state"]) != "awaiting_input":
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{dag_id}.{task_id} requests no input after {timeout:g} s: {state}"
                )
            time.sleep(0.5)
        return str(self._call("GET", _details(dag_id, run_id, task_id))["body"])

    def answer(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        option: str,
        timeout: float = 300,
        *,
        again: bool = True,
    ) -> None:
        """Answers the question of a task with one of its options, and waits until it has ended.

        Airflow takes a task that is answered before its scheduler has seen its process end for one
        that was killed, and tries it again: so it waits a while, and where it is asked again, it
        answers again.

        Args:
            again: whether it does; otherwise it ends there.

        Raises:
            SandboxError: it has not ended after ``timeout`` seconds.
        """
        path = _task(dag_id, run_id, task_id)
        body = {"chosen_options": [option], "params_input": {}}
        answered = -1
        deadline = time.monotonic() + timeout
        while True:
            task = self._call("GET", path)
            if task["state"] in _DONE:
                return
            if task["state"] == "awaiting_input" and task["try_number"] > answered:
                if answered >= 0 and not again:
                    return
                time.sleep(_SEEN_S)
                self._call("PATCH", _details(dag_id, run_id, task_id), body)
                answered = task["try_number"]
            if time.monotonic() > deadline:
                raise SandboxError(f"{dag_id}.{task_id} still requests input: {task['state']}")
            time.sleep(0.5)

    def task(self, dag_id: str, run_id: str, task_id: str) -> Mapping[str, Any]:
        """What Airflow knows of a task of a run: its state, the process that runs it, and more."""
        found: Mapping[str, Any] = self._call("GET", _task(dag_id, run_id, task_id))
        return found

    def states(self, dag_id: str, run_id: str, task_id: str) -> Sequence[str | None]:
        """The states of a mapped task's instances."""
        path = f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"
        return [task["state"] for task in self._tasks(path) if task["task_id"] == task_id]

    def links(self, dag_id: str, run_id: str, task_id: str) -> Mapping[str, str | None]:
        """The buttons of a task, by name; None where there is nothing to see."""
        path = f"{_task(dag_id, run_id, task_id)}/links"
        found: Mapping[str, str | None] = self._call("GET", path)["extra_links"]
        return found

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """What the task's last try wrote to its log."""
        path = f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"
        task = self._call("GET", f"{path}/taskInstances/{quote(task_id)}")
        return "\n".join(self._log_lines(path, task))

    def _tasks(self, path: str) -> Sequence[dict[str, Any]]:
        tasks = self._call("GET", f"{path}/taskInstances")["task_instances"]
        return sorted(tasks, key=lambda task: task["end_date"] or "9999")

    def _log_end(self, path: str, task: Mapping[str, Any]) -> str:
        lines = list(self._log_lines(path, task))[-_LOG_LINES:]
        return "\n".join([f"The log of {task['task_id']} ends:", *lines])

    def _log_lines(self, path: str, task: Mapping[str, Any]) -> Iterator[str]:
        tries = f"{path}/taskInstances/{quote(task['task_id'])}/logs/{task['try_number']}"
        for entry in self._call("GET", f"{tries}?full_content=true")["content"]:
            if isinstance(entry, str):
                yield entry
                continue
            yield entry["event"]
            for error in entry.get("error_detail") or ():
                yield f"{error['exc_type']}: {error['exc_value']}"

    def _put(self, kind: str, key: str, body: dict[str, Any]) -> None:
        answer = self._send("POST", f"/{kind}", body)
        if answer.status_code == httpx.codes.CONFLICT:
            answer = self._send("PATCH", f"/{kind}/{quote(body[key])}", body)
        _check(answer)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return _check(self._send(method, path, body)).json()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        if "Authorization" not in self._client.headers:
            token = _check(self._client.post("/auth/token", json=self._login)).json()
            self._client.headers["Authorization"] = f"Bearer {token['access_token']}"
        for pause in (0.2, 0.5, 1, 2, 4):
            answer = self._client.request(method, f"/api/v2{path}", json=body)
            # On a busy machine its database may be locked for longer than it waits.
            is_locked = answer.is_server_error and "Database error" in answer.text
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE and not is_locked:
                break
            time.sleep(pause)
        return answer


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}/taskInstances/{quote(task_id)}"


def _details(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_task(dag_id, run_id, task_id)}/-1/hitlDetails"


def _connection(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A connection of ``airflow_settings.yaml`` as the API wants it."""
    names = ("host", "schema", "login", "password", "port")
    extra = settings.get("conn_extra")
    return {
        "connection_id": settings["conn_id"],
        "conn_type": settings["conn_type"],
        **{name: settings.get(f"conn_{name}") for name in names},
        "extra": json.dumps(extra) if extra else None,
    }


def _check(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        asked = f"{answer.request.method} {answer.request.url.path}"
        raise SandboxError(f"Airflow answers {answer.status_code} to {asked}: {answer.text[:500]}")
    return answer
