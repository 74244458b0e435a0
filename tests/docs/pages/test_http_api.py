"""`docs/http-api.md` has every operation of the gateway's /v2; GOLDEN_UPDATE=1 writes them."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from millstream.gateway.settings import BOTH_GROUPS
from millstream.gateway.v2.about import description_of
from tests.kits.docs.generated import WIDTH, compare, entry
from tests.kits.paths import DOCS

PAGE = DOCS / "http-api.md"
METHODS = ("get", "head", "put", "post", "patch", "delete")


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def kind(schema: dict[str, Any] | bool) -> str:
    """Return the type of a value, in words; types of the description by their name."""
    if isinstance(schema, bool):  # JSON Schema's way to allow anything
        return "any value"
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(kind(each) for each in choices))
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {kind(schema['additionalProperties'])}"
    names = schema.get("type", "any value")
    return " or ".join(names) if isinstance(names, list) else str(names)


def parameter(each: dict[str, Any]) -> str:
    facts = [each["in"], kind(each["schema"])]
    if "default" in each["schema"]:
        facts.append(f"`{json.dumps(each['schema']['default'])}` by default")
    elif each["in"] == "query" and each.get("required"):
        facts.append("needed")
    return entry(
        f"`{each['name']}` ({', '.join(facts)}): {one_line(each.get('description', ''))}".rstrip(": ")
    )


def body(content: dict[str, Any]) -> str:
    return ", ".join(f"`{media}`: {kind(each.get('schema', {}))}" for media, each in content.items())


def operation(method: str, path: str, described: dict[str, Any]) -> Iterator[str]:
    yield from [f"### {method.upper()} {path}", ""]
    words = f"{described['summary'].rstrip('.')}. {one_line(described.get('description', ''))}"
    yield from textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""
    yield from (parameter(each) for each in described.get("parameters", ()))
    if request := described.get("requestBody"):
        words = one_line(request.get("description", ""))
        yield entry(f"Body: {words + ' ' if words else ''}({body(request['content'])})")
    for status, answer in described["responses"].items():
        if status < "400":
            content = f" ({body(answer['content'])})" if answer.get("content") else ""
            yield entry(f"Answer {status}: {one_line(answer['description'])}{content}")
    problems = [status for status in described["responses"] if status >= "400"]
    yield entry(f"Problems: {', '.join(problems)}")
    yield ""


def operations(description: dict[str, Any]) -> Iterator[str]:
    for tag in description["tags"]:
        yield from [f"## {tag['name']}", ""]
        for path, methods in description["paths"].items():
            for method in METHODS:
                if method in methods and tag["name"] in methods[method]["tags"]:
                    yield from operation(method, path, methods[method])


def types(description: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from [f"### {name}", ""]
        if words := one_line(schema.get("description", "")):
            yield from [*textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False), ""]
        if "properties" not in schema:
            yield from [entry(kind(schema)), ""]
            continue
        for field, each in schema["properties"].items():
            words = one_line(each.get("description", "")) if isinstance(each, dict) else ""
            yield entry(f"`{field}` ({kind(each)}){': ' + words if words else ''}")
        yield ""


def test_every_operation_and_type_is_on_the_page() -> None:
    description = json.loads(description_of(BOTH_GROUPS))
    tagged = {tag["name"] for tag in description["tags"]}
    for methods in description["paths"].values():
        assert set(methods) <= {*METHODS, "parameters"}
        assert all(tagged & set(each["tags"]) for name, each in methods.items() if name in METHODS)
    compare(PAGE, "operations", [*operations(description)][:-1])
    compare(PAGE, "types", [*types(description)][:-1])
