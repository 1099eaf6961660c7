"""Checks certificates of Kafka Ferry without Kafka Ferry: python check_certificates.py PUBLIC_KEY FILE...

Needs the package `cryptography` and nothing else. docs/certificates.md describes the format.
"""

import base64
import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)


def merkle_root(lines):
    """RFC 9162, 2.1.1, with SHA-256."""
    if len(lines) == 1:
        return hashlib.sha256(b"\0" + lines[0]).digest()
    split = 1
    while split * 2 < len(lines):
        split *= 2
    halves = merkle_root(lines[:split]) + merkle_root(lines[split:])
    return hashlib.sha256(b"\1" + halves).digest()


def signature_line(key, value):
    """The only bytes that a certificate's last line may have, for a signature's 64 bytes."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signature = {
        "algorithm": "Ed25519",
        "key": hashlib.sha256(der).hexdigest(),
        "value": base64.b64encode(value).decode(),
    }
    return json.dumps({"signature": signature}, separators=(",", ":")).encode()


def fault_of_signature(key, first, last):
    """What is wrong with a certificate's last line; nothing if it signs the first."""
    try:
        value = base64.b64decode(json.loads(last)["signature"]["value"])
        key.verify(value, first)
    except (ValueError, TypeError, KeyError, InvalidSignature):
        return "its signature is not of this key and these bytes"
    # JSON and Base64 have several forms of the same content, and one of them is a certificate's.
    return None if last == signature_line(key, value) else "its signature has another form"


def header_of(file, first):
    """The fields of a certificate's first line."""
    try:
        header = json.loads(first)
        if all(name in header for name in ("serial", "previous", "root")):
            return header
    except (ValueError, TypeError):
        pass
    sys.exit(f"{file} is not a certificate: it has no header")


def check(file, key):
    """The header and its hash; and what is wrong with the file alone."""
    first, *ranges = file.read_bytes().split(b"\n")
    header, faults = header_of(file, first), []
    digest = hashlib.sha256(first).hexdigest()
    if not ranges or ranges.pop():
        faults.append("it does not end with a line feed")
    if ranges and ranges[-1].startswith(b'{"signature":'):
        faults += filter(None, [fault_of_signature(key, first, ranges.pop())])
    else:
        faults.append("it is not signed")
    if not ranges or merkle_root(ranges).hex() != header["root"]:
        faults.append("its range lines do not have the root that the header signs")
    if faults:
        return header, digest, faults
    rows = [json.loads(line) for line in ranges]
    reasons = Counter()
    for row in rows:
        reasons.update(row["reasons"])
        if row["end"] - row["start"] != row["copied"] + sum(row["reasons"].values()):
            faults.append(f"{row['topic']}-{row['partition']} at {row['start']} does not add up")
        if row.get("witnessed", 0) > sum(row["reasons"].values()):
            faults.append(
                f"{row['topic']}-{row['partition']} at {row['start']} has too many witnessed"
            )
    sums = (
        len(rows),
        sum(row["end"] - row["start"] for row in rows),
        sum(row["read_back"] for row in rows),
        sum(row.get("witnessed", 0) for row in rows),
        dict(reasons),
    )
    names = ("ranges", "source_offsets", "records", "witnessed", "reasons")
    if tuple(header.get(name, 0) for name in names) != sums:
        faults.append("its header does not sum up its ranges")
    return header, digest, faults


def pruned_until(found):
    """The last certificate that was pruned and its hash, by those that hold; 0 and nothing for none."""
    told = [header["pruned"] for _, header, _, faults in found if "pruned" in header and not faults]
    last = max(told, key=lambda it: it["through"], default={"through": 0, "hash": ""})
    return last["through"], last["hash"]


def main(key_file, *files):
    """Check files, print what is wrong with each, and return the exit status."""
    key = load_pem_public_key(Path(key_file).read_bytes())
    before, failed = None, False
    found = [(Path(file), *check(Path(file), key)) for file in files]
    pruned, pruned_hash = pruned_until(found)
    if pruned:
        print(f"PRUNED until certificate {pruned}, which had the hash {pruned_hash}")
    for file, header, digest, faults in sorted(found, key=lambda it: it[1]["serial"]):
        serial, at = header["serial"], before[0] if before else 0
        if (serial - 1 == pruned > 0 and header["previous"] != pruned_hash) or (
            serial == pruned and digest != pruned_hash
        ):
            faults.append(f"the chain was pruned until {pruned} with another hash")
        if header.get("pruned", {"through": 0})["through"] >= serial:
            faults.append("it says that the chain was pruned past itself")
        if before and serial != at + 1 and serial - 1 > pruned:
            faults.append(f"the certificates between {max(at, pruned)} and {serial} are missing")
        elif before and serial == at + 1 and header["previous"] != before[1]:
            faults.append(f"it does not follow the certificate {at} that is here")
        elif not before and serial - 1 > pruned:
            print(f"NOT LOOKED AT: the certificates before {serial} that were not pruned")
        print(f"{file}: {'; '.join(faults) or 'holds'}")
        before, failed = (header["serial"], digest), failed or bool(faults)
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
