"""A changed byte is found anywhere, and a missing link is named; by our checker, Java's and the standalone one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kafka_ferry.certificates import Certificate, CertificateError, read_certificate
from kafka_ferry.certificates.chain import (
    _NOT_YET,
    faults_of_chain,
    faults_of_present,
    in_order,
    unsigned_beginning,
)
from kafka_ferry.certificates.document import as_line
from kafka_ferry.certificates.signature import public_keys
from tests import PROJECT
from tests.unit.certificates.builders import KEY, a_certificate, a_chain, a_range
from tests.unit.certificates.test_signature import PUBLIC

STANDALONE = PROJECT / "docs" / "examples" / "check_certificates.py"
CHECK = run_path(str(STANDALONE))["check"]
JAVA = PROJECT / "tests" / "java" / "CheckCertificates.java"
SPARE_BITS = 2
"""Which of ``other_forms_of_the_signature`` has other bits where Base64 has no content."""


def faults(*certificates: Certificate) -> list[str]:
    return faults_of_chain(in_order(certificates), [KEY.public_key()])


def changed(one: Certificate, **fields: Any) -> Certificate:
    """The certificate with other fields in its header, and its old signature."""
    line = as_line(json.loads(one.line) | fields)
    return Certificate(line, one.range_lines, one.signature)


def test_a_chain_that_was_issued_holds() -> None:
    assert not faults(*a_chain(4))
    assert not faults(*a_chain(4)[2:])


def test_what_is_there_holds_whatever_is_missing_between() -> None:
    first, second, third, fourth = a_chain(4)
    assert not faults_of_present([first, second, fourth], [KEY.public_key()])
    assert faults(first, second, fourth)
    other = changed(second, run="another")
    for some in ([other, fourth], [first, second, other, third], [other, third]):
        assert faults_of_present(some, [KEY.public_key()])


def is_accepted(content: bytes) -> bool:
    """Whether Kafka Ferry's checker finds nothing wrong with a certificate."""
    try:
        return not faults(read_certificate(content, "a file"))
    except CertificateError:
        return False


def is_accepted_outside(content: bytes, file: Path) -> bool:
    """Whether the standalone checker finds nothing wrong with it."""
    file.write_bytes(content)
    try:
        return not CHECK(file, [KEY.public_key()])[2]
    except SystemExit:
        return False


def edited(data: st.DataObject, content: bytes) -> bytes:
    """The bytes with one changed, added, taken away, doubled, or moved, often in the signature's line."""
    last = content.rindex(b"{")
    at = data.draw(st.integers(0, len(content) - 1) | st.integers(last, len(content) - 1))
    byte = data.draw(st.integers(0, 255) | st.sampled_from(b' \t\r\n"=,:{}A\xef'))
    kept = data.draw(st.sampled_from([content[at + 1 :], content[at:], b""]))
    added = data.draw(st.sampled_from([b"", bytes([byte]), content[at : at + 1] * 2]))
    edited = content[:at] + added + kept
    assume(edited != content)
    return edited


@given(st.data())
def test_every_changed_byte_is_found(data: st.DataObject) -> None:
    assert not is_accepted(edited(data, a_certificate().content()))


def other_forms_of_the_signature() -> list[bytes]:
    """The bytes of a certificate whose signature's line says the same, in other bytes."""
    content = a_certificate().content()
    start = content.rindex(b'{"signature":')
    line, value = content[start:-1], json.loads(content[start:])["signature"]["value"].encode()
    spare = bytes([value[-3] + 1])  # 64 bytes leave 4 bits of the last character unused
    forms = [
        line.replace(value, value[:-3] + spare + value[-2:]),
        line.replace(b'":"', b'": "', 1),
        line + b" ",
        line + b"\r",
        line[:-1] + b',"more":1}',
        line[:-2] + b',"more":1}}',
        line.replace(b'"algorithm"', b'"value":"A","algorithm"'),
        line.replace(b'"key"', b'"k\\u0065y"'),
        line.replace(b"Ed25519", b"ed25519"),
        line.replace(value, value + b"\\n"),
        line.replace(value, value[:4] + b"*" + value[4:]),
        line.replace(value, value.rstrip(b"=")),
    ]
    return [content[:-1], content + b"\n", *(content[:start] + form + b"\n" for form in forms)]


