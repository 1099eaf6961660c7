"""The tree of errors: what happened, whether a retry can help, and what to do.

An error is *terminal* (a retry gives the same result until something is changed) or
*transient* (brokers and networks do such things; a later try may succeed). The command line maps
``exit_code`` to its own exit status, Airflow maps ``transient`` to its retries.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka_ferry.printable import one_line, printable
from kafka_ferry.secret_values import mask


class FerryError(Exception):
    """Base class of every error that Kafka Ferry raises on purpose; it shows no secret of this process.

    A name in it begins no line of its own: only ``details`` do.

    Args:
        message: one sentence that names the file, key, topic or partition.
        advice: as the attribute.
        details: sentences that follow the message, each in a line.

    Attributes:
        message: the sentence, with the details.
        advice: what to check or change; empty where there is no advice.
        transient: whether the same call may succeed later without a change.
        exit_code: the command line's exit status for it.
        has_lines: whether the message has lines of its own, as a program wrote them.
    """

    transient = False
    exit_code = 1
    has_lines = False

    def __init__(self, message: str, *, advice: str = "", details: Sequence[str] = ()) -> None:
        sentence = printable(message) if self.has_lines else one_line(message)
        self.message = "\n  ".join([sentence, *map(one_line, details)])
        self.advice = printable(advice)
        super().__init__(self.message)

    def __str__(self) -> str:
        return with_advice(self.message, self.advice)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive Exception's own pickling between Spark's processes.
        return (_rebuild, (type(self), self.__dict__))


def with_advice(message: str, advice: str) -> str:
    """What happened and what to do, as sentences."""
    ends = message.endswith((".", "!", "?", ":")) or not advice
    return f"{message}{'' if ends else '.'} {advice}".rstrip()


def _rebuild(kind: type[FerryError], state: dict[str, object]) -> FerryError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class SecretHidden(FerryError):
    """An error of a library that would show a secret; the message is its traceback, with the secret masked."""

    transient = True
    has_lines = True


@contextmanager
def mask_errors() -> Iterator[None]:
    """Lets no error pass whose traceback shows a secret of this process: Airflow and Spark print it as it is.

    Raises:
        SecretHidden: instead of such an error of a library.
    """
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        shown = mask(text)
        if shown == text:
            raise
        if not isinstance(error, FerryError):
            raise SecretHidden(shown) from None
        # Its own message has no secret: those that it comes from have.
        error.__cause__ = error.__context__ = None
        raise


def place_text(file: str, line: int | None) -> str:
    """A file and a line of it, in the form that editors and terminals make a link of."""
    return file if line is None else f"{file}:{line}"


class ConfigError(FerryError):
    """A flow's file is invalid: ``file``, ``key`` and the reason say where and why, of several in a line each.

    Args:
        file: the file's path.
        key: as in the file.
        reason: what is wrong.
        advice: as for ``FerryError``.
        line: the key's line in the file, from 1 on, where it is known.
        problems: as ``config.types.problems.Problem``: what the error was made from; may be empty.
    """

    has_lines = True

    # Not 2, with which `ferry plan` exits where there are differences.
    exit_code = 9

    def __init__(
        self,
        file: str,
        key: str,
        reason: str,
        *,
        advice: str = "",
        line: int | None = None,
        problems: Sequence[tuple[str, str, str, int | None]] = (),
    ) -> None:
        super().__init__(f"{place_text(file, line)}: {key}: {reason}", advice=advice)
        self.file = file
        self.problems = tuple(problems)
        self.key = key
        self.reason = mask(reason)


class InputError(FerryError):
    """What a person asked for does not exist, or is no value that may be given."""

    exit_code = ConfigError.exit_code


class JavaNeeded(FerryError):
    """This machine has no Java that Spark could start with."""

    exit_code = ConfigError.exit_code


class StateUnwritable(FerryError):
    """A flow's state folder takes no file."""

    exit_code = ConfigError.exit_code

    def __init__(self, message: str, *, transient: bool) -> None:
        advice = (
            "Does state.dir name a folder that this user may write to, and is there room in it?"
        )
        super().__init__(message, advice=advice)
        self.transient = transient


