"""The OpenAPI 3.1 description, written from the declarations of the operations.

msgspec derives the schemas from the structs that requests are decoded into and answers are encoded from;
configurations come from `millstream.jsapi`.  So no schema is maintained by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from millstream.gateway.v2.names import NAME_PATTERN
from millstream.gateway.v2.operations import COMMON_PROBLEMS, Answer, Operation, Tag
from millstream.gateway.v2.problems import Problem
from millstream.golang.time import Time

_REF: Final = "#/components/schemas/{name}"
_PROBLEM_TYPE: Final = "application/problem+json"
_ABOUT: Final = (
    "Publish to, read from and administer JetStream with nothing but HTTP. Every answer that is not a success"
    " is application/problem+json (RFC 9457), with JetStream's `err_code` where JetStream refused. Durations"
    " in configurations are nanoseconds, as JetStream has them; everywhere else they are seconds."
)
_PATH_PARAMETERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "stream": ("the name of a stream", {"type": "string", "pattern": NAME_PATTERN, "examples": ["ORDERS"]}),
    "consumer": (
        "the name of a consumer",
        {"type": "string", "pattern": NAME_PATTERN, "examples": ["billing"]},
    ),
    "bucket": (
        "the name of a bucket",
        {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,251}$", "examples": ["users"]},
    ),
    "key": (
        "a key; everything that follows in the path belongs to it",
        {
            "type": "string",
            "pattern": r"^[-/_=A-Za-z0-9]+(\.[-/_=A-Za-z0-9]+)*$",
            "maxLength": 1024,
            "examples": ["alice.email"],
        },
    ),
    "object": (
        "the name of an object; everything that follows in the path belongs to it",
        {"type": "string", "minLength": 1, "maxLength": 256, "examples": ["reports/2026.pdf"]},
    ),
    "namespace": (
        "a namespace of tables; its parts are joined by U+001F",
        {"type": "string", "minLength": 1, "examples": ["plant"]},
    ),
    "table": ("the name of a table", {"type": "string", "minLength": 1, "examples": ["readings"]}),
    "server_id": ("the id of a server", {"type": "string", "pattern": "^[A-Za-z0-9]+$"}),
    "cid": ("the id of a connection", {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}),
    "seq": ("a stream sequence", {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}),
    "subject": (
        "a subject without wildcards; everything that follows in the path belongs to it",
        {
            "type": "string",
            "pattern": r"^[^\u0000-\u0020\u007f.*>]+(\.[^\u0000-\u0020\u007f.*>]+)*$",
            "maxLength": 1024,
            "examples": ["orders.eu.4711"],
        },
    ),
}


def describe(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """Return the whole document."""
    operations = list(operations)
    shapes = _Shapes(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, shapes)
    used = {operation.tag for operation in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream HTTP gateway",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag.value} for tag in Tag if tag in used],
        "paths": paths,
        "components": {
            "schemas": shapes.components,
            "responses": {"Problem": _problem_response(shapes)},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "user and password of NATS"},
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "a token of NATS or of the gateway",
                },
                "nkey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Nkey` and a seed: signs in to NATS with it",
                },
                "creds": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Creds` and the base64 of a credentials file: signs in to NATS with it",
                },
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}, {"nkey": []}, {"creds": []}],
    }


class _Shapes:
    """The schemas of all types that operations name."""

    def __init__(self, operations: list[Operation]) -> None:
        kinds: list[Any] = [Problem]
        for operation in operations:
            contents = [answer.content for answer in operation.answers]
            if operation.body is not None:
                contents.append(operation.body.content)
            shapes = [shape for content in contents for shape in content.values()]
            for shape in shapes:
                kinds += shape if isinstance(shape, tuple) else [] if isinstance(shape, dict) else [shape]
            if operation.query is not None:
                kinds.append(operation.query)
        unique = list(dict.fromkeys(kinds))
        schemas, components = msgspec.json.schema_components(
            unique, schema_hook=_schema_of, ref_template=_REF
        )
        self._schemas = dict(zip(unique, schemas, strict=True))
        self._queries = {
            operation.query: components.pop(_name(operation.query), None)
            for operation in operations
            if operation.query is not None
        }
        self.components: dict[str, Any] = {name: _tidy(schema) for name, schema in components.items()}

    def of(self, shape: Any) -> dict[str, Any]:
        if isinstance(shape, tuple):
            return {"anyOf": [self.of(each) for each in shape]}
        found: dict[str, Any] = shape if isinstance(shape, dict) else self._schemas[shape]
        return found

    def properties(self, query: type) -> dict[str, Any]:
        found: dict[str, Any] = (self._queries[query] or {}).get("properties", {})
        return {name: _tidy(schema) for name, schema in found.items()}


def _schema_of(kind: type) -> dict[str, Any]:
    if kind is Time:
        return {"type": "string", "format": "date-time"}
    raise NotImplementedError(f"{kind} has no schema")


def _name(kind: type) -> str:
    return kind.__name__


def _tidy(schema: Any) -> Any:
    """Return a schema without empty defaults, and without `null` where it only means absence."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {
        key: _tidy(value)
        for key, value in schema.items()
        if not (key == "default" and value in (None, "", 0, False, [], {}))
        and not (key == "required" and not value)
    }
    return tidy


