"""Rules for principals; what becomes of each was also tried with Kafka's own class, version 4.3.1."""

import pickle

import pytest

from kafka_ferry.config.types.principal_mapping import PrincipalRules, split_rules
from tests.unit.plan.builders import a_flow

DISTINGUISHED = "User:CN=anna,OU=dev,O=x"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("DEFAULT", "User:anna", "User:anna"),
        (r"RULE:^User:CN=(.*?),OU=(.*?),.*$/User:$1@$2/, DEFAULT", DISTINGUISHED, "User:anna@dev"),
        (r"RULE:^User:CN=(.*?),OU=(.*?),.*$/User:$1@$2/, DEFAULT", "User:bob", "User:bob"),
        ("RULE:^User:(.*)$/User:dr-$1/", "User:anna", "User:dr-anna"),
        ("RULE:^User:app-(.*)$/User:dr-$1/", "User:anna", None),
        ("RULE:User:(.{1,3}).*/User:$1/ , RULE:x/y/L , DEFAULT", "User:anna", "User:ann"),
        ("RULE:User:a/User:b/,RULE:User:a/User:c/", "User:a", "User:b"),  # the first counts
        ("RULE:User:ann/User:b/", "User:anna", None),  # the whole text
        (r"RULE:User:a\/b/User:c/", "User:a/b", "User:c"),
        (r"RULE:User:(\w+)/User:\$1\/x\\/", "User:anna", "User:$1/x\\"),
        (r"RULE:User:(\w+)/User:$1$2/", "User:anna", "User:anna$2"),
        (r"RULE:User:(\w+)/User:$12/", "User:anna", "User:anna2"),
        (r"RULE:User:\w+/X$0/", "User:anna", "XUser:anna"),
        ("RULE:User:(a)|User:(b)/User:$1x$2/", "User:b", "User:xb"),
        (" DEFAULT , ", "User:anna", "User:anna"),
    ],
)
def test_the_first_rule_that_matches_names_a_principal(
    rules: str, principal: str, name: str | None
) -> None:
    assert PrincipalRules(split_rules(rules)).name_of(principal) == name


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:User:(.*)/User:$1/L", "User:anna smith"),
        ("RULE:User:(.*)/User:$1/U", "User:ANNA SMITH"),
        ("RULE:User:(.*)/User:$1/", "User:Anna Smith"),
    ],
)
def test_lower_and_upper_case_spare_the_type_which_an_authorizer_takes_literally(
    rule: str, name: str
) -> None:
    assert PrincipalRules((rule,)).name_of("User:Anna Smith") == name


def test_without_rules_names_stay() -> None:
    assert PrincipalRules().name_of("User:anna") == "User:anna"


def test_all_users_is_no_principals_name() -> None:
    rules = PrincipalRules(("RULE:User:app-(.*)/User:$1/",))
    assert rules.name_of("User:*") == "User:*"


@pytest.mark.parametrize(
    ("rule", "user"),
    [
        ("RULE:User:(.*)/User:dr-$1/", "dr-anna"),
        ("RULE:User:(.*)/Group:$1/", None),
        ("RULE:User:app-(.*)/User:$1/", None),
    ],
)
def test_a_user_without_a_name_on_the_target_has_no_rule_or_one_that_makes_it_no_user(
    rule: str, user: str | None
) -> None:
    assert PrincipalRules((rule,)).user_of("anna") == user


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("foo", "'foo' is not a rule"),
        ("RULE:User:a/b", "is not a rule"),
        ("RULE:a/b/Lx", "is not a rule"),
        ("RULE:a/b/X", "is not a rule"),
        (r"RULE:User:(.*)/User:$1\/", "is not a rule"),
        ("RULE:[/x/", "'[' is not a valid regular expression"),
        (r"RULE:User:\w+/User:$1/", "the pattern has no group $1"),
        (r"RULE:User:(\w+)/User:$x/", "in the replacement"),
    ],
)
def test_what_is_no_rule_is_refused_when_the_file_is_read(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"acls\.principals") as caught:
        a_flow(**{"acls.principals": [rule]})
    assert reason in str(caught.value)


def test_text_holds_several_rules_whose_commas_are_their_own() -> None:
    text = "RULE:User:CN=(.*?),.*/User:$1/L, DEFAULT"
    flow = a_flow(**{"acls.principals": text})
    assert flow.acls_principals == ("RULE:User:CN=(.*?),.*/User:$1/L", "DEFAULT")
    assert pickle.loads(pickle.dumps(flow)) == flow
    assert hash(flow) == hash(a_flow(**{"acls.principals": list(flow.acls_principals)}))


def test_principals_are_a_list_or_text_as_super_users_is() -> None:
    names = ("User:CN=ferry,OU=dev", "User:ferry")
    for value in (list(names), "User:CN=ferry,OU=dev; User:ferry;"):
        assert a_flow(**{"acls.own.principals": value}).acls_own_principals == names
    for wrong in ("ferry", "User:", "User:*", ":ferry"):
        with pytest.raises(ValueError, match="is not a principal, such as User:ferry"):
            a_flow(**{"acls.own.principals": wrong})
