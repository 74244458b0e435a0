"""A DuckDB connection for one query: its settings, its relations, and the statements that it takes.

DuckDB itself finds the names in a query (`get_table_names`), and each is looked up on the server and in the
catalog; a name that neither has is left to DuckDB, which may know it.  Identifiers of SQL ignore case and
names of streams do not, so two streams that differ only in case cannot be in one query.

`->>` gives NULL for text that is no JSON: in DuckDB, one such payload would end the query.  `->` stays as it
is, because DuckDB lets nobody redefine it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import duckdb

from millstream.queries.dataset import Opener, RelationDataset
from millstream.queries.errors import SqlError, SqlRefused
from millstream.queries.relations import KV, FoundRelation, RelationName, relation_of

_TOLERANT: Final = (
    'CREATE TEMP MACRO "->>"(value, path) AS '
    "json_extract_string(CASE WHEN json_valid(value) THEN value END, path)"
)
_PART: Final = r'("(?:[^"]|"")*"|[^".\s]+)'
_QUALIFIED: Final = re.compile(rf"(?:{_PART}\.)?{_PART}(?=\s|$)")  # an alias or a sample may follow
_BLANKS: Final = r"(?:\s|;|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_EXPLAIN: Final = re.compile(rf"{_BLANKS}EXPLAIN\b(?:{_BLANKS}ANALYZE\b)?", re.IGNORECASE | re.DOTALL)
_OPTIONS: Final = re.compile(r"\s*\([^()]*\)")
_BODY: Final = '"query_node":'  # the body of a WITH, in the syntax tree as JSON
_BODY_KIND: Final = re.compile(_BODY + r'\{"type":"(\w+)_NODE"')
_READING_BODIES: Final = frozenset({"SELECT", "SET_OPERATION", "RECURSIVE_CTE"})

# Returns where the rows of a relation are; None if there is no such relation.
Resolver = Callable[[RelationName], FoundRelation | None]


def open_session(settings: dict[str, Any]) -> Any:
    """Return a connection to an empty database in memory, with these settings of DuckDB."""
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(_TOLERANT)
    return connection


def check_statement(connection: Any, query: str) -> None:
    """Raise SqlRefused unless the text is one query, and SqlError if it cannot be parsed."""
    kind = _statement_kind(connection, query)
    if kind == "EXPLAIN":
        query = _explained(connection, query)
    elif kind != "SELECT":
        raise _refusal(kind)
    _check_bodies(connection, query)


def _statement_kind(connection: Any, query: str) -> str:
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise SqlError(one_line(error)) from None
    if not statements:
        raise SqlRefused("there is no statement")
    if len(statements) > 1:
        raise SqlRefused(f"one statement at a time, not {len(statements)}")
    return str(statements[0].type).rpartition(".")[2]


def _refusal(kind: str) -> SqlRefused:
    if kind == "MULTI":  # DuckDB would first create a type of the values
        return SqlRefused("PIVOT needs the values of its columns: PIVOT … ON column IN ('a', 'b') …")
    return SqlRefused(f"{kind} is not allowed; queries are SELECT, WITH, FROM, DESCRIBE, SUMMARIZE, EXPLAIN")


def _explained(connection: Any, query: str) -> str:
    """Return the query that is explained.  EXPLAIN ANALYZE runs what it explains, COPY too."""
    words = _EXPLAIN.match(query)
    rest = query[words.end() :] if words else ""
    for text in (rest, _OPTIONS.sub("", rest, count=1)):
        try:
            kind = _statement_kind(connection, text)
        except SqlError:  # the options of EXPLAIN are no part of the query
            continue
        if kind != "SELECT":
            raise _refusal(kind)
        return text
    raise SqlRefused("EXPLAIN takes one query")


def _check_bodies(connection: Any, query: str) -> None:
    """Raise SqlRefused if a WITH of the query does more than read: INSERT, UPDATE, DELETE or COPY."""
    text = _syntax_tree(connection, query)
    kinds = _BODY_KIND.findall(text)
    if text.count(_BODY) != len(kinds):
        raise SqlRefused("the body of a WITH is not a query")
    for kind in kinds:
        if kind not in _READING_BODIES:
            raise _refusal(kind.removesuffix("_QUERY"))


def _syntax_tree(connection: Any, query: str) -> str:
    """Return the syntax tree of a query as JSON; raise SqlError if it has none."""
    try:
        [(text,)] = connection.execute("SELECT json_serialize_sql(?)::VARCHAR", [query]).fetchall()
    except duckdb.Error as error:
        raise SqlError(one_line(error)) from None
    return str(text)


def relation_names(connection: Any, query: str) -> list[RelationName]:
    """Return the relations that a query names and does not define itself."""
    try:
        texts = connection.get_table_names(query, qualified=True)
    except duckdb.BinderException as error:  # USING and NATURAL need the columns, which are not known yet
        found = set(_parsed_names(connection, query))
        if not found:
            raise SqlError(one_line(error)) from None
        return sorted(found, key=str)
    except duckdb.Error as error:
        raise SqlError(one_line(error)) from None
    found = {_name(*parsed.groups(default="")) for text in texts if (parsed := _QUALIFIED.match(text))}
    return sorted(found, key=str)


def _parsed_names(connection: Any, query: str) -> Iterator[RelationName]:
    """Yield the relations in the syntax tree of a query, also those that it defines itself."""
    waiting: list[Any] = [json.loads(_syntax_tree(connection, query))]
    while waiting:
        match waiting.pop():
            case {"type": "BASE_TABLE", "schema_name": str(schema), "table_name": str(name)} as node:
                yield RelationName(schema.lower(), name)
                waiting += node.values()
            case dict() as node:
                waiting += node.values()
            case list() as nodes:
                waiting += nodes


def add_relations(connection: Any, names: Iterable[RelationName], resolve: Resolver, opener: Opener) -> None:
    """Make the relations that exist known to the connection; raise SqlError if two differ only in case."""
    spelled: dict[str, RelationName] = {}
    for name in names:
        other = spelled.setdefault(str(name).lower(), name)
        if other != name:
            raise SqlError(f"{other} and {name} differ only in case, which SQL ignores; query one at a time")
        found = resolve(name)
        if found is None:
            continue
        dataset = RelationDataset(relation_of(name, found), opener)
        if not name.schema:
            connection.register(name.name, dataset)
            continue
        place = f"{name.schema}/{name.name}"
        connection.register(place, dataset)
        last = " QUALIFY row_number() OVER (PARTITION BY key ORDER BY revision DESC) = 1"
        rows = f"SELECT * FROM {quoted(place)}{last if name.schema == KV else ''}"
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name.schema)}")
        connection.execute(f"CREATE OR REPLACE VIEW {quoted(name.schema)}.{quoted(name.name)} AS {rows}")


def quoted(identifier: str) -> str:
    """Return an identifier as SQL writes it."""
    return '"' + identifier.replace('"', '""') + '"'


def one_line(error: BaseException) -> str:
    """Return an error of DuckDB as one line: its first lines, without the excerpt of the query."""
    text = str(error).partition("\n\nLINE ")[0].partition("\nLINE ")[0]
    hint = "; a path of ->>, as in data->>'$.a.b', gives NULL for it" if "Malformed JSON" in text else ""
    return (re.sub(r"\s+", " ", text).strip() or type(error).__name__) + hint


def _name(schema: str, name: str) -> RelationName:
    return RelationName(_unquoted(schema).lower(), _unquoted(name))


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text