def _operation(operation: Operation, shapes: _Shapes) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag.value],
    }
    if operation.description:
        described["description"] = operation.description
    parameters = [*_path_parameters(operation), *_query(operation, shapes), *_headers(operation)]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        body: dict[str, Any] = {
            "content": {
                media: {"schema": shapes.of(shape)} for media, shape in operation.body.content.items()
            },
            "required": operation.body.required,
        }
        if operation.body.description:
            body["description"] = operation.body.description
        described["requestBody"] = body
    described["responses"] = _responses(operation, shapes)
    return described


def _path_parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", operation.path):
        text, schema = _PATH_PARAMETERS[name]
        yield {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _query(operation: Operation, shapes: _Shapes) -> Iterable[dict[str, Any]]:
    if operation.query is None:
        return
    for name, schema in shapes.properties(operation.query).items():
        schema = dict(schema)
        choices = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
        if len(choices) == 1:
            schema = {**choices[0], **schema}
        elif choices:
            schema["anyOf"] = choices
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": False}
        if text := schema.pop("description", ""):
            parameter["description"] = text
        parameter["schema"] = schema
        yield parameter


def _headers(operation: Operation) -> Iterable[dict[str, Any]]:
    for name, text in operation.headers.items():
        if name == "Accept":
            continue  # in OpenAPI, the media types of the answers express it
        yield {
            "name": name,
            "in": "header",
            "required": False,
            "description": text,
            "schema": {"type": "string"},
        }


def _responses(operation: Operation, shapes: _Shapes) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for answer in operation.answers:
        responses[str(answer.status)] = _response(answer, shapes)
    for status in sorted({*COMMON_PROBLEMS, *operation.problems}):
        responses[str(status)] = {"$ref": "#/components/responses/Problem"}
        if status in (401, 429):
            described = _problem_response(shapes)
            described["description"] = HTTPStatus(status).phrase
            name, text = (
                ("WWW-Authenticate", "how to say who you are")
                if status == 401
                else ("Retry-After", "seconds")
            )
            described["headers"] = {name: {"description": text, "schema": {"type": "string"}}}
            responses[str(status)] = described
    return dict(sorted(responses.items()))


def _response(answer: Answer, shapes: _Shapes) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    if answer.content:
        described["content"] = {
            media: {"schema": shapes.of(shape)} for media, shape in answer.content.items()
        }
    return described


def _problem_response(shapes: _Shapes) -> dict[str, Any]:
    return {
        "description": "what went wrong",
        "content": {_PROBLEM_TYPE: {"schema": shapes.of(Problem)}},
    }
