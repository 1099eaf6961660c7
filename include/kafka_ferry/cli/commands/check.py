"""``ferry check``: whether files' flows are valid, and go together, without any broker."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafka_ferry.cli.flows import flows_of, ignored_keys
from kafka_ferry.cli.options import FLOW_FILE, ClustersOption, FlowOption
from kafka_ferry.cli.terminal import messages, out, show_error, show_json, show_that_rules_are_read
from kafka_ferry.config.client.keystores import wrong_stores
from kafka_ferry.config.files.load import doubt_texts, refuse
from kafka_ferry.config.types.problems import WHOLE_FILE, Problem, config_error
from kafka_ferry.errors import FerryError, JavaNeeded
from kafka_ferry.plan.same_names import mixed_aliases, own_names, same_names
from kafka_ferry.plan.topics.unused_options import unused_registries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_ferry.config import Flow

FilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        help="A file with flows: YAML, or MirrorMaker 2's properties; repeatable, to check that they go together.",
        show_default=str(FLOW_FILE),
    ),
]
MoreFiles = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILES", help="The same, as a shell gives them: configs/*.yaml"),
]
CheckJsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print JSON for programs: a list with an object for each flow."),
]


def check(
    files: MoreFiles = None,
    config: FilesOption = None,
    flow: FlowOption = None,
    clusters: ClustersOption = None,
    *,
    as_json: CheckJsonOption = False,
) -> None:
    """Check flows' files, and ask no broker. Exits with 0 if a run would accept them."""
    paths = {it.absolute(): it for it in [*(config or ()), *(files or ())] or [FLOW_FILE]}
    flows, refused = _valid_flows([*paths.values()], flow, clusters)
    _refuse_twins(flows)
    unchecked = _check_rules([one for _, one in flows])
    notes = {one.name: [*_notes(file, one)] for file, one in flows}
    for file, one in flows if unchecked else ():
        if one.transform:
            notes[one.name].append(f"{file}: transform: was not looked at. {unchecked}")
    for (_, one), (file, other) in combinations(flows, 2):
        sentences = (*same_names(one, other), *mixed_aliases(one, other))
        notes[other.name] += [f"{file}: {sentence}" for sentence in sentences]
    if as_json:
        show_json([[_as_json(file, it, notes[it.name]) for file, it in flows]], several=False)
    else:
        for file, one in flows:
            groups = "" if one.groups == (".*",) else f"; its groups are {', '.join(one.groups)}"
            out.print(f"{file}: {one.name} is valid; it copies {', '.join(one.topics)}{groups}")
        for note in dict.fromkeys(sentence for some in notes.values() for sentence in some):
            messages.print(note)
    if refused:
        raise typer.Exit(refused[0].exit_code)


def _valid_flows(
    files: Sequence[Path], name: str | None, clusters: Sequence[str] | None
) -> tuple[list[tuple[Path, Flow]], list[FerryError]]:
    """The flows of the files that are valid, and what is wrong with the others, which is shown at once.

    Raises:
        ConfigError: the only file is not valid.
    """
    valid: list[tuple[Path, Flow]] = []
    refused: list[FerryError] = []
    for file in files:
        try:
            flows = flows_of(file, name, clusters)
            for one in flows:
                refuse(file, one, (*own_names(one), *_wrong_stores(one)))
        except FerryError as error:
            if len(files) == 1:
                raise
            show_error(error)
            refused.append(error)
        else:
            valid += [(file, one) for one in flows]
    return valid, refused


def _wrong_stores(flow: Flow) -> Iterator[Problem]:
    for side, cluster in (("source", flow.source), ("target", flow.target)):
        for problem in wrong_stores(cluster.properties):
            yield problem._replace(key=f"{side}.{problem.key}")


def _check_rules(flows: Sequence[Flow]) -> str:
    """Let Spark read the flows' rules, as a plan does; those that need no registry.

    Returns:
        Why it could not, "" where it did.

    Raises:
        ConfigError: Spark cannot make sense of an expression.
    """
    ruled = [
        candidate
        for candidate in flows
        if any(any(rule.expressions) for rule in candidate.transform)
    ]
    if not (
        ruled := [
            candidate
            for candidate in ruled
            if not any(r.registry_formats for r in candidate.transform)
        ]
    ):
        return ""
    from kafka_ferry.spark.session import terminal_spark
    from kafka_ferry.spark.transforms import checked_rules

    try:
        started = terminal_spark("rules", 1, show_that_rules_are_read)
    except JavaNeeded as error:
        return str(error)
    with started as spark:
        for flow in ruled:
            checked_rules(spark(), flow)
    return ""


def _refuse_twins(flows: Sequence[tuple[Path, Flow]]) -> None:
    """Refuse a flow that two files hold.

    Raises:
        ConfigError: there is one.
    """
    first: dict[str, Path] = {}
    for file, flow in flows:
        if flow.name in first:
            reason = (
                f"holds {flow.name}, as {first[flow.name]} does: their runs would refuse each other"
            )
            advice = "Leave one out, or give one of its clusters another alias."
            raise config_error(str(file), Problem(WHOLE_FILE, reason, advice))
        first[flow.name] = file


def _notes(file: Path, flow: Flow) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for key, why in ignored_keys([flow]):
        by_reason.setdefault(why, []).append(key)
    for why, keys in by_reason.items():
        have = "has" if len(keys) == 1 else "have"
        yield f"{file}: {', '.join(keys)} {have} no effect here: {why}"
    yield from doubt_texts(file, flow)
    for note in unused_registries(flow):
        yield f"{file}: {note}"
    # The last line is read first.
    if file.suffix == ".properties" and "schedule" not in flow.model_fields_set:
        yield f"{file}: {flow.name} runs {flow.schedule} in Airflow, since the file has no schedule"


def _as_json(file: Path, flow: Flow, notes: Sequence[str]) -> dict[str, Any]:
    return {"config": str(file), "flow": flow.name, "topics": [*flow.topics], "notes": [*notes]}
