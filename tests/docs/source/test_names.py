"""Files, modules, tests and names that docstrings, comments and pages mention exist."""

import re
from collections.abc import Iterator
from functools import cache

from tests.kits.docs.prose import Prose, code_files, comments, docstrings, page_prose, project_files
from tests.kits.paths import ROOT

_FILE = re.compile(r"(?<![\w/.*<{-])([\w/-]+\.(?:py|pxd|md|mjs))(?![\w*])")
_MODULE = re.compile(r"(?<![\w/.-])((?:millstream|tests|benchmarks|examples)(?:\.[A-Za-z_]\w*)+)")
_TEST = re.compile(r"(?<![\w/])(test_\w+)\b(?![*.…\w])")
_NAME = re.compile(r"(?<!`)`{1,2}([A-Za-z_][\w.]*)(?:\(\))?`{1,2}")
_PROSE = re.compile(r'"""(?!\\).*?"""|(?:^|\s)# [^\n]*', re.DOTALL | re.MULTILINE)
_NOT_HERE = re.compile(r"Not here:(.*?)(?:\n\n|\Z)", re.DOTALL)

# Files of other projects and of readers.
_FOREIGN_FILES = {
    "PATH/TO/nats.py", "archive.md", "nats.py", "pack.py", "table.md", "take.py", "test_compatibility.py",
    "test_js.py", "test_packing.py", "transformations/payments.py",
}  # fmt: skip
# Names of other projects, and patterns for names.
_FOREIGN_NAMES = {
    "EventSource",
    "KEY_env",
    "KEY_file",
    "StreamingQueryProgress",
    "__pyx_f_",
    "gaierror",
    "nohup",
    "redaction",
    "regex",
}


@cache
def prose() -> tuple[Prose, ...]:
    def found() -> Iterator[Prose]:
        for path in code_files():
            yield from docstrings(path)
            yield from comments(path)
        # The changes name what existed at the time.
        yield from (each for each in page_prose() if not each.place.startswith("CHANGELOG.md"))

    return tuple(found())


@cache
def sources() -> dict[str, str]:
    return {each: (ROOT / each).read_text() for each in project_files() if each.endswith(".py")}


@cache
def words() -> frozenset[str]:
    """Return all words of the code but those of docstrings and comments."""
    found = {word for each in project_files() for word in re.findall(r"\w+", each)}
    for text in sources().values():
        found.update(re.findall(r"\w+", _PROSE.sub("", text)))
    for each in project_files():
        if each.endswith((".pxd", ".toml", ".mjs", ".js", ".html", "Makefile")):
            found.update(re.findall(r"\w+", (ROOT / each).read_text()))
    return frozenset(found)


@cache
def folders() -> frozenset[str]:
    return frozenset(
        "/".join(parts[:end])
        for parts in (each.split("/") for each in project_files())
        for end in range(1, len(parts))
    )


@cache
def is_module(name: str) -> bool:
    """Return whether a dotted name is a module of the project, or something that its module mentions."""
    root, *parts = name.split(".")
    base = "src/millstream" if root == "millstream" else root
    for end in range(len(parts), 0, -1):
        stem = "/".join([base, *parts[:end]])
        text = sources().get(f"{stem}.py", sources().get(f"{stem}/__init__.py"))
        if text is not None:
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", text) is not None
        if stem in folders():
            return end == len(parts)
    text = sources().get(f"{base}/__init__.py", "")
    return re.search(rf"\b{parts[0]}\b", text) is not None or name in literals()


@cache
def literals() -> str:
    """Return the lines of the code that have a text with a dot: keys and names of files look like modules."""
    lines = (line for text in sources().values() for line in text.splitlines() if '"' in line and "." in line)
    return "\n".join(lines)


def test_every_file_that_is_named_exists() -> None:
    ends = {
        "/".join(parts[at:])
        for parts in (each.split("/") for each in project_files())
        for at in range(len(parts))
    } | _FOREIGN_FILES
    missing = [
        (each.place, name) for each in prose() for name in _FILE.findall(each.text) if name not in ends
    ]
    assert not missing


def test_every_module_that_is_named_exists() -> None:
    missing = [
        (each.place, name) for each in prose() for name in _MODULE.findall(each.text) if not is_module(name)
    ]
    assert not missing


def test_every_test_that_is_named_exists() -> None:
    texts = [*sources().values(), *(each.text for each in prose())]
    known = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
    known |= {each.rpartition("/")[2].removesuffix(".py") for each in sources()}
    missing = [
        (each.place, name)
        for each in prose()
        for name in _TEST.findall(each.text)
        if name not in known and not each.place.startswith("tests/conformance/upstream/")
    ]
    assert not missing


def test_every_name_in_backticks_occurs_in_the_code() -> None:
    known = words() | _FOREIGN_NAMES
    missing = [
        (each.place, name)
        for each in prose()
        if not each.place.partition(":")[0].endswith(".md")
        for name in _NAME.findall(each.text)
        if not all(part in known for part in name.split(".") if part)
    ]
    assert not missing


def test_what_a_module_leaves_to_others_names_them() -> None:
    """After "Not here:", each name in parentheses is a module, or a class or function of one."""
    known = {part for each in project_files() if each.startswith("src/") for part in re.split(r"[/.]", each)}
    for each, text in sources().items():
        if each.startswith("src/"):
            known.update(re.findall(r"(?:def|class) (\w+)", text))
            known.update(re.findall(r"^(\w+)\s*[:=]", text, flags=re.MULTILINE))
    missing = [
        (each.place, name)
        for path in code_files("src")
        for each in docstrings(path)
        for paragraph in _NOT_HERE.findall(each.text)
        for inner in re.findall(r"\(([^()]*)\)", paragraph)
        for name in re.findall(r"`+([\w./]+)`+", inner)
        if re.split(r"[/.]", name.removesuffix(".py").rstrip("/"))[-1] not in known
    ]
    assert not missing


def test_everything_that_is_imported_exists() -> None:
    """Imports of benchmarks and examples count, which no test runs, and those inside functions."""
    missing = []
    for each, text in sources().items():
        for module, names in re.findall(
            r"^\s*from ((?:millstream|tests|benchmarks|examples)[\w.]*) import (\([^)]*\)|[^\n(]*)",
            text,
            re.MULTILINE,
        ):
            bare = re.sub(r"#.*", "", names)
            for name in re.findall(r"(?<!as )\b([A-Za-z_]\w*)", re.sub(r"\bas \w+", "", bare)):
                if not is_module(f"{module}.{name}"):
                    missing.append((each, module, name))
    assert not missing
