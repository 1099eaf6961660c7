"""References to values stored elsewhere, such as ``${file:/run/secrets/kafka.properties:password}``.

They are resolved by config providers (KIP-297). The form of a reference, several of them in one value,
and the rule that values are not resolved again are as in
``org.apache.kafka.common.config.ConfigTransformer``; what each provider reads, and what it may read, as
in ``org.apache.kafka.common.config.provider``. Only one thing differs: Kafka leaves a reference that it
cannot resolve unchanged, and here that is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import javaproperties
import regex

from kafka_ferry.config.file_content import content_of
from kafka_ferry.config.java_properties import read_text
from kafka_ferry.config.types.home import follow_links
from kafka_ferry.config.types.name_filter import PatternError, compile_patterns, split_list
from kafka_ferry.config.types.problems import Problem, did_you_mean

PROVIDERS: Final = "config.providers"
"""The option that names providers; ``config.providers.{name}.`` begins the settings of each."""

ALLOWED: Final = "FERRY_CONFIG_PROVIDERS"
"""The environment variable that says what flow files may look up: ``file:/run/secrets, env:KAFKA_.*``.

If it is not set, a file may use what it declares; if it is empty, nothing. Airflow sets it to empty if it
is not set: authors of flows there need not be allowed to read the workers' environment.
"""

# Each flow of a file reads them several times.
_MOST_PATHS: Final = 100
_PACKAGE: Final = "org.apache.kafka.common.config.provider."

# ${NAME}, $(NAME), {{ name }}; and $NAME where it is all of a value or of a quoted part.
_SHELLS_OWN: Final = regex.compile(
    r"\$\{(?<name>[A-Z_][A-Z0-9_]*)\}|\$\{\w+\}|\$\(\w+\)|\{\{(?:(?!\{\{).)*?\}\}|(?<![^\"])\$[A-Z_][A-Z0-9_]*(?![^\"])"
)


class _Unresolved(Exception):
    """Why a reference cannot be resolved; the message never holds anything that was read."""


@dataclass(frozen=True)
class _Allowed:
    """The folders and files that a provider may read, with everything below them; None for everything."""

    paths: tuple[Path, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> _Allowed:
        # org.apache.kafka.common.config.internals.AllowedPaths
        items = split_list(text)
        if len(items) > _MOST_PATHS:
            raise ValueError(f"has {len(items):,} paths, and may have {_MOST_PATHS}")
        paths = [Path(os.path.normpath(item)) for item in items]
        for path in paths:
            if not path.is_absolute():
                raise ValueError(f"{path} must be an absolute path")
        return cls(tuple(paths) or None)

    def path(self, text: str) -> Path:
        for allowed in self.paths or ():
            if not allowed.exists():
                raise _Unresolved(f"may be read below {allowed}, which does not exist")
        if not text:
            raise _Unresolved("names no path")
        if self.paths is None:
            return Path(text)
        path = Path(os.path.normpath(text))
        if not any(path.is_relative_to(allowed) for allowed in self.paths):
            raise _Unresolved("is outside of the provider's allowed.paths")
        return path


@dataclass
class _File:
    """``${file:path:key}``: a key of a Java properties file, in UTF-8."""

    allowed: _Allowed
    _read: dict[Path, dict[str, str]] = field(default_factory=dict)

    def get(self, path: str, key: str) -> str:
        file = self.allowed.path(path)
        _allow("file", file)
        if file not in self._read:
            self._read[file] = self._properties(file)
        if key not in self._read[file]:
            raise _Unresolved(f"finds no key {key!r} in that file")
        return self._read[file][key]

    @staticmethod
    def _properties(file: Path) -> dict[str, str]:
        try:
            return read_text(content_of(file).decode("utf-8"))
        except OSError as error:
            raise _Unresolved(f"cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, javaproperties.InvalidUEscapeError):
            raise _Unresolved("is not a properties file in UTF-8") from None


@dataclass
class _Directory:
    """``${dir:path:name}``: the content of a file in a folder, in UTF-8, without its last line's end.

    Kafka leaves that in place where the reference is a part of a value, as a password in a JAAS text is, and
    mounted secrets often end so.
    """

    allowed: _Allowed

    def get(self, path: str, key: str) -> str:
        folder = self.allowed.path(path)
        _allow("dir", folder)
        if not folder.is_dir():
            raise _Unresolved("is not a folder")
        file = folder / key
        # A name with a slash would leave the folder.
        if not key or file.parent != folder or not file.is_file():
            raise _Unresolved(f"finds no file {key!r} in that folder")
        _allow("dir", file)
        try:
            return content_of(file).decode("utf-8").rstrip("\r\n")
        except OSError as error:
            raise _Unresolved(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise _Unresolved("is not text in UTF-8") from None


@dataclass
class _Environment:
    """``${env:NAME}``: an environment variable."""

    allowed: Any

    def get(self, path: str, key: str) -> str:
        if path:
            raise _Unresolved("must be ${env:NAME}, without a path")
        if not self.allowed.fullmatch(key):
            raise _Unresolved("is outside of the provider's allowlist.pattern")
        _allow("env", key)
        if key not in os.environ:
            raise _Unresolved("is not set in the environment of this process")
        return os.environ[key]


def may_look_up(kind: str, wanted: Path | str) -> bool:
    """Whether the deployment allows a provider of this kind, such as ``file``, to look something up."""
    allowed = os.environ.get(ALLOWED)
    if allowed is None:
        return True
    for item in split_list(allowed):
        name, _, limit = item.partition(":")
        if name.strip() == kind and (not limit.strip() or _within(wanted, limit.strip())):
            return True
    return False


def _allow(kind: str, wanted: Path | str) -> None:
    """Does nothing where the deployment allows it, as ``may_look_up`` says."""
    if may_look_up(kind, wanted):
        return
    allowed = os.environ[ALLOWED]
    allows = f"only {allowed.strip()}" if allowed.strip() else "nothing"
    raise _Unresolved(f"may not be looked up here: {ALLOWED} allows {allows}")


def _within(wanted: Path | str, limit: str) -> bool:
    if isinstance(wanted, Path):
        # Links are resolved, so that none leads out of the folder.
        return follow_links(wanted).is_relative_to(Path(limit).resolve())
    return compile_patterns([limit]).fullmatch(wanted) is not None


_Provider = _File | _Directory | _Environment


class _Kind(NamedTuple):
    """A class of providers: its usual name, its parameter with the default, and what makes it of the parameter."""

    usual: str
    parameter: str
    default: str
    make: Callable[[str], _Provider]


_KINDS: Final[Mapping[str, _Kind]] = {
    "FileConfigProvider": _Kind("file", "allowed.paths", "", lambda it: _File(_Allowed.parse(it))),
    "DirectoryConfigProvider": _Kind(
        "dir", "allowed.paths", "", lambda it: _Directory(_Allowed.parse(it))
    ),
    "EnvVarConfigProvider": _Kind(
        "env", "allowlist.pattern", ".*", lambda it: _Environment(compile_patterns([it]))
    ),
}
_USUAL: Final = {kind.usual: name for name, kind in _KINDS.items()}


class Providers:
    """A file's providers, by name; each reads a file once."""

    def __init__(
        self, providers: Mapping[str, _Provider], settings: Mapping[str, str], *, yaml: bool
    ) -> None:
        self._providers = providers
        self._told = settings
        self._yaml = yaml

    @property
    def declaration(self) -> tuple[tuple[str, str], ...]:
        """Their whole declaration, from which ``declare`` makes the same providers."""
        usual = {
            f"{PROVIDERS}.{name}.class": kind
            for name, kind in _USUAL.items()
            if self._yaml and name in self._providers
        }
        return tuple(sorted({**usual, **self._told}.items())) if self._providers else ()

    @classmethod
    def declare(
        cls, settings: Mapping[str, str], problems: list[Problem], *, yaml: bool = False
    ) -> Providers:
        """The providers that a file declares; errors in them are added to ``problems``.

        Args:
            settings: ``config.providers`` and all keys that begin with ``config.providers.``.
            problems: collects what is wrong.
            yaml: whether ``file``, ``dir`` and ``env`` need no class, as in YAML files.
        """
        names = dict.fromkeys(split_list(settings.get(PROVIDERS, "")))
        for key in settings:
            if key != PROVIDERS and not _is_known(key, names):
                reason = "belongs to no provider, or is not a setting of it"
                problems.append(Problem(key, reason, f"Name it in {PROVIDERS}."))
        providers = {name: cls._provider(name, settings, problems, yaml) for name in names}
        usable = {name: provider for name, provider in providers.items() if provider}
        return cls(usable, settings, yaml=yaml)

    @staticmethod
    def _provider(
        name: str, settings: Mapping[str, str], problems: list[Problem], yaml: bool
    ) -> _Provider | None:
        own = f"{PROVIDERS}.{name}."
        class_name = settings.get(f"{own}class", _USUAL.get(name, "") if yaml else "")
        if not class_name:
            if yaml:
                reason = f"has {name}, of which the file does not say what it is"
                problems.append(
                    Problem(
                        PROVIDERS, reason, f"Set {own}class, or name one of {', '.join(_USUAL)}."
                    )
                )
            return None  # as in Kafka; its references are reported where they are used
        kind = class_name.removeprefix(_PACKAGE)
        kind = kind if kind in _KINDS else f"{kind}ConfigProvider"  # Connect's short names
        if kind not in _KINDS:
            known = ", ".join(f"{_PACKAGE}{known}" for known in _KINDS)
            problems.append(Problem(f"{own}class", f"must be one of {known}"))
            return None
        _, parameter, default, make = _KINDS[kind]
        key = f"{own}param.{parameter}"
        try:
            return make(settings.get(key, default))
        except (ValueError, PatternError) as error:
            problems.append(Problem(key, str(error)))
            return None

    def wrong(self, key: str, value: str, *, of_client: bool) -> Problem | None:
        """What is wrong with the references of a value, before any is looked up.

        Args:
            key: the value's key in the file.
            value: the value.
            of_client: whether it is a property of a cluster's clients.
        """
        for reference in references(value):
            name = reference.provider
            if (
                name not in self._providers
                and name not in _USUAL
                and not (self._yaml and of_client)
            ):
                continue  # as it is, for Kafka too
            if not of_client:
                reason = f"{reference.text} is outside of a cluster's client properties"
                return Problem(key, reason, "References are only looked up there.")
            if name not in self._providers:
                reason = f"{reference.text} has a provider that the file does not declare"
                return Problem(key, reason, self._how_to_declare(name))
        return self._shells_own(key, value) if of_client else None

    def _shells_own(self, key: str, value: str) -> Problem | None:
        """What is wrong with a value in which a shell or a template would look something up, and nothing does here.

        Only what can be no part of a password is shown.
        """
        match = _SHELLS_OWN.search(value)
        if not match:
            return None
        name, is_sure = match["name"], bool(match["name"])
        reason = f"{match[0] if is_sure else 'what looks like a variable'} is no reference, and would be taken as it is"
        declare = "" if "env" in self._providers else f" {self._how_to_declare('env')}"
        return Problem(key, reason, f"Write ${{env:{name or 'NAME'}}}.{declare}")

    def _how_to_declare(self, name: str) -> str:
        if self._yaml and name not in _USUAL:
            return (
                did_you_mean(name, [*self._providers, *_USUAL]) or f"Declare {name} in {PROVIDERS}."
            )
        if self._yaml:
            return f"Add {name} to {PROVIDERS}."
        return (
            f"Add {name} to {PROVIDERS}, with {PROVIDERS}.{name}.class = {_PACKAGE}{_USUAL[name]}."
        )

    def refers(self, value: str) -> bool:
        """Whether a value has a reference to one of the providers."""
        return any(reference.provider in self._providers for reference in references(value))

    def resolve(self, key: str, value: str, problems: list[Problem]) -> str:
        """The value with its references resolved; those that cannot be resolved are added as problems."""

        def replace(reference: ProviderReference) -> str:
            provider = self._providers.get(reference.provider)
            if provider is None:
                return reference.text
            try:
                return provider.get(reference.path, reference.key)
            except _Unresolved as error:
                problems.append(Problem(key, f"{reference.text} {error}"))
            except (OSError, ValueError):  # a path that no file can have
                problems.append(Problem(key, f"{reference.text} cannot be read"))
            return reference.text

        pieces, at = [], 0
        for reference in references(value):
            pieces += [value[at : reference.start], replace(reference)]
            at = reference.start + len(reference.text)
        text = "".join([*pieces, value[at:]])
        # A file's last line break is not part of its value, as for Kafka's own types.
        return text.strip() if text != value else value


class ProviderReference(NamedTuple):
    """``${provider:path:key}`` or ``${provider:key}``, and where it begins."""

    start: int
    text: str
    provider: str
    path: str
    key: str


def references(value: str) -> Iterator[ProviderReference]:
    r"""The references in a value, as Kafka's pattern finds them, ``\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}``.

    In time that grows as the value does: that pattern takes an hour for some kilobytes of ``${a:``.
    """
    at = 0
    while (end := value.find("}", at)) >= 0:
        start = value.find("${", at, end)
        at = end + 1
        if start < 0:
            continue
        provider, colon, rest = value[start + 2 : end].partition(":")
        path, second, key = rest.partition(":")
        if colon:
            text = value[start:at]
            yield ProviderReference(start, text, provider, *((path, key) if second else ("", path)))


def _is_known(key: str, names: Iterable[str]) -> bool:
    rest = key.removeprefix(f"{PROVIDERS}.")
    return any(rest.startswith(f"{name}.param.") or rest == f"{name}.class" for name in names)
