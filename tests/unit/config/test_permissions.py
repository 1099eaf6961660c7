"""What a flow's file may reach, by what the operator allows: one gate, which no option forgets."""

from __future__ import annotations

import json
from ast import literal_eval
from pathlib import Path

import pytest
import regex

import kafka_ferry
from kafka_ferry.config import Flow, load_flow
from kafka_ferry.config.client.property_names import CLUSTER_NAMES
from kafka_ferry.config.options.base import OptionReach
from kafka_ferry.config.permissions import (
    CODE,
    CONNECTIONS,
    FILES,
    HOSTS,
    SECRET_FILES,
    TOKEN_ENDPOINT,
    code_problems,
    property_problems,
    restrict,
)
from kafka_ferry.config.types.home import follow_links
from kafka_ferry.errors import ConfigError

SUSPECT = regex.compile(
    r"file|folder|director|https?://|address|python class|connection", regex.IGNORECASE
)
# Options that sound as if they reached something, and why the gate has nothing to say.
HARMLESS = {
    "transform": "expressions are SQL, and its functions are in transform.functions",
    "transform_secrets": "references, which FERRY_CONFIG_PROVIDERS decides on",
    "metrics_prometheus_dir": "written to, never read",
    "certificates_key": "a reference, which FERRY_CONFIG_PROVIDERS decides on",
    "policy_settings": "given to a policy, whose class is checked",
    "certificates_enabled": "mentions the state folder",
    "certificates_keep_days": "mentions the state folder",
    "reports_keep_days": "mentions the state folder",
    "sync_client_quotas_enabled": "addresses are a kind of quota",
    "sync_scram_users_enabled": "mentions scram.passwords.file",
    "schedule_assets": "mentions the flow's file",
}
TICKETS = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=True {};"
KEYTAB = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'principal="a@B" keyTab="{}";'
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of an Airflow whose operator has allowed nothing."""
    monkeypatch.setenv("FERRY_HOME", str(tmp_path))
    (tmp_path / "include").mkdir(mode=0o755)
    restrict()
    return tmp_path


def problem(home: Path, **options: object) -> str:
    """What is wrong with a flow with these options; "" for nothing."""
    flow = {
        "source": {"alias": "a", "bootstrap.servers": "a:1"},
        "target": {"alias": "b", "bootstrap.servers": "b:1"},
    }
    file = home / "flow.yaml"
    for name, value in options.items():
        side, _, key = name.partition("/")
        (flow[side] if key else flow)[key or name] = value  # type: ignore[index]
    file.write_text(json.dumps(flow))
    try:
        load_flow(file)
    except ConfigError as error:
        return str(error)
    return ""


def test_every_option_that_names_a_file_code_or_an_address_says_so_by_its_type() -> None:
    forgotten = [
        name
        for name, option in Flow.model_fields.items()
        if SUSPECT.search((option.description or "").replace("properties files", ""))
        and not any(isinstance(it, OptionReach) for it in option.metadata)
        and name not in HARMLESS
        and name not in ("source", "target", "file", "ignored")
    ]
    assert forgotten == []


def test_every_client_property_that_names_a_secret_file_is_known() -> None:
    public = {"ssl.truststore.location", "schema.registry.ssl.ca.location"}
    named = {name for name in CLUSTER_NAMES if regex.search(r"\.(file|location)$", name)}
    assert named - public == {name for name in SECRET_FILES if "." in name}
    assert TOKEN_ENDPOINT in CLUSTER_NAMES


@pytest.mark.parametrize("name", sorted(SECRET_FILES - {"keyTab", "ticketCache"}))
def test_no_client_property_names_a_secret_file_unless_it_is_allowed(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = home / "secrets" / "key"
    for key in (name, f"consumer.{name}"):
        (said,) = property_problems({key: str(secret)})
        assert FILES in said.advice and str(secret) in said.reason
    monkeypatch.setenv(FILES, str(secret.parent))
    assert not [*property_problems({name: str(secret)})]
    assert [*property_problems({name: str(secret.parent / ".." / "other")})]
    monkeypatch.setenv(FILES, "")
    monkeypatch.setenv("FERRY_CONFIG_PROVIDERS", f"file:{secret.parent}")
    assert not [*property_problems({name: str(secret)})]


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.jaas.config": KEYTAB.format("/etc/keytab")},
        {"admin.sasl.jaas.config": KEYTAB.format("/etc/keytab")},
        {TOKEN_ENDPOINT: "file:///var/run/secrets/kubernetes.io/serviceaccount/token"},
        {TOKEN_ENDPOINT: "FILE:/var/run/secrets/token"},
        # No reference, as no provider is named.
        {TOKEN_ENDPOINT: "file:///var/run/secrets/token?${"},
        {TOKEN_ENDPOINT: "file:///var/run/secrets/token#${file:/a:b}"},
        {"ssl.keystore.location": "/tmp/${x/../../etc/key.pem"},
        {"ssl.keystore.location": "/tmp/${file:/a:b}/../../etc/key.pem"},
        {"sasl.jaas.config": KEYTAB.format("/etc/keytab").replace(" ", " /* ${ */ ", 1)},
        {"sasl.jaas.config": TICKETS.format("")},
        {"sasl.jaas.config": TICKETS.format('ticketCache="file:"')},
        {"sasl.jaas.config": TICKETS.format('ticketCache="/tmp/krb5cc_0"')},
    ],
)
def test_nor_does_a_login(properties: dict[str, str], home: Path) -> None:
    assert [*property_problems(properties)]
    assert problem(home, **{f"source/{key}": value for key, value in properties.items()})


@pytest.mark.parametrize(
    "name", ["scram.passwords.file", "metrics.prometheus.push.credentials.file"]
)
def test_nor_does_an_option_of_the_flow(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"{FILES} (which allows nothing)" in problem(home, **{name: "/etc/passwords"})
    monkeypatch.delenv(FILES)
    assert not problem(home, **{name: "/etc/passwords"})


@pytest.mark.parametrize("name", ["verify.expectations", "transform.functions"])
def test_code_is_below_the_folder_that_only_the_operator_writes(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    inside, outside = home / "include" / "mine", tmp_path_factory.mktemp("outside")
    inside.mkdir()
    assert not problem(home, **{name: "include/mine"})
    assert CODE in problem(home, **{name: str(outside)})
    assert CODE in problem(home, **{name: "include/../elsewhere"})
    (home / "include" / "link").symlink_to(outside)
    assert CODE in problem(home, **{name: "include/link"})
    # Who adds flows may write there.
    flows = home / "include/configs/code"
    flows.mkdir(parents=True)
    assert "beside flows" in problem(home, **{name: str(flows)})
    monkeypatch.setenv(CODE, f"include, {outside}")
    assert not problem(home, **{name: str(outside)})
    inside.chmod(0o757)
    assert f"anybody may write to {inside}" in problem(home, **{name: "include/mine"})


def test_no_state_lies_among_code(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file there may be a program too, whatever its suffix: a flow's author chooses names and contents."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (home / "link").symlink_to(elsewhere)

    def lie_there() -> list[str]:
        places = ("include/state", "dags", "plugins/a/b", "link/a", "state")
        refused = {name: problem(home, **{"state.dir": name}) for name in places}
        return [name for name, why in refused.items() if "may not be written here" in why]

    assert lie_there() == ["include/state", "dags", "plugins/a/b"]
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(elsewhere))
    assert lie_there() == ["include/state", "plugins/a/b", "link/a"]


@pytest.mark.parametrize("name", ["verify.expectations", "transform.functions"])
def test_a_path_longer_than_any_file_s_is_looked_for_nowhere(name: str, home: Path) -> None:
    """To follow its links would take the square of its length: hours for what a file may hold."""
    assert CODE in problem(home, **{name: "include/" + "a/" * 100_000})
    assert follow_links(home / "include" / ("a/" * 100_000)) == Path("/")


def test_a_file_names_a_bounded_number_of_files(home: Path) -> None:
    files = {f"topic{number}": f"file=include/{number}.yaml" for number in range(101)}
    assert "may name 100 files, and names 101" in problem(home, **{"topics.start": files})
    del files["topic0"]
    assert not problem(home, **{"topics.start": files})


def test_a_policy_s_module_is_not_even_imported(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert CODE in problem(home, **{"replication.policy.class": "this.Zen"})
    assert CODE in problem(home, **{"replication.policy.class": "nothing_of_that_name.At.All"})
    # Importing it runs the command line, which ends the process.
    program = problem(home, **{"replication.policy.class": "kafka_ferry.__main__.Policy"})
    assert "of Kafka Ferry's own modules, kafka_ferry.plan.topics.replication_policy" in program
    program = problem(home, **{"replication.policy.class": "kafka_ferry_airflow.preload.Policy"})
    assert "of Kafka Ferry's own modules, kafka_ferry.plan.topics.replication_policy" in program
    own = "kafka_ferry.plan.topics.replication_policy.KeptNames"
    assert not problem(home, **{"replication.policy.class": own})
    assert capsys.readouterr().out == ""
    (home / "include" / "own_policy.py").write_text("")
    monkeypatch.syspath_prepend(str(home / "include"))
    for name in ("own_policy.Mine", "IdentityReplicationPolicy"):
        assert not problem(home, **{"replication.policy.class": name})


def test_each_file_that_a_policy_s_import_would_run_has_to_be_allowed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may be on Python's path, as in an Astronomer project: then folders are packages too."""
    monkeypatch.syspath_prepend(str(home))
    for folder in ("configs", "shared", "operators"):
        (home / "include" / folder).mkdir(mode=0o755)
        (home / "include" / folder / "names.py").write_text("")
    (home / "include" / "shared").chmod(0o777)
    assert not problem(home, **{"replication.policy.class": "include.operators.names.Mine"})
    for folder, reason in (("configs", "beside flows"), ("shared", "anybody may write")):
        assert reason in problem(
            home, **{"replication.policy.class": f"include.{folder}.names.Mine"}
        )


