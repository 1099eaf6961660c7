import time
from contextlib import suppress
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from kafka_ferry.config import Flow, load_flow, load_flows
from kafka_ferry.config.client.config_providers import Providers, references
from kafka_ferry.config.types.problems import Problem
from kafka_ferry.errors import ConfigError
from tests.unit.config.builders import YAML, properties_file, yaml_file

PACKAGE = "org.apache.kafka.common.config.provider."
DECLARED = f"""
config.providers = file, env,dir
config.providers.file.class = {PACKAGE}FileConfigProvider
config.providers.env.class = {PACKAGE}EnvVarConfigProvider
config.providers.dir.class = {PACKAGE}DirectoryConfigProvider
"""
SECRET = "correct-horse"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a properties file and a file of one value, and a variable of the environment."""
    folder = tmp_path / "secrets"
    (folder / "below").mkdir(parents=True)
    text = f"password = {SECRET}\nuser=anna\nkafka\\:user = carl\nempty =\nnested=${{env:FERRY_TEST}}\nname=müller"
    (folder / "kafka.properties").write_text(text, encoding="utf-8")
    (folder / "token").write_text(f"{SECRET}\n")
    (folder / "below" / "token").write_text("another")
    monkeypatch.setenv("FERRY_TEST", "from-the-environment")
    return folder


def resolved(value: str, told: dict[str, str] | None = None) -> tuple[str, list[Problem]]:
    problems: list[Problem] = []
    told = {"config.providers": "file, dir, env"} | (told or {})
    providers = Providers.declare(told, problems, yaml=True)
    return providers.resolve("key", value, problems), problems


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${file:{}/kafka.properties:password}", SECRET),
        ("${file:{}/kafka.properties:kafka:user}", "carl"),
        ("${file:{}/kafka.properties:name}", "müller"),
        ("${file:{}/kafka.properties:empty}", ""),
        ("${dir:{}:token}", SECRET),  # without the line's end, as Kafka trims values
        ('password="${dir:{}:token}";', f'password="{SECRET}";'),
        ("${env:FERRY_TEST}", "from-the-environment"),
        ("${env::FERRY_TEST}", "from-the-environment"),
        # in part, and several of them
        ("user=${file:{}/kafka.properties:user} x", "user=anna x"),
        ("${file:{}/kafka.properties:user}/${dir:{}/below:token}", "anna/another"),
        # what was found is not looked into again
        ("${file:{}/kafka.properties:nested}", "${env:FERRY_TEST}"),
        # no references
        ("${nothing}", "${nothing}"),
        ("${vault:path:key}", "${vault:path:key}"),
        ("$env:FERRY_TEST}", "$env:FERRY_TEST}"),
        (" kept as it is ", " kept as it is "),
    ],
)
def test_a_reference_stands_for_what_it_leads_to(secrets: Path, value: str, expected: str) -> None:
    assert resolved(value.replace("{}", str(secrets))) == (expected, [])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${file:{}/kafka.properties:passwort}", "finds no key 'passwort' in that file"),
        ("${file:{}/missing:key}", "cannot be read: No such file"),
        ("${file:{}:key}", "cannot be read: Is a directory"),
        ("${file:key}", "names no path"),
        ("${file::key}", "names no path"),
        ("${dir:{}:missing}", "finds no file 'missing' in that folder"),
        ("${dir:{}:below}", "finds no file 'below' in that folder"),
        ("${dir:{}/below:../token}", "finds no file '../token' in that folder"),
        ("${dir:{}/missing:token}", "is not a folder"),
        ("${dir:token}", "names no path"),
        ("${env:FERRY_TEST_MISSING}", "is not set"),
        ("${env:path:FERRY_TEST}", "without a path"),
        ("${file:a\0b:key}", "cannot be read"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_problem_that_names_it(
    secrets: Path, value: str, reason: str
) -> None:
    value = value.replace("{}", str(secrets))
    text, (problem,) = resolved(f"x {value} ${{env:FERRY_TEST}}")
    assert value in problem.reason
    assert reason in problem.reason
    assert SECRET not in text


def test_a_file_that_is_no_text_is_a_problem_that_does_not_repeat_it(secrets: Path) -> None:
    for name in ("kafka.properties", "token"):
        (secrets / name).write_bytes(b"password=\xff" + SECRET.encode())
    for value in (f"${{file:{secrets}/kafka.properties:password}}", f"${{dir:{secrets}:token}}"):
        _, (problem,) = resolved(value)
        assert "UTF-8" in problem.reason
        assert SECRET not in problem.reason


def test_providers_read_only_what_they_may(secrets: Path) -> None:
    told = {
        "config.providers.file.param.allowed.paths": f"{secrets}/below, {secrets}/kafka.properties",
        "config.providers.dir.param.allowed.paths": f"{secrets}/below",
        "config.providers.env.param.allowlist.pattern": "FERRY_.*",
    }
    for value, allowed in {
        f"${{file:{secrets}/kafka.properties:user}}": True,
        f"${{file:{secrets}/below/../kafka.properties:user}}": True,
        f"${{file:{secrets}/below/../token:user}}": False,
        f"${{dir:{secrets}/below:token}}": True,
        f"${{dir:{secrets}:token}}": False,
        "${env:FERRY_TEST}": True,
        "${env:PATH}": False,
    }.items():
        text, problems = resolved(value, told)
        assert [("is outside of the provider's" in found.reason) for found in problems] == (
            [] if allowed else [True]
        )
        assert (text == value) is not allowed


@pytest.mark.parametrize(
    ("told", "key", "reason"),
    [
        ({"file.class": "company.Vault"}, "file.class", "must be one of org.apache.kafka.common"),
        ({"file.param.allowed.paths": "/a," * 101}, "file.param.allowed.paths", "has 101 paths"),
        ({"file.param.allowed.paths": "below"}, "file.param.allowed.paths", "an absolute path"),
        (
            {"env.param.allowlist.pattern": "["},
            "env.param.allowlist.pattern",
            "not a valid regular",
        ),
        ({"vault.class": f"{PACKAGE}FileConfigProvider"}, "vault.class", "belongs to no provider"),
    ],
)
def test_a_provider_that_cannot_be_is_a_problem(
    told: dict[str, str], key: str, reason: str
) -> None:
    _, (problem,) = resolved(
        "", {f"config.providers.{name}": value for name, value in told.items()}
    )
    assert problem.key == f"config.providers.{key}"
    assert reason in problem.reason


@pytest.mark.parametrize(
    "given", [f"{PACKAGE}EnvVarConfigProvider", "EnvVarConfigProvider", "EnvVar"]
)
def test_a_provider_may_have_any_name_and_connects_short_names_of_classes(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("FERRY_TEST", "x")
    told = {"config.providers": "mine", "config.providers.mine.class": given}
    assert resolved("${mine:FERRY_TEST}", told) == ("x", [])


def test_a_folder_that_is_not_there_is_a_problem_of_who_looks_there(secrets: Path) -> None:
    told = {"config.providers.file.param.allowed.paths": "/no/such"}
    assert resolved("", told) == ("", [])
    _, (problem,) = resolved(f"${{file:{secrets}/kafka.properties:user}}", told)
    assert "may be read below /no/such, which does not exist" in problem.reason


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        (None, {"file", "dir", "env", "outside"}),
        ("", set()),
        (" , ", set()),
        ("file", {"file", "outside"}),
        ("file:{}", {"file"}),
        ("dir:{}/below, env:FERRY_.*", {"dir", "env"}),
        ("dir:{}/below/token", set()),
        ("env:OTHER_.*", set()),
        ("file:{}/kafka.properties,env", {"file", "env"}),
    ],
)
def test_a_deployment_may_allow_less_than_a_file_declares(
    secrets: Path, monkeypatch: pytest.MonkeyPatch, allowed: str | None, found: set[str]
) -> None:
    if allowed is not None:
        monkeypatch.setenv("FERRY_CONFIG_PROVIDERS", allowed.replace("{}", str(secrets)))
    (secrets.parent / "outside").write_text("user=eve")
    (secrets / "link").symlink_to(secrets.parent / "outside")
    for kind, value in {
        "file": f"${{file:{secrets}/kafka.properties:user}}",
        "dir": f"${{dir:{secrets}/below:token}}",
        "env": "${env:FERRY_TEST}",
        "outside": f"${{file:{secrets}/link:user}}",
    }.items():
        text, problems = resolved(value)
        assert (text != value) is (kind in found), kind
        assert ["FERRY_CONFIG_PROVIDERS allows" in it.reason for it in problems] == (
            [] if kind in found else [True]
        )


# --- in files ------------------------------------------------------------------------------------


def the_flow(folder: Path, more: str) -> Flow:
    (flow,) = load_flows(properties_file(folder, more))
    return flow


def a_yaml(secrets: Path, declared: str = "config.providers: [file, dir, env]") -> str:
    return f"""
