"""The schemas of Protobuf that a registry has, as descriptors.

A registry has the text of a .proto file, or what Confluent's client for Python has registered in its place: the
file's descriptor in base64. Texts are read by protoc, which comes with grpcio-tools. What serializers register no
reference for, the files of ``google/protobuf``, ``google/type`` and ``confluent``, is here as Python modules.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import grpc_tools  # noqa: F401  (its protoc runs as a process: what lacks it says so at once)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from kafka_ferry.errors import FerryError
from kafka_ferry.schemas.fields.record_schema import NotReadable, Reference
from kafka_ferry.schemas.registered import RegisteredSchema

ROOT: Final = "_root_.proto"
"""The name of the file of the schema itself, which a registry gives none."""
_PROTOC_S: Final = 60.0
# The time that protoc takes grows as the square of some texts' length, and a descriptor has more messages than a text.
_MOST_TEXT: Final = 256 * 1024
_MOST_ERRORS: Final = 3
_WARNING: Final = re.compile(r"WARNING:|[IW]\d{4} ")
_IMPORT: Final = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?["\']([^"\']+)["\']')
_BUILT_IN: Final = re.compile(r"(google/(?:protobuf|type)|confluent(?:/types?)?)/\w+\.proto")
_CONFLUENT: Final = "confluent_kafka.schema_registry."


class ProtobufFiles:
    """A schema's file with all that it imports.

    Args:
        schema: the schema.
        references: those that it refers to, each after its own.

    Attributes:
        pool: the descriptors.
        root: the schema's own file.

    Raises:
        NotReadable: it is no schema of Protobuf, or imports a file that it does not refer to.
    """

    pool: Any
    root: Any

    def __init__(self, schema: RegisteredSchema, references: Iterable[Reference]) -> None:
        self._files: dict[str, Any] = {}
        self.pool = DescriptorPool()
        for name, referred in references:
            if name not in self._files:
                self._add(name, referred)
        self._add(ROOT, schema)
        self.root = self._files[ROOT]

    @property
    def all(self) -> Collection[Any]:
        """The schema's own file and all that it imports."""
        return self._files.values()

    def _add(self, name: str, schema: RegisteredSchema) -> None:
        try:
            if len(schema.text) > _MOST_TEXT:
                raise ValueError(f"its text has more than {_MOST_TEXT:,} characters")
            file = self._decode(schema.text) or self._compile(schema.text)
            file.name = name
            self._import(file.dependency)
            self._files[name] = file
            self.pool.Add(file)
            # Only now what it names is looked for.
            self.pool.FindFileByName(name)
        except (TypeError, ValueError, KeyError, DecodeError) as error:
            raise NotReadable(f"{schema.at} is no schema of Protobuf: {error}") from error

    def _import(self, names: Collection[str]) -> None:
        """Add built-in files that are not there, each after its own."""
        for name in names:
            if name in self._files or not _BUILT_IN.fullmatch(name):
                continue
            prefix = _CONFLUENT if name.startswith("confluent") else ""
            module = prefix + name.removesuffix(".proto").replace("/", ".") + "_pb2"
            try:
                text = importlib.import_module(module).DESCRIPTOR.serialized_pb
            except ImportError:
                continue
            file = FileDescriptorProto.FromString(text)
            self._import(file.dependency)
            self._files[name] = file
            self.pool.Add(file)

    @staticmethod
    def _decode(text: str) -> Any:
        """A file that is registered as its descriptor; None if it is text."""
        try:
            return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            return None

    def _compile(self, text: str) -> Any:
        """What protoc makes of a text, with the files that are there.

        It gets a file's name in place of the text, and is a process of its own: it writes its errors to standard
        error, and a text that it cannot bear ends no task.
        """
        self._import(_IMPORT.findall(text))
        with tempfile.TemporaryDirectory(prefix="ferry-protoc-") as place:
            folder = Path(place)
            (folder / ROOT).write_text(text, encoding="utf-8")
            known = FileDescriptorSet(file=self._files.values())
            (folder / "known").write_bytes(known.SerializeToString())
            try:
                done = subprocess.run(
                    [
                        *(sys.executable, "-P", "-m", "grpc_tools.protoc"),
                        *(f"--proto_path={folder}", f"--descriptor_set_in={folder / 'known'}"),
                        *(f"--descriptor_set_out={folder / 'made'}", ROOT),
                    ],
                    capture_output=True,
                    text=True,
                    timeout=_PROTOC_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                # A machine that is busy says nothing of the schema.
                busy = FerryError(
                    f"protoc took more than {_PROTOC_S:.0f} s for {len(text):,} characters."
                )
                busy.transient = True
                raise busy from None
            if done.returncode:
                lines = (
                    done.stderr.replace(f"{folder / ROOT}:", "").replace(f"{ROOT}:", "").split("\n")
                )
                errors = [line for line in lines if line and not _WARNING.match(line)]
                raise ValueError("; ".join(errors[:_MOST_ERRORS]))
            (file,) = FileDescriptorSet.FromString((folder / "made").read_bytes()).file
            return file
