import copy
import pickle
from typing import Any

import pytest

from kafka_ferry import errors
from kafka_ferry.copy.target.writer import StartOver
from kafka_ferry.errors import (
    AccessDenied,
    BrokerError,
    CheckpointInUse,
    CheckpointRefused,
    ClusterUnreachable,
    ConfigError,
    CorruptBatch,
    Fenced,
    FerryError,
    FlowsFailed,
    GroupsFailed,
    InputError,
    JavaNeeded,
    NotApplied,
    OtherRunActive,
    SameCluster,
    SecretHidden,
    SparkFailed,
    SparkNeeded,
    StateTooLarge,
    StateUnreadable,
    StateUnwritable,
    StepFailed,
    VerificationFailed,
    WrongPort,
)
from kafka_ferry.ledger import LedgerError
from kafka_ferry.wire.transactions.settlement import Unsettled

WHAT, ADVICE = "It went wrong.", "Look there."
SENTENCES = ("orders-0 stopped.", "orders-1 stopped.")

# error, transient, exit code, what it says
ERRORS: list[tuple[FerryError, bool, int, str]] = [
    (FerryError(WHAT, advice=ADVICE), False, 1, "It went wrong. Look there."),
    (FerryError(WHAT), False, 1, "It went wrong."),
    (
        ConfigError("flow.yaml", "topics", "must be a list", advice=ADVICE),
        False,
        9,
        "flow.yaml: topics: must be a list. Look there.",
    ),
    (ClusterUnreachable(WHAT, advice=ADVICE), True, 3, "It went wrong. Look there."),
    (WrongPort(WHAT, advice=ADVICE), False, 3, "It went wrong. Look there."),
    (AccessDenied(WHAT, advice=ADVICE), False, 4, "It went wrong. Look there."),
    (SameCluster(WHAT, advice=ADVICE), False, 9, "It went wrong. Look there."),
    (Fenced(WHAT, advice=ADVICE), False, 5, "It went wrong. Look there."),
    (OtherRunActive(WHAT, advice=ADVICE), True, 5, "It went wrong. Look there."),
    (CorruptBatch(WHAT, advice=ADVICE), False, 1, "It went wrong. Look there."),
    (SparkFailed(WHAT, advice=ADVICE), True, 1, "It went wrong. Look there."),
    (CheckpointInUse(WHAT, advice=ADVICE), True, 1, "It went wrong. Look there."),
    (SparkNeeded(WHAT, advice=ADVICE), True, 1, "It went wrong. Look there."),
    (Unsettled(WHAT, advice=ADVICE), False, 1, "It went wrong. Look there."),
    (
        BrokerError(WHAT, code=3, name="UNKNOWN_TOPIC", transient=True, advice=ADVICE),
        True,
        1,
        "It went wrong. Look there.",
    ),
    (BrokerError(WHAT, code=87, name="INVALID_RECORD", transient=False), False, 1, WHAT),
    (
        CheckpointRefused(SENTENCES, location="old", advice=ADVICE),
        False,
        11,
        "The checkpoint old is not translated:\n  orders-0 stopped.\n  orders-1 stopped. Look there.",
    ),
    (InputError("No such thing."), False, 9, "No such thing."),
    (SecretHidden("ValueError: ******"), True, 1, "ValueError: ******"),
    (JavaNeeded("No java.", advice=ADVICE), False, 9, f"No java. {ADVICE}"),
    (StateUnreadable("x is silent.", advice=ADVICE), True, 9, f"x is silent. {ADVICE}"),
    (StateTooLarge("x is large.", advice=ADVICE), False, 9, f"x is large. {ADVICE}"),
    (
        StateUnwritable("x cannot be written to: full", transient=True),
        True,
        9,
        "x cannot be written to: full. Does state.dir name a folder that this user may write to, and is there room "
        "in it?",
    ),
    (
        NotApplied(["retention.ms could not be set."]),
        False,
        8,
        "Not made on the target:\n  retention.ms could not be set.",
    ),
    (
        GroupsFailed(["billing: no READ.", "us, committing: no."], transient=True),
        True,
        10,
        "Failed for groups:\n  billing: no READ.\n  us, committing: no.",
    ),
    (GroupsFailed(["There is no group x."], transient=False), False, 10, "There is no group x."),
    (VerificationFailed(WHAT, advice=ADVICE), False, 7, "It went wrong. Look there."),
    (
        FlowsFailed({"a->b": ClusterUnreachable(WHAT), "c->b": AccessDenied(WHAT)}, of=3),
        False,
        4,
        "2 of 3 flows failed: a->b, c->b",
    ),
    (StepFailed(WHAT, transient=True, exit_code=6), True, 6, WHAT),
    (LedgerError(WHAT, advice=ADVICE), False, 1, "It went wrong. Look there."),
    (StartOver(WHAT, advice=ADVICE), True, 1, "It went wrong. Look there."),
]

each_error = pytest.mark.parametrize(
    ("error", "transient", "exit_code", "says"),
    ERRORS,
    ids=[type(error).__name__ for error, *_ in ERRORS],
)


def test_the_table_holds_every_error() -> None:
    listed = {type(error) for error, *_ in ERRORS}
    defined = {kind for kind in vars(errors).values() if isinstance(kind, type)}
    assert listed >= {kind for kind in defined if issubclass(kind, FerryError)}


@each_error
def test_an_error_says_what_happened_and_what_to_do(
    error: FerryError, transient: bool, exit_code: int, says: str
) -> None:
    assert str(error) == says
    assert (error.transient, error.exit_code) == (transient, exit_code)


def through_pickle(error: FerryError) -> Any:
    return pickle.loads(pickle.dumps(error))


@each_error
def test_an_error_arrives_in_another_process_as_it_was(
    error: FerryError, transient: bool, exit_code: int, says: str
) -> None:
    for travel in (through_pickle, copy.copy, copy.deepcopy):
        arrived = travel(error)
        assert type(arrived) is type(error), travel
        assert vars(arrived) == vars(error), travel
        assert (str(arrived), arrived.args) == (says, error.args), travel
        assert (arrived.transient, arrived.exit_code) == (transient, exit_code), travel


def test_an_error_can_be_raised_again_where_it_arrived() -> None:
    arrived = through_pickle(ConfigError("flow.yaml", "topics", "must be a list"))
    with pytest.raises(ConfigError) as caught:
        raise arrived
    assert (caught.value.file, caught.value.key, caught.value.reason) == (
        "flow.yaml",
        "topics",
        "must be a list",
    )
