"""The tree of errors: what happened, whether another try can help, and what to do.

An error is *terminal* (another try gives the same result until somebody changes something) or
*transient* (brokers and networks do such things; a later try may succeed). The command line maps
``exit_code`` to its own exit status, Airflow maps ``transient`` to its retries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class FerryError(Exception):
    """Root of everything that Kafka Ferry raises on purpose.

    Attributes:
        message: one sentence that names the file, key, topic or partition.
        advice: what to check or to change; empty where nothing can be advised.
        transient: whether the same call may succeed later without a change.
        exit_code: the command line's exit status for it.
    """

    transient = False
    exit_code = 1

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive Exception's own pickling between Spark's processes.
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(kind: type[FerryError], state: dict[str, object]) -> FerryError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


class ConfigError(FerryError):
    """A flow's file is wrong: ``file``, ``key`` and the reason say where and why."""

    # Not 2, which `ferry plan` ends with where there are differences.
    exit_code = 9

    def __init__(self, file: str, key: str, reason: str, *, advice: str = "") -> None:
        super().__init__(f"{file}: {key}: {reason}", advice=advice)
        self.file = file
        self.key = key
        self.reason = reason


class ClusterUnreachable(FerryError):
    """No broker of a cluster answers, or it stopped answering."""

    transient = True
    exit_code = 3


class AccessDenied(FerryError):
    """A cluster refuses the login, or the principal lacks a right."""

    exit_code = 4


class SameCluster(FerryError):
    """Source and target are one physical cluster (their cluster ids are equal)."""

    exit_code = 9


class Fenced(FerryError):
    """Another run of the flow has taken its writers over; this one must stop and not try again."""

    exit_code = 5


class CorruptBatch(FerryError):
    """Bytes that are no valid record batch, with their coordinates in the message."""


class BrokerError(FerryError):
    """A broker answered with an error code that no other error here stands for.

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


class RangesFailed(FerryError):
    """Some partitions were not copied to their end; the others were.

    Attributes:
        failures: one sentence a partition, each naming topic, partition, offset and reason.
    """

    exit_code = 6

    def __init__(self, failures: Sequence[str], *, transient: bool) -> None:
        listed = "\n  ".join(failures)
        super().__init__(f"{len(failures)} partition(s) not copied to the end:\n  {listed}")
        self.failures = tuple(failures)
        self.transient = transient


class SparkFailed(FerryError):
    """Spark broke a job off; the message has its own words."""

    transient = True


class SparkNeeded(FerryError):
    """Something was tried without Spark, and there is something for it to do after all."""

    transient = True


class VerificationFailed(FerryError):
    """The copy is not proved complete; the message names topic, partition and range."""

    exit_code = 7


class FlowsFailed(FerryError):
    """Some of several flows failed, each for a reason of its own that was told before; the others did not.

    Attributes:
        flows: their names.
    """

    def __init__(self, failures: Mapping[str, FerryError], *, of: int) -> None:
        super().__init__(f"{len(failures)} of {of} flows failed: {', '.join(failures)}")
        self.flows = tuple(failures)
        self.transient = all(error.transient for error in failures.values())
        self.exit_code = max(error.exit_code for error in failures.values())


class NotApplied(FerryError):
    """Some changes beside topics and records could not be made on the target; records were copied all the same.

    Attributes:
        failures: one sentence a change, each naming what could not be changed and why.
    """

    exit_code = 8

    def __init__(self, failures: Sequence[str]) -> None:
        listed = "\n  ".join(failures)
        super().__init__(f"{len(failures)} change(s) not made on the target:\n  {listed}")
        self.failures = tuple(failures)


class GroupsFailed(FerryError):
    """Offsets of some groups could not be read, translated or committed; those of the others were.

    Attributes:
        failures: one sentence each, naming group, topic, partition and reason.
    """

    exit_code = 10

    def __init__(self, failures: Sequence[str], *, transient: bool) -> None:
        listed = "\n  ".join(failures)
        super().__init__(f"{len(failures)} thing(s) could not be done for groups:\n  {listed}")
        self.failures = tuple(failures)
        self.transient = transient


class CheckpointRefused(FerryError):
    """A Spark checkpoint is not translated, and nothing was written.

    Attributes:
        reasons: a sentence for each thing that has no right answer.
    """

    exit_code = 11

    def __init__(self, reasons: Sequence[str], *, location: str = "", advice: str = "") -> None:
        listed = "\n  ".join(reasons)
        named = f" {location}" if location else ""
        super().__init__(f"The checkpoint{named} is not translated:\n  {listed}", advice=advice)
        self.reasons = tuple(reasons)


class StepFailed(FerryError):
    """What a step of a run said in another process, as that process stored it."""

    def __init__(self, message: str, *, transient: bool, exit_code: int) -> None:
        super().__init__(message)
        self.transient = transient
        self.exit_code = exit_code
