"""How long Airflow's DAG processor takes to read 200 flows: ``python -m benchmarks.parsing``.

Seconds of the processor, not of the clock: what else runs on the machine says nothing of the code.
Importing Airflow itself is not counted, since the DAG processor has done so before it reads a file.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
_FLOW = """\
source: {{alias: s{0}, bootstrap.servers: "s{0}.example:9092"}}
target: {{alias: hub, bootstrap.servers: "hub.example:9092"}}
topics: [orders, payments.*]
schedule: "@hourly"
"""


def main(
    flows: Annotated[int, typer.Option(help="how many flows")] = 200,
    rounds: Annotated[int, typer.Option(help="the quickest of so many counts")] = 3,
) -> None:
    """Print what it takes to make the DAGs of all flows, and those of one task."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"AIRFLOW_HOME": folder, "FERRY_CONFIGS": folder, "FERRY_HOME": folder}
        for number in range(flows):
            (Path(folder) / f"flow-{number}.yaml").write_text(_FLOW.format(number))
        from kafka_ferry_airflow import (  # noqa: PLC0415  (reads AIRFLOW_HOME)
            build_mirrors,
            raise_problems,
        )

        def mirrors() -> None:
            assert len(build_mirrors(ROOT, ("mirror",)).dags) == 2 * flows

        def emergencies() -> None:
            assert len(build_mirrors(ROOT, ("emergency",)).dags) == 2 * flows

        def of_a_task() -> None:
            assert len(build_mirrors(ROOT, ("mirror",)).dags) == 1

        print(f"dags/mirrors.py, {2 * flows} DAGs: {_seconds(mirrors, rounds):.2f} s")
        print(f"dags/emergencies.py, {2 * flows} DAGs: {_seconds(emergencies, rounds):.2f} s")
        print(f"dags/flow_problems.py: {_seconds(lambda: raise_problems(ROOT), rounds):.2f} s")
        # As Airflow's task runner does.
        os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = "mirror_s0_to_hub"
        print(f"the one DAG of a task: {_seconds(of_a_task, rounds):.2f} s")


def _seconds(do: Callable[[], None], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        do()
        taken.append(time.process_time() - began)
    return min(taken)


if __name__ == "__main__":
    typer.run(main)
