"""What a flow's file may reach: the one gate for files with secrets, code, and what Airflow's connections hold.

A flow's file is data. Who writes it may not read what the process may read, nor run code. So the operator says what
flows may reach, in variables of the processes that read them. A variable that is not set allows everything: on the
command line, the user could do it all without a flow. Airflow's processes set defaults (``restrict``).

The gate knows by an option's type (``OptionReach``) and by ``SECRET_FILES`` what a value reaches.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from kafka_ferry.config.client.assertion import FILES as ASSERTION_FILES
from kafka_ferry.config.client.config_providers import ALLOWED, may_look_up
from kafka_ferry.config.client.jaas import JAAS, JaasError, parse_login
from kafka_ferry.config.client.kerberos import FILE_PREFIX
from kafka_ferry.config.client.property_names import REGISTRY_PREFIX, without_role
from kafka_ferry.config.types.home import HOME, at_home, follow_links
from kafka_ferry.config.types.name_filter import NamePatterns, compile_patterns, split_list
from kafka_ferry.config.types.problems import Problem, config_error

FILES: Final = "FERRY_ALLOW_FILES"
"""The variable with the folders of files with secrets that flows may name, with commas. Files that
``FERRY_CONFIG_PROVIDERS`` lets a reference look up may be named too."""

CODE: Final = "FERRY_ALLOW_CODE"
"""The variable with the folders whose code flows may name, with commas; relative ones start at ``FERRY_HOME``."""

HOSTS: Final = "FERRY_ALLOW_HOSTS"
"""The variable with patterns of hosts to which the secrets of Airflow's connections may go, besides those that a
connection itself names, and the machine's own login at an object store, besides its provider's."""

CONNECTIONS: Final = "FERRY_ALLOW_CONNECTIONS"
"""The variable with patterns of the ids of Airflow's connections that flows may name, with commas."""

FLOWS: Final = "FERRY_CONFIGS"
"""The variable with the folder of the flows' files; no code is run from there unless ``CODE`` names a folder in it."""

TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
SECRET_FILES: Final = frozenset(
    {
        "ssl.keystore.location",
        *ASSERTION_FILES,
        f"{REGISTRY_PREFIX}ssl.key.location",
        # It may hold the key too.
        f"{REGISTRY_PREFIX}ssl.certificate.location",
        # Of login modules.
        "keyTab",
        "ticketCache",
    }
)
"""The properties of clients, and options of their login modules, that name files with secrets; besides them
``TOKEN_ENDPOINT`` with ``file:``."""

_FLOWS: Final = "include/configs"
_LIBRARY: Final = "kafka_ferry"
# Beside each other, also where they are installed.
_OWN: Final = (_LIBRARY, "kafka_ferry_airflow")
_OWN_CODE: Final = tuple(Path(__file__).resolve().parents[2] / package for package in _OWN)
_POLICIES: Final = f"{_LIBRARY}.plan.topics.replication_policy"
# The variables with the folders whose code Airflow runs, and where they are in a project of Astronomer's.
_AIRFLOWS: Final = {
    "AIRFLOW__CORE__DAGS_FOLDER": "dags",
    "AIRFLOW__CORE__PLUGINS_FOLDER": "plugins",
}
# A connection whose id begins so was made for flows.
_DEFAULTS: Final = {FILES: "", CODE: "include", HOSTS: "", ALLOWED: "", CONNECTIONS: "ferry_.*"}


def restrict() -> None:
    """Let flows reach, where this process's environment does not say, only what Airflow's flows may.

    Relative paths then start where the operator has started the process, and not beside a flow's file: its author could
    put code there.
    """
    for name, allowed in _DEFAULTS.items():
        os.environ.setdefault(name, allowed)
    os.environ.setdefault(HOME, str(Path.cwd()))


def allowed_names(variable: str) -> NamePatterns | None:
    """What a variable with patterns allows; None where it is not set, and all is allowed."""
    allowed = os.environ.get(variable)
    return None if allowed is None else compile_patterns(split_list(allowed) or ("(?!)",))


def property_problems(properties: Mapping[str, str]) -> Iterator[Problem]:
    """What of a cluster's properties may not be reached; nothing in them is taken for a reference."""
    for key, value in properties.items():
        name, text = without_role(key), value.strip()
        if name in SECRET_FILES:
            # Each way in which one of the readers may take it.
            for path in {value, text, FILE_PREFIX.sub("", text)}:
                yield from secret_file_problems(key, Path(path))
        elif name == TOKEN_ENDPOINT and urlsplit(text).scheme.lower() == "file":
            yield from secret_file_problems(key, Path(unquote(urlsplit(text).path)))
        elif name == JAAS:
            try:
                options = parse_login(value).options
            except JaasError:
                continue  # as its reader says
            for problem in (*property_problems(options), *_ticket_problems(options)):
                yield problem._replace(key=f"{key}: {problem.key}")


def _ticket_problems(options: Mapping[str, str]) -> Iterator[Problem]:
    """Where a login takes the Kerberos tickets of the process's own user."""
    is_default = not FILE_PREFIX.sub("", options.get("ticketCache", "")).strip()
    if FILES in os.environ and options.get("useTicketCache", "").lower() == "true" and is_default:
        reason = "the tickets of Airflow's own user may not be used here"
        yield Problem("useTicketCache", reason, f"Name a ticketCache that {FILES} allows.")


