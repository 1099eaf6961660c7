"""One side of a flow: a Kafka cluster and the properties of its clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import regex
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema

from kafka_ferry.config.client.airflow_connection import connection_properties
from kafka_ferry.config.client.config_providers import Providers
from kafka_ferry.config.client.jaas import JAAS, JaasError, is_delegation_token, parse_login
from kafka_ferry.config.client.kerberos import with_inline_key_tab
from kafka_ferry.config.client.keystores import without_stores
from kafka_ferry.config.client.oauth import with_inline_files
from kafka_ferry.config.client.property_names import (
    AIRFLOW_CONNECTION,
    CONNECTION_NAMES,
    REGISTRY_NAMES,
    REGISTRY_PREFIX,
    ROLE_PREFIXES,
    ROLES,
    Role,
)
from kafka_ferry.config.cluster_problems import unknown_names, wrong_brokers, wrong_values
from kafka_ferry.config.connection_overrides import override_problems, role_problems
from kafka_ferry.config.permissions import property_problems
from kafka_ferry.config.schema_registry import (
    registry_client_config,
    without_files,
    wrong_registry,
)
from kafka_ferry.config.types.problems import (
    NAME_PATTERN,
    Problem,
    config_error,
    problems_error,
)
from kafka_ferry.errors import ConfigError
from kafka_ferry.secret_values import MASK, remember

# Topics such as ferry-certificates.{alias}.internal, which may have 249 characters, DAGs' ids, which may have 250,
# and folders have it in their names.
_LONGEST_ALIAS: Final = 110
# The transactional ids of a flow's writers to such a target would be those of the flow to a target without it.
_OF_WRITERS: Final = ".preserved"
_SECRET: Final = regex.compile(
    r".*(password|passphrase|secret|token|credential).*|(.*\.)?sasl\.jaas\.config|.*\.key(\.pem)?"
    r"|.*\.user\.info"
)
# The keys, and options of login modules, whose values are secrets themselves: not those that say where one is.
_SECRET_ITSELF: Final = regex.compile(
    r".*(password|passphrase|secret|(^|\.)token|(^|\.)key(\.pem)?|\.user\.info)|transform\.secrets\..*"
)


def is_secret(key: str) -> bool:
    """Whether the value of a Java client property must never be shown."""
    return _SECRET.fullmatch(key.lower()) is not None


def secret_values(properties: Mapping[str, str]) -> Iterator[str]:
    """The secrets in properties, those of a login one by one; a password also without its user."""
    for key, value in properties.items():
        if key.endswith(JAAS):
            try:
                yield from secret_values(parse_login(value).options)
            except JaasError:
                yield value
        elif _SECRET_ITSELF.fullmatch(key.lower()):
            yield value
            if key.endswith(".user.info"):
                yield value.partition(":")[2]


class ClientProperties(Mapping[str, str]):
    """Java client properties that cannot change and never show a secret when printed.

    Attributes:
        origin: the file and the cluster that they come from, for errors; may be empty.
    """

    __slots__ = ("_values", "origin")

    def __init__(self, values: Mapping[str, str], origin: str = "") -> None:
        self._values = dict(values)
        self.origin = origin

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self.mask())

    def mask(self) -> dict[str, str]:
        """The properties with the values of secret ones replaced."""
        return {key: MASK if is_secret(key) else value for key, value in self._values.items()}

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            handler.generate_schema(dict[str, str]),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.mask),
        )


def _known_names(properties: ClientProperties) -> ClientProperties:
    if problems := list(unknown_names(properties)):
        raise problems_error(problems)
    return properties


class Cluster(BaseModel):
    """A cluster of a flow.

    ``properties`` holds what all clients share under its own name (``security.protocol``) and
    what one kind of client has for itself under that kind (``consumer.fetch.max.wait.ms``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    providers: tuple[tuple[str, str], ...] = Field(
        default=(), description="The config providers that the file declares, in its own form."
    )
    alias: str = Field(
        pattern=NAME_PATTERN,
        max_length=_LONGEST_ALIAS,
        description="The cluster's name; it becomes part of topic names on the target.",
    )
    properties: Annotated[ClientProperties, AfterValidator(_known_names)] = Field(
        description="Java client properties: bootstrap.servers, security.protocol, ssl.*, sasl.*, "
        "and any property under consumer., producer. or admin.; schema.registry.* says where its schema "
        "registry is.",
    )

    file: str = Field(default="", description="The file that the cluster was read from.")
    section: str = Field(
        default="", description="What precedes its keys in that file: source, target, or its alias."
    )
    is_resolved: bool = Field(
        default=False,
        description="Whether it is one that ``resolve`` gives, which names only what was allowed.",
    )

    @field_validator("alias")
    @classmethod
    def _is_of_its_own_writers(cls, alias: str) -> str:
        if alias.endswith(_OF_WRITERS):
            raise ValueError(f"must not end in {_OF_WRITERS}, as another flow's writers are named")
        return alias

    @field_validator("properties")
    @classmethod
    def _right_values(cls, properties: ClientProperties, info: ValidationInfo) -> ClientProperties:
        """Refuses what no client could use; a reference is only checked when its client is created."""
        providers = Providers.declare(dict(info.data.get("providers", ())), [])
        problems = [
            problem
            for problem in wrong_values(properties)
            if not providers.refers(properties.get(problem.key, ""))
        ]
        if problems:
            raise problems_error(problems)
        return properties

    @property
    def airflow_connection(self) -> str | None:
        """The Airflow connection that says where the cluster is, or how to log in to it."""
        return self.properties.get(AIRFLOW_CONNECTION) or None

    @property
    def brokers(self) -> frozenset[str]:
        """The bootstrap servers that the file names for any client, as ``host:port``; references are not among them."""
        keys = ("bootstrap.servers", *(f"{role}bootstrap.servers" for role in ROLE_PREFIXES))
        listed = ",".join(self.properties.get(key, "") for key in keys).lower()
        servers = (server.strip().rpartition("//")[2] for server in listed.split(","))
        return frozenset(server for server in servers if server and "$" not in server)

    @property
    def origin(self) -> str:
        """Where the cluster is described, for errors."""
        return f"{self.file}: {self.alias}" if self.file else self.alias

    def client_properties(self, role: Role) -> ClientProperties:
        """The configuration of a client of this kind, by Java names.

        As in MirrorMaker 2 (``MirrorConnectorConfig``), of the names without a kind only those
        for connecting and logging in count, and the kind's own win. What the cluster's Airflow
        connection says comes first, so that any property of the file wins over it.

        Raises:
            ConfigError: the Airflow connection does not exist or cannot be used; or a reference cannot
                be resolved.
        """
        own = f"{role}."
        shared = {key: value for key, value in self.properties.items() if key in CONNECTION_NAMES}
        special = {
            key.removeprefix(own): value
            for key, value in self.properties.items()
            if key.startswith(own)
        }
        own_properties = self._resolve(shared | special)
        self._check(own_properties)
        properties = ClientProperties(
            self._connection_settings(own_properties) | own_properties, self.origin
        )
        remember(secret_values(properties))
        if problems := [] if self.is_resolved else [*role_problems(properties)]:
            raise config_error(self.origin, *problems)
        if not properties.get("bootstrap.servers"):
            name = self.airflow_connection
            reason = f"is required: the connection {name!r} has none either"
            advice = (
                f"Add it to the Extra of {name!r} in Airflow (Admin, Connections), or to this file."
            )
            raise ConfigError(self.origin, "bootstrap.servers", reason, advice=advice)
        if self.airflow_connection and wrong_brokers(properties["bootstrap.servers"]):
            reason = f"of the connection {self.airflow_connection!r} must list brokers as host:port, host:port"
            raise ConfigError(self.origin, "bootstrap.servers", reason)
        return properties

    @property
    def servers_option(self) -> str:
        """Which key of which file, or of which Airflow connection, names the control plane's bootstrap servers."""
        own = "admin.bootstrap.servers"
        if self.airflow_connection and not {own, "bootstrap.servers"} & self.properties.keys():
            return f"bootstrap.servers in the Extra of the Airflow connection {self.airflow_connection!r}"
        option = own if own in self.properties else "bootstrap.servers"
        key = f"{self.section or self.alias}.{option}"
        return f"{key} in {self.file}" if self.file else key

    def control_properties(self, role: Role) -> ClientProperties:
        """The configuration of a client of this kind on the control plane, by Java names.

        Where the data plane has a delegation token, the client gets addresses and login of the ``admin``
        client, which may be others.

        Raises:
            ConfigError: as ``client_properties``.
        """
        properties = self.client_properties(role)
        if not is_delegation_token(properties):
            return properties
        own = {key: value for key, value in properties.items() if key not in CONNECTION_NAMES}
        admin = self.client_properties("admin")
        shared = {key: value for key, value in admin.items() if key in CONNECTION_NAMES}
        return ClientProperties(own | shared, self.origin)

    @property
    def has_registry(self) -> bool:
        """Whether the file says where its schema registry is."""
        return f"{REGISTRY_PREFIX}url" in self.properties

    def registry_properties(self) -> ClientProperties:
        """The configuration of a client of its schema registry, with the content of files in place of their names.

        Raises:
            ConfigError: a reference cannot be resolved, or a file cannot be read.
        """
        own = {name: text for name, text in self.properties.items() if name in REGISTRY_NAMES}
        resolved = {name: self.resolve_value(name, value) for name, value in own.items()}
        self._check(resolved)
        if problems := list(wrong_registry(resolved)):
            raise config_error(self.origin, *problems)
        properties = without_files(registry_client_config(resolved), self.origin)
        remember(secret_values({REGISTRY_PREFIX + key: value for key, value in properties.items()}))
        return ClientProperties(properties, self.origin)

    def resolve(self) -> Cluster:
        """The cluster for processes that have neither its files nor its environment.

        Key and trust stores are PEM text in it, and an Airflow connection's settings are its own: it
        holds secrets even where the flow's file does not.

        Raises:
            ConfigError: a store or the connection cannot be read.
        """
        properties: dict[str, str] = {}
        for role in ROLES:
            role_properties = self.client_properties(role)
            whole = with_inline_files(
                without_stores(role_properties, role_properties.origin), role_properties.origin
            )
            whole = with_inline_key_tab(whole, role_properties.origin)
            properties.setdefault("bootstrap.servers", whole["bootstrap.servers"])
            properties |= {f"{role}.{key}": value for key, value in whole.items()}
        if self.has_registry:
            registry = self.registry_properties()
            properties |= {REGISTRY_PREFIX + key: value for key, value in registry.items()}
        return Cluster(
            alias=self.alias,
            properties=ClientProperties(properties),
            file=self.file,
            section=self.section,
            is_resolved=True,
        )

    def resolve_value(self, key: str, value: str) -> str:
        """A value of the same file with its references resolved.

        Args:
            key: its key, for errors.
            value: the value.

        Raises:
            ConfigError: a reference cannot be resolved.
        """
        problems: list[Problem] = []
        resolved = Providers.declare(dict(self.providers), problems).resolve(key, value, problems)
        if problems:
            raise config_error(self.file or self.alias, *problems)
        remember(secret_values({key: resolved}))
        return resolved

    def _resolve(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with their references resolved."""
        if not self.providers:
            return dict(properties)
        problems: list[Problem] = []
        providers = Providers.declare(dict(self.providers), problems)
        resolved = {
            key: providers.resolve(key, value, problems) for key, value in properties.items()
        }
        if not problems:
            at_hand = {AIRFLOW_CONNECTION: self.airflow_connection or "", **resolved}
            problems += wrong_values(at_hand)
        if problems:
            raise config_error(self.origin, *problems)
        return resolved

    def _check(self, own: Mapping[str, str]) -> None:
        """Does nothing where the file may name what it names, also by references."""
        if problems := [] if self.is_resolved else [*property_problems(own)]:
            raise config_error(self.origin, *problems)

    def _connection_settings(self, own: Mapping[str, str]) -> dict[str, str]:
        """The Airflow connection's settings, except stores that the file replaces."""
        if not self.airflow_connection:
            return {}
        replaced = tuple(
            store
            for store in ("ssl.keystore.", "ssl.truststore.")
            if any(name.startswith(store) and not name.endswith(".password") for name in own)
        )
        settings = connection_properties(self.airflow_connection, self.origin)
        if problems := [*override_problems(own, settings)]:
            raise config_error(self.origin, *problems)
        return {name: value for name, value in settings.items() if not name.startswith(replaced)}