source:
  alias: primary
  bootstrap.servers: ["a:1", "${{env:FERRY_TEST_HOST}}:2"]
  security.protocol: PLAINTEXT
  sasl.jaas.config: x password="${{file:{secrets}/kafka.properties:password}}";
  consumer: {{ssl.key.password: "${{dir:{secrets}:token}}"}}
target: {{alias: backup, bootstrap.servers: "c:3"}}
{declared}
"""


def test_any_client_property_of_a_properties_file_may_stand_elsewhere(
    tmp_path: Path, secrets: Path
) -> None:
    flow = the_flow(
        tmp_path,
        DECLARED
        + f"""
primary.security.protocol = PLAINTEXT
primary.sasl.jaas.config = required username="u" password="${{file:{secrets}/kafka.properties:password}}";
primary.consumer.ssl.key.password = ${{dir:{secrets}:token}}
primary.bootstrap.servers = ${{file:{secrets}/kafka.properties:user}}:9092
""",
    )
    source = flow.source.client_properties("consumer")
    assert source["bootstrap.servers"] == "anna:9092"
    assert source["sasl.jaas.config"] == f'required username="u" password="{SECRET}";'
    assert source["ssl.key.password"] == SECRET
    assert flow.ignored == (("primary.bootstrap.servers in line 2", "line 14 gives it again"),)


def test_any_client_property_of_a_yaml_file_may_stand_elsewhere(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST_HOST", "host")
    limits = (
        f"config.providers: file, dir, env\nconfig.providers.file.param.allowed.paths: {secrets}"
    )
    flow = load_flow(yaml_file(tmp_path, start=a_yaml(secrets, limits)))
    source = flow.source.client_properties("consumer")
    assert source["bootstrap.servers"] == "a:1,host:2"
    assert source["sasl.jaas.config"] == f'x password="{SECRET}";'
    assert source["ssl.key.password"] == SECRET
    assert "airflow.connection" not in source


def test_nothing_is_looked_up_when_a_file_is_read(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_CONFIG_PROVIDERS", "")
    monkeypatch.delenv("FERRY_TEST_HOST", raising=False)
    file = yaml_file(tmp_path, start=a_yaml(secrets))
    (secrets / "kafka.properties").unlink()
    flow = load_flow(file)
    assert flow.name == "primary->backup"
    assert SECRET not in repr(flow) + str(flow.model_dump())


def test_what_leads_nowhere_is_named_when_a_client_is_made(tmp_path: Path, secrets: Path) -> None:
    file = yaml_file(tmp_path, start=a_yaml(secrets))
    (secrets / "token").unlink()
    with pytest.raises(ConfigError) as caught:
        load_flow(file).source.client_properties("consumer")
    first, second = str(caught.value).splitlines()
    assert first == (
        f"{file}: primary: bootstrap.servers: ${{env:FERRY_TEST_HOST}} is not set in the environment of this process"
    )
    assert "primary: ssl.key.password: ${dir:" in second
    assert SECRET not in str(caught.value)


def test_what_a_reference_stands_for_must_be_right_too(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRY_TEST_HOST", "no host at all")
    flow = load_flow(yaml_file(tmp_path, start=a_yaml(secrets)))
    with pytest.raises(ConfigError, match=r"primary: bootstrap\.servers: must list brokers"):
        flow.source.client_properties("consumer")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("topics: [a, '${env:HOME}']", "topics"),
        ("writers: ${env:HOME}", "writers"),
        ("topics.rename: {a: '${env:HOME}'}", "topics.rename.a"),
        ("notify: 'webhook:${env:HOME}'", "notify"),
        ("state.dir: /tmp/${file:/etc/passwd:root}", "state.dir"),
        ("schedule: '${dir:/run/secrets:x}'", "schedule"),
    ],
)
def test_a_reference_elsewhere_in_a_yaml_file_is_refused(
    tmp_path: Path, more: str, key: str
) -> None:
    for declared in ("", "\nconfig.providers: [file, dir, env]"):
        with pytest.raises(ConfigError) as caught:
            load_flow(yaml_file(tmp_path, more + declared))
        assert caught.value.key == key
        assert "is outside of a cluster's client properties" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("alias: primary", "alias: ${env:HOME}", "source.alias"),
        (
            "alias: primary",
            "alias: a\n  airflow.connection: ${env:HOME}",
            "source.airflow.connection",
        ),
    ],
)
def test_a_clusters_names_are_no_references(tmp_path: Path, old: str, new: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flow(yaml_file(tmp_path, start=YAML.replace(old, new)))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("clusters = primary, ${env:HOME}", "clusters"),
        ("primary->backup.enabled = ${env:HOME}", "primary->backup.enabled"),
        ("writers = ${env:HOME}", "writers"),
        ("primary->backup.topics = a, ${env:HOME}", "primary->backup.topics"),
        ("primary.consumer.isolation.level = ${env:HOME}", "primary.consumer.isolation.level"),
        ("primary.airflow.connection = ${env:HOME}", "primary.airflow.connection"),
    ],
)
def test_a_reference_elsewhere_in_a_properties_file_is_refused(
    tmp_path: Path, line: str, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flows(properties_file(tmp_path, DECLARED + line))
    assert caught.value.key == key
    assert "is outside of a cluster's client properties" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_declares_its_providers(tmp_path: Path, secrets: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_flows(properties_file(tmp_path, "primary.ssl.key.password = ${env:HOME}"))
    assert caught.value.key == "primary.ssl.key.password"
    advice = "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVar"
    assert advice in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        load_flow(yaml_file(tmp_path, start=a_yaml(secrets, "config.providers: [dir, env]")))
    assert caught.value.key == "source.sasl.jaas.config"
    assert "Add file to config.providers." in str(caught.value)


@given(st.text(alphabet="${}:a\n", max_size=30))
def test_references_are_those_of_kafkas_pattern(value: str) -> None:
    """``ConfigTransformer``: a value of some kilobytes, ``${a:`` again and again, takes that pattern an hour."""
    kafkas = regex.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
    found = [(it.start, it.text, it.provider, it.path, it.key) for it in references(value)]
    assert found == [
        (it.start(), it[0], it[1], it[2] or "", it[3]) for it in kafkas.finditer(value)
    ]


@pytest.mark.parametrize("begun", ["${", "${a:", "${A", "{{", "$(a"])
def test_a_value_that_only_begins_references_is_read_at_once(tmp_path: Path, begun: str) -> None:
    began = time.process_time()
    with suppress(ConfigError):
        load_flow(yaml_file(tmp_path, f"\nstate.dir: '{begun * 200_000}'\n"))
    assert time.process_time() - began < 3