def test_the_signature_has_one_form(tmp_path: Path) -> None:
    content = a_certificate().content()
    assert is_accepted(content)
    assert is_accepted_outside(content, tmp_path / "file")

    for form in other_forms_of_the_signature():
        assert form != content
        assert not is_accepted(form), form[-250:]
        assert not is_accepted_outside(form, tmp_path / "file"), form[-250:]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_standalone_checker_finds_every_changed_byte(
    data: st.DataObject, tmp_path: Path
) -> None:
    assert not is_accepted_outside(edited(data, a_certificate().content()), tmp_path / "file")


def test_the_standalone_checker_tells_a_file_of_another_and_prints_no_controls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = run_path(str(STANDALONE))["main"]
    (key := tmp_path / "public.pem").write_bytes(PUBLIC)
    (file := tmp_path / "00000007.jsonl").write_bytes(a_certificate().content())
    (odd := tmp_path / "a\r\x1b[2K.jsonl").write_bytes(a_certificate().content())

    assert main(key, file) == 1
    assert main(key, odd) == 0

    told = capsys.readouterr().out
    assert "it is the certificate 1 in the file of another" in told
    assert not {"\r", "\x1b"} & {*told}
    odd.write_bytes(as_line(json.loads(a_certificate().line) | {"serial": "1"}))
    with pytest.raises(SystemExit, match="is not a certificate"):
        main(key, odd)


@pytest.mark.parametrize(
    ("certificates", "said"),
    [
        (a_chain(4)[:1] + a_chain(4)[2:], "Certificate 2 of left->right missing: 3 follows 1."),
        (a_chain(5)[:1] + a_chain(5)[3:], "Certificates 2 to 3 of left->right missing"),
        ([a_certificate(1), a_certificate(2)], "does not follow the certificate 1"),
        ([a_certificate(1), a_certificate(1, None, a_range(5))], "two different certificates 1"),
        ([a_certificate(key=None)], "is not signed"),
        ([a_certificate(key=Ed25519PrivateKey.generate())], "is not of this key"),
        ([changed(a_certificate(), run="another")], "is not of this key and these bytes"),
        ([changed(a_certificate(), records=1)], "does not sum up"),
    ],
)
def test_what_is_wrong_is_named(certificates: list[Certificate], said: str) -> None:
    assert any(said in fault for fault in faults(*certificates))


def test_ranges_that_were_moved_or_taken_away_are_found() -> None:
    one = a_certificate()
    for lines in (one.range_lines[1:], one.range_lines[::-1], [*one.range_lines, b"{}"]):
        (found,) = faults(Certificate(one.line, lines, one.signature))
        assert "do not have the root" in found


def a_pruned_chain() -> list[Certificate]:
    """Certificates 1 to 5, of which the last says that 1 and 2 are pruned."""
    chain = a_chain(4)
    return [*chain, a_certificate(5, chain[3], pruned=chain[1])]


@pytest.mark.parametrize("there", [[3, 4, 5], [2, 3, 4, 5], [1, 3, 4, 5], [1, 2, 3, 4, 5], [4, 5]])
def test_what_a_record_says_was_pruned_is_not_missing(there: list[int]) -> None:
    chain = [one for one in a_pruned_chain() if one.header.serial in there]

    found = faults(*chain)

    assert found == (
        []
        if 3 in there
        else ["Certificate 3 of left->right missing: the chain was pruned until 2."]
    )


def test_a_gap_after_what_was_pruned_is_named_from_there_on() -> None:
    one, *_, last = a_pruned_chain()
    assert faults(one, last) == ["Certificates 3 to 4 of left->right missing: 5 follows 1."]