def secret_file_problems(key: str, path: Path) -> Iterator[Problem]:
    """Where a file with secrets is outside of the folders that flows may name."""
    allowed = os.environ.get(FILES)
    if allowed is None or _is_below(path, allowed) or may_look_up("file", path):
        return
    reason = f"{path} may not be named here: it is outside of {_folders(FILES)}"
    yield Problem(key, reason, f"Who runs Airflow can allow its folder in {FILES}.")


def code_problems(key: str, path: Path) -> Iterator[Problem]:
    """What keeps the code of a file or folder from being run; a path that does not exist is its reader's matter."""
    flows, resolved = at_home(os.environ.get(FLOWS) or _FLOWS).resolve(), follow_links(path)
    if CODE in os.environ and _is_in(resolved, _OWN_CODE):
        # It may lie in a folder for code, and some of it are programs.
        yield Problem(key, f"{path} may not be run here: it is Kafka Ferry's own", "Name your own.")
        return
    own = [folder for folder in _code_folders() if folder.is_relative_to(flows)]
    # Who adds a flow would else add its code too.
    if resolved.is_relative_to(flows) and CODE in os.environ and not _is_in(resolved, own):
        reason = f"{path} may not be run here: it lies beside flows, in {flows}"
        yield Problem(key, reason, f"Who runs Airflow can allow a folder there in {CODE}.")
        return
    yield from place_problems(key, path)


def _code_folders() -> list[Path]:
    return [at_home(folder).resolve() for folder in split_list(os.environ.get(CODE, ""))]


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def place_problems(key: str, path: Path) -> Iterator[Problem]:
    """Where a path is not in a folder of the operator's, or others may write to it."""
    if CODE not in os.environ:
        return
    folders, resolved = _code_folders(), follow_links(path)
    root = next((folder for folder in folders if resolved.is_relative_to(folder)), None)
    advice = f"Who runs Airflow can allow its folder in {CODE}, and has to keep others from writing to it."
    if root is None:
        reason = f"{path} may not be run here: it is outside of {_folders(CODE)}"
        yield Problem(key, reason, advice)
        return
    for place in (resolved, *resolved.parents):
        if place.exists() and place.stat().st_mode & stat.S_IWOTH:
            yield Problem(key, f"{path} may not be run here: anybody may write to {place}", advice)
        if place == root:
            return


def state_problems(key: str, path: Path) -> Iterator[Problem]:
    """Where a flow's state would lie among code: what it copies and what it is named decides what is written there."""
    if CODE not in os.environ:
        return
    named = (os.environ.get(it) or folder for it, folder in _AIRFLOWS.items())
    places = [*_code_folders(), *(at_home(folder).resolve() for folder in named)]
    if _is_in(follow_links(path), places):
        reason = f"{path} may not be written here: it lies in a folder whose files Airflow may run"
        yield Problem(key, reason, "Name a folder of its own.")


def check_code(file: str, key: str, path: Path) -> None:
    """Does nothing where a flow may run the code of a file.

    Raises:
        ConfigError: it may not; ``file`` and ``key`` are the flow's.
    """
    if problems := [*code_problems(key, path)]:
        raise config_error(file, *problems)


def check_module(file: str, key: str, name: str) -> None:
    """Check a class by its dotted name, without importing anything."""
    if problems := [*module_problems(key, name)]:
        raise config_error(file, *problems)


def module_problems(key: str, name: str) -> Iterator[Problem]:
    """Problems with a class by its dotted name; Kafka Ferry's own policies have none."""
    top, module = name.partition(".")[0], name.rpartition(".")[0]
    if module in ("", _POLICIES) or CODE not in os.environ:
        return
    if top in _OWN:
        # The library's other modules may lie in a folder for code, and some are programs.
        reason = f"{name} may not be run here: of Kafka Ferry's own modules, {_POLICIES} has the policies"
        yield Problem(key, reason, "Name one of its classes, or a module of your own.")
        return
    files = [*_files_of(module)]
    if not files:
        yield from code_problems(key, Path("/") / top)
    for file in files:
        yield from code_problems(key, file)


def _files_of(module: str) -> Iterator[Path]:
    """The files that an import of a module would run, those of the packages above it too; nothing is imported here.

    A folder without code of its own may be a package, and hold another one that is not the operator's.
    """
    places = None
    for part in module.split("."):
        # By its last name: by its whole name, Python looks for the packages above among those that are imported.
        spec = PathFinder.find_spec(part, places)
        if spec is None:
            return
        if spec.origin:
            yield Path(spec.origin)
        places = [*(spec.submodule_search_locations or ())]


def _is_below(path: Path, allowed: str) -> bool:
    # Links are resolved, so that none leads out of the folder.
    return any(
        follow_links(path).is_relative_to(Path(folder).resolve()) for folder in split_list(allowed)
    )


def _folders(variable: str) -> str:
    return f"{variable} ({os.environ[variable] or 'which allows nothing'})"
