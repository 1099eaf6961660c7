"""A step that needs Spark, as a ``spark-submit`` application."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

from kafka_ferry.config import Flow, load_flow
from kafka_ferry.config.permissions import restrict
from kafka_ferry.config.reverse_flow import load_reverse_flow
from kafka_ferry.errors import FerryError, mask_errors
from kafka_ferry.model.results.steps import StepPart
from kafka_ferry.printable import Printable, printable
from kafka_ferry.runs.mirror.spark_ui import note_application
from kafka_ferry.runs.progress import log_progress
from kafka_ferry.runs.run import Run
from kafka_ferry.spark.session import SparkSource, spark_of_submission

log = logging.getLogger(__name__)

_StepOfRun = Callable[[Run, SparkSource], object]


def mirror(arguments: Sequence[str] | None = None) -> int:
    """Execute the step ``mirror`` of the run that the arguments name, or one shard of it.

    Returns:
        The exit status: 0, or the error's own.
    """
    parser = _parser()
    parser.add_argument("--shard", type=int, help="the shard to copy; by default, all of them")
    parser.add_argument("--plan", help="the digest of the plan that sync_topics has left")
    options = parser.parse_args(arguments)

    def step(run: Run, spark: SparkSource) -> None:
        with log_progress(run, options.shard):
            run.mirror(spark, options.shard, expected=options.plan)
        try:
            log.info("Read back %d partitions", run.read_back(spark, options.shard))
        except FerryError as error:
            log.warning("What was copied could not be read back; verify will try again: %s", error)

    return _step(options, StepPart("mirror", options.shard), step)


def verify(arguments: Sequence[str] | None = None) -> int:
    """Execute the step ``verify`` of the run that the arguments name.

    Returns:
        The exit status: 0, or the error's own.
    """
    return _step(_parser().parse_args(arguments), StepPart("verify"), Run.verify)


def audit(arguments: Sequence[str] | None = None) -> int:
    """Audit the topics of the flow that the arguments name.

    Returns:
        The exit status: 0, or the error's own.
    """
    from kafka_ferry.runs.audit.scheduled import ScheduledAudit  # noqa: PLC0415  (no other job's)

    options = _parser().parse_args(arguments)

    def work(flow: Flow) -> None:
        this = ScheduledAudit(flow, options.run_id)
        with spark_of_submission(f"ferry audit {flow.name}") as spark:
            this.run(spark)

    return _main(options, work)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A step of a Kafka Ferry run, for spark-submit.")
    parser.add_argument("--config", required=True, help="the flow's file")
    parser.add_argument("--flow", required=True, help="the flow's name, source->target")
    parser.add_argument("--run-id", required=True, help="the run's id")
    parser.add_argument(
        "--reverse-flow", action="store_true", help="run that flow's reverse flow instead"
    )
    return parser


def _step(options: argparse.Namespace, part: StepPart, step: _StepOfRun) -> int:
    def work(flow: Flow) -> None:
        run = Run(flow, options.run_id)
        with spark_of_submission(f"ferry {flow.name}") as spark:
            note_application(flow, run.run_id, part, spark())
            step(run, spark)

    return _main(options, work)


def _main(options: argparse.Namespace, work: Callable[[Flow], None]) -> int:
    handler = logging.StreamHandler()
    handler.setFormatter(Printable("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Great Expectations would log each function that its documentation leaves out.
    logging.getLogger("kafka_ferry").setLevel(logging.INFO)
    # As in Airflow's tasks, also where Spark starts its driver elsewhere.
    restrict()
    try:
        with mask_errors():
            flow = load_flow(options.config, options.flow)
            if options.reverse_flow:
                flow = load_reverse_flow(options.config, flow)
            work(flow)
    except FerryError as error:
        print(printable(f"ERROR: {error}"), file=sys.stderr)
        return error.exit_code
    return 0