def test_a_forged_record_hides_nothing() -> None:
    one, two, three, four = a_chain(4)
    record = {"through": 3, "hash": three.digest}
    forged = changed(four, pruned=record)
    of_another_key = a_certificate(4, three, key=Ed25519PrivateKey.generate(), pruned=three)
    for false in (forged, of_another_key):
        found = faults(one, false)
        assert any("not of this key and these bytes" in fault for fault in found)
        assert any("2 to 3 of left->right missing" in fault for fault in found)

    # Signed, and yet false: the hash is not that of what was there.
    said = faults(three, a_certificate(4, three, pruned=a_certificate(2, one, a_range(9))))
    assert any("with the hash" in fault for fault in said)
    assert any("past itself" in fault for fault in faults(a_certificate(2, one, pruned=two)))


def test_signatures_are_not_looked_at_without_a_key() -> None:
    assert not faults_of_chain([a_certificate(key=None)], [])


def a_chain_that_got_a_key() -> list[Certificate]:
    """Certificates 1 to 4, of which the first two are from before the flow had a key."""
    chain: list[Certificate] = []
    for serial in range(1, 5):
        key = KEY if serial > 2 else None
        chain.append(a_certificate(serial, chain[-1] if chain else None, key=key))
    return chain


def stripped(one: Certificate) -> Certificate:
    """The certificate without its signature."""
    return Certificate(one.line, one.range_lines)


def chains_with_an_unsigned_one() -> list[tuple[str, list[Certificate]]]:
    """Chains that do not hold, by what is wrong."""
    one, two, three, four = a_chain_that_got_a_key()
    first, second, third = a_chain(3)
    strange = a_certificate(key=Ed25519PrivateKey.generate())
    other = a_certificate(1, None, a_range(9), key=None)
    return [
        ("no one is signed", [one, two]),
        ("one after a signed one", [first, a_certificate(2, first, key=None)]),
        ("one between", [first, (it := a_certificate(2, first, key=None)), a_certificate(3, it)]),
        ("the first signed one follows another", [one, a_certificate(2, None, key=None), three]),
        ("another in the place of one", [other, two, three, four]),
        ("other ranges in one", [Certificate(one.line, one.range_lines[::-1]), two, three, four]),
        ("one missing before the first signed one", [one, three, four]),
        ("the first signature taken away", [stripped(first), second, third]),
        ("the first signature after unsigned ones taken away", [one, two, stripped(three), four]),
        ("all signatures but the last one taken away", [stripped(first), stripped(second), third]),
        ("a signature of another key taken away", [stripped(strange), a_certificate(2, strange)]),
        ("one beside its own signed one", [stripped(first), first, second]),
    ]


def test_what_is_signed_after_unsigned_ones_holds() -> None:
    chain = a_chain_that_got_a_key()

    assert not faults(*chain)
    assert not faults_of_present(chain, [KEY.public_key()])
    assert unsigned_beginning(chain, [KEY.public_key()]) == chain[:2]
    assert unsigned_beginning(a_chain(3), [KEY.public_key()]) == []
    assert unsigned_beginning(chain, []) == []


def test_a_chain_whose_key_was_changed_holds_by_all_keys_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = Ed25519PrivateKey.generate()
    one, two = a_chain(2)
    three = a_certificate(3, two, key=later)
    chain = [one, two, three, a_certificate(4, three, key=later)]
    returned = [one, two, three, a_certificate(4, three)]
    pems = [
        PUBLIC,
        later.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ]
    main = run_path(str(STANDALONE))["main"]

    def found(some: list[Certificate], *which: int) -> list[str]:
        """What Kafka Ferry finds by these of the two keys; the standalone checker finds something too, or nothing."""
        (file := tmp_path / "public.pem").write_bytes(b"".join(pems[at] for at in which))
        faults = faults_of_chain(some, public_keys(file.read_bytes(), "public.pem"))
        at = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        failed = main(file, *write(at, content_of(some)))
        assert failed == bool(faults) or faults == [_NOT_YET], capsys.readouterr().out
        return faults

    assert found(chain, 0, 1) == found([one, two], 0) == []
    assert [len(found(chain, *which)) for which in ((0,), (1,), (1, 0))] == [2, 2, 2]
    assert found(returned, 0, 1) == [
        f"{returned[3].name} is signed with a key that had been replaced in {three.name}."
    ]
    # Who has an old key can sign a whole chain with it.
    assert found([one, two], 0, 1) == [_NOT_YET]


