"""Readings of devices in Avro and in Protobuf: a schema of each, and payloads."""

import io
import json
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

MESSAGE: Final = "plant.Reading"
RECORD: Final = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "device", "type": "string"},
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def avro_file(folder: Path) -> str:
    """Write the schema of Avro; return the name of its file."""
    file = folder / "reading.avsc"
    file.write_text(json.dumps(RECORD))
    return str(file)


def in_avro(device: str, celsius: float | None, *tags: str) -> bytes:
    import fastavro

    target = io.BytesIO()
    reading = {"device": device, "celsius": celsius, "tags": list(tags)}
    fastavro.schemaless_writer(target, fastavro.parse_schema(RECORD), reading)
    return target.getvalue()


def _descriptors() -> FileDescriptorSet:
    file = FileDescriptorProto(name="plant.proto", package="plant", syntax="proto3")
    reading = file.message_type.add(name="Reading")
    one, many = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
    reading.field.add(name="device", number=1, type=Field.TYPE_STRING, label=one)
    reading.field.add(name="celsius", number=2, type=Field.TYPE_DOUBLE, label=one)
    reading.field.add(name="tags", number=3, type=Field.TYPE_STRING, label=many)
    file.message_type.add(name="Nothing")
    return FileDescriptorSet(file=[file])


def protobuf_file(folder: Path) -> str:
    """Write the descriptors as `protoc` does; return the name of their file."""
    file = folder / "reading.desc"
    file.write_bytes(_descriptors().SerializeToString())
    return str(file)


def in_protobuf(device: str, celsius: float, *tags: str) -> bytes:
    pool = DescriptorPool()
    for file in _descriptors().file:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName(MESSAGE))
    return bytes(kind(device=device, celsius=celsius, tags=tags).SerializeToString())