def test_a_path_is_what_its_reader_makes_of_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths lie in a folder that may be read; what a reader strips off makes them absolute."""
    monkeypatch.chdir(home)
    monkeypatch.setenv(FILES, str(home))
    inside = KEYTAB.format("include/mine.keytab")
    assert not [*property_problems({"sasl.jaas.config": inside})]
    for outside in ("file:/etc/krb5.keytab", "FILE:///etc/krb5.keytab"):
        assert [*property_problems({"sasl.jaas.config": KEYTAB.format(outside)})]
    assert [*property_problems({"sasl.oauthbearer.assertion.file": " /etc/token"})]
    assert [*property_problems({TOKEN_ENDPOINT: "\u00a0file:///etc/token"})]


def test_no_program_of_kafka_ferrys_own_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder may be one for code, as in an Astronomer project."""
    own = Path(kafka_ferry.__file__).parent
    monkeypatch.setenv(CODE, str(own.parent))
    for file in (own / "__main__.py", own.parent / "kafka_ferry_airflow" / "operators.py"):
        (said,) = code_problems("transform.functions", file)
        assert "it is Kafka Ferry's own" in said.reason
    assert not [*code_problems("transform.functions", own.parent / "masks.py")]


@pytest.mark.parametrize(
    "options",
    [
        {"spark.connection": "theirs"},
        {"notify": "webhook:ours, webhook:theirs"},
        {"source/airflow.connection": "theirs"},
    ],
)
def test_a_flow_names_the_connections_that_the_operator_gives_it(
    options: dict[str, object], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"may not be named here: {CONNECTIONS}" in problem(home, **options)
    made_for_flows = str(options).replace("theirs", "ferry_theirs").replace("ours", "ferry_ours")
    assert not problem(home, **literal_eval(made_for_flows))
    for allowed in ("", "our.*, spark"):
        monkeypatch.setenv(CONNECTIONS, allowed)
        assert f"may not be named here: {CONNECTIONS}" in problem(home, **options)
        assert not problem(home)
    monkeypatch.setenv(CONNECTIONS, "our.*, theirs")
    assert not problem(home, **options)


def test_on_the_command_line_a_flow_reaches_what_its_user_may(tmp_path: Path) -> None:
    assert not problem(
        tmp_path,
        **{
            "verify.expectations": "/anywhere.py",
            "replication.policy.class": "any.Module",
            "scram.passwords.file": "/etc/passwords",
            "source/ssl.keystore.location": "/etc/store",
        },
    )


@pytest.mark.parametrize("text", ["file=/etc/passwd", "file=include/../x.yaml"])
def test_offsets_are_read_where_the_operator_keeps_files(text: str, home: Path) -> None:
    assert FILES in problem(home, **{"topics.start": {"orders": text}})
    assert not problem(home, **{"topics.start": {"orders": "file=include/offsets.yaml"}})


@pytest.mark.parametrize(
    "state",
    [
        # Each would get a token of the machine's, by a look at the page Mirrors.
        "gs://bucket/ferry?endpoint_override=attacker:443",
        "s3://bucket/ferry?region=a&endpoint_override=attacker",
        "abfss://attacker/container?blob_storage_authority=attacker:443",
        "abfs://attacker:443/container",
    ],
)
def test_the_machine_s_login_at_an_object_store_goes_to_its_provider(
    state: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"may not go to attacker. Who runs Airflow can allow it in {HOSTS}" in problem(
        home, **{"state.dir": state}
    )
    monkeypatch.setenv(HOSTS, "attacker")
    assert not problem(home, **{"state.dir": state})
    monkeypatch.delenv(HOSTS)
    assert not problem(home, **{"state.dir": state})


def test_nor_does_it_go_there_without_encryption(home: Path) -> None:
    assert "has scheme only with an address" in problem(
        home, **{"state.dir": "gs://bucket/ferry?scheme=http"}
    )
    for state in (".ferry", "s3://bucket/ferry?region=eu-west-1", "hdfs://name:8020/ferry"):
        assert not problem(home, **{"state.dir": state})


PATTERNS = [
    name
    for name, option in Flow.model_fields.items()
    if "egular expression" in (option.description or "")
]


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_of_an_option_takes_its_reader_s_memory(name: str, tmp_path: Path) -> None:
    bomb, key = "((a{9999}){9999})", str(Flow.model_fields[name].alias)
    of_topics = {"offsets": "preserved", "topics_configs": "cleanup.policy=compact"}
    said = problem(tmp_path, **{key: {bomb: of_topics[name]} if name in of_topics else [bomb]})
    assert "repetitions of more than 100,000 characters" in said