def test_an_unsigned_one_elsewhere_is_a_fault() -> None:
    for why, chain in chains_with_an_unsigned_one():
        assert faults_of_chain(chain, [KEY.public_key()]), why
        if "missing" not in why:
            assert faults_of_present(chain, [KEY.public_key()]), why


def content_of(chain: list[Certificate]) -> list[bytes]:
    return [one.content() for one in chain]


def write(folder: Path, chain: list[bytes]) -> list[Path]:
    """The files of a chain, by their place in it."""
    folder.mkdir()
    files = [folder / f"{at}.jsonl" for at in range(len(chain))]
    for file, content in zip(files, chain, strict=True):
        file.write_bytes(content)
    return files


def by_the_standalone_checker(
    folder: Path, chains: list[list[bytes]], key: Path, capsys: pytest.CaptureFixture[str]
) -> list[tuple[int, str]]:
    main = run_path(str(STANDALONE))["main"]
    return [
        (main(key, *write(folder / str(at), chain)), capsys.readouterr().out)
        for at, chain in enumerate(chains)
    ]


def by_javas_checker(
    folder: Path, chains: list[list[bytes]], key: Path, capsys: pytest.CaptureFixture[str]
) -> list[tuple[int, str]]:
    """All chains in one process: to start Java and to compile the checker takes longer than to check."""
    for at, chain in enumerate(chains):
        write(folder / str(at), chain)
    folders = [str(folder / str(at)) for at in range(len(chains))]
    java = [shutil.which("java") or "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [*java, str(JAVA), str(key), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    _, *said = done.stdout.split("---\n")
    return [(int(text.splitlines()[-1]), text) for text in said]


@pytest.mark.parametrize("checked", [by_the_standalone_checker, by_javas_checker])
def test_checkers_that_know_only_the_format_agree(
    checked: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = a_chain(3)
    again = Certificate(one.line, one.range_lines[::-1], one.signature)
    late = a_certificate(4, three, pruned=a_certificate(2, None))
    # Each with its status, with words of which one is said, and how often.
    expected: list[tuple[str, list[bytes], int, str]] = [
        ("a whole chain", content_of([one, two, three]), 0, ""),
        ("pruned", content_of([three, a_certificate(4, three, pruned=two)]), 0, "pruned until"),
        ("a later key", content_of(a_chain_that_got_a_key()), 0, "proves nothing"),
        *((why, content_of(it), 1, "") for why, it in chains_with_an_unsigned_one()),
        ("a range elsewhere", content_of([again, two, three]), 1, "root"),
        ("forged", content_of([one, changed(two, run="forged"), three]), 1, "signature"),
        ("no link", content_of([one, a_certificate(2, None), three]), 1, "follow|chain"),
        ("one missing", content_of([one, three]), 1, "missing|chain"),
        ("unsigned", content_of([a_certificate(key=None)]), 1, "not signed|unsigned"),
        (
            "forged record",
            content_of(
                [three, changed(a_certificate(4, three), pruned={"through": 2, "hash": two.digest})]
            ),
            1,
            "signature",
        ),
        ("another hash", content_of([three, late]), 1, "another hash|chain"),
        ("another form", [other_forms_of_the_signature()[SPARE_BITS]], 1, "signature"),
    ]
    (key := tmp_path / "public.pem").write_bytes(PUBLIC)

    found = checked(tmp_path, [chain for _, chain, _, _ in expected], key, capsys)

    for (why, _, status, words), (returned, text) in zip(expected, found, strict=True):
        assert returned == status, (why, text)
        assert any(word in text.lower() for word in words.split("|")), (why, text)
        assert why != "a later key" or text.lower().count("proves nothing") == 2, text