class StateUnreadable(FerryError):
    """The store of a flow's state folder does not answer, or refuses to."""

    transient = True
    exit_code = ConfigError.exit_code


class StateTooLarge(StateUnreadable):
    """A file in a flow's state folder is larger than any that a run writes."""

    transient = False


class ClusterUnreachable(FerryError):
    """No broker of a cluster answers, or the cluster stopped answering."""

    transient = True
    exit_code = 3


class WrongPort(ClusterUnreachable):
    """What listens at a cluster's bootstrap servers is no broker's port, or not one of the flow's security.protocol."""

    transient = False


class AccessDenied(FerryError):
    """A cluster refuses the login, or the principal lacks a permission."""

    exit_code = 4


class SameCluster(FerryError):
    """Source and target are one physical cluster (their cluster ids are equal)."""

    exit_code = 9


class Fenced(FerryError):
    """Another run of the flow has taken over its writers; this run must stop and must not be retried."""

    exit_code = 5


class OtherRunActive(Fenced):
    """An older run of the flow is active, and disturbs this one: another try may help."""

    transient = True


class CorruptBatch(FerryError):
    """Bytes that are not a valid record batch; the message has their coordinates."""


class BrokerError(FerryError):
    """A broker answered with an error code that no other class here covers.

    Attributes:
        code: Kafka's error code.
        name: its name, as in ``org.apache.kafka.common.protocol.Errors``.
    """

    def __init__(
        self, message: str, *, code: int, name: str, transient: bool, advice: str = ""
    ) -> None:
        super().__init__(message, advice=advice)
        self.code = code
        self.name = name
        self.transient = transient


class SparkFailed(FerryError):
    """Spark aborted a job; the message is Spark's own."""

    transient = True
    has_lines = True


class CheckpointInUse(SparkFailed):
    """Another query has written to the checkpoint of this one."""


class SparkNeeded(FerryError):
    """A step was tried without Spark, and turned out to have work for Spark."""

    transient = True


class VerificationFailed(FerryError):
    """The copy is not proved complete; the message names topic, partition and range."""

    exit_code = 7


class FlowsFailed(FerryError):
    """Some of several flows failed, each for a reason already reported; the others did not.

    Attributes:
        flows: their names.
    """

    def __init__(self, failures: Mapping[str, FerryError], *, of: int) -> None:
        super().__init__(f"{len(failures)} of {of} flows failed: {', '.join(failures)}")
        self.flows = tuple(failures)
        self.transient = all(error.transient for error in failures.values())
        self.exit_code = max(error.exit_code for error in failures.values())


class NotApplied(FerryError):
    """Some changes other than topics and records could not be made on the target; records were copied anyway.

    Attributes:
        failures: one sentence per change, each naming what could not be changed and why.
    """

    exit_code = 8

    def __init__(self, failures: Sequence[str]) -> None:
        super().__init__("Not made on the target:", details=failures)
        self.failures = tuple(failures)


class GroupsFailed(FerryError):
    """Offsets of some groups could not be read, translated or committed; those of the others were.

    Attributes:
        failures: one sentence each, naming group, topic, partition and reason.
    """

    exit_code = 10

    def __init__(self, failures: Sequence[str], *, transient: bool) -> None:
        # A single one says it all.
        alone = failures[0] if len(failures) == 1 else ""
        super().__init__(alone or "Failed for groups:", details=() if alone else failures)
        self.failures = tuple(failures)
        self.transient = transient


class CheckpointRefused(FerryError):
    """A Spark checkpoint is not translated, and nothing was written.

    Attributes:
        reasons: one sentence for each part that cannot be translated.
    """

    exit_code = 11

    def __init__(self, reasons: Sequence[str], *, location: str = "", advice: str = "") -> None:
        place = f" {location}" if location else ""
        super().__init__(
            f"The checkpoint{place} is not translated:", advice=advice, details=reasons
        )
        self.reasons = tuple(reasons)


class StepFailed(FerryError):
    """An error that a step of a run raised in another process, as that process stored it."""

    has_lines = True

    def __init__(self, message: str, *, transient: bool, exit_code: int) -> None:
        super().__init__(message)
        self.transient = transient
        self.exit_code = exit_code
