"""Decoders of payloads: JSON, Avro, Protobuf.

Each gives the type of the column `value`, and reads one payload at a time.

Not here: options, and what becomes of a payload that cannot be read (`value_formats`).
"""
