"""docs/reliability.md names every function that removes, replaces, truncates or overwrites a file."""

import ast
import re
from collections.abc import Iterator

from tests.kits.paths import ROOT

PAGE = (ROOT / "docs/reliability.md").read_text()

# By the name of the method, whatever it is called on.
ALWAYS = {
    "unlink",
    "rmtree",
    "rmdir",
    "removedirs",
    "truncate",
    "ftruncate",
    "write_text",
    "write_bytes",
    "overwrite",
    "overwrite_all",
    "remove_ours",
    "rename",
    "renames",
    "exchange",
    "renameat2",
    "link",
    "symlink",
    "copytree",
    "put_away",
    "pwrite",
    "RotatingFileHandler",
}
# Only if called on a module, a file system or a folder: lists, texts and headers have these as well.
ON_FILES = {"remove", "replace", "move", "delete", "create"}
FILES = re.compile(
    r"(^|\.)_?(os|shutil|fs|disk|files|system|memory|owned|_FILES|STREAM|meta)$|^\(?_?[A-Z_]+\b.*FILES"
)
# Subjects of the configuration, and requests to a server.
OTHER = {"intake.rename", "self.intake.rename", "client.exchange", "self.exchange"}


def calls(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Every call with the name of the function that it stands in."""
    for child in ast.iter_child_nodes(tree):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}" if name else child.name
        if isinstance(child, ast.Call):
            yield name, child
        yield from calls(child, inner)


def changes_files(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Name):
        return func.id == "overwrite_all" or (func.id == "open" and opens_to_write(call, 1))
    if not isinstance(func, ast.Attribute) or func.attr not in ALWAYS | ON_FILES | {"open"}:
        return False
    receiver = ast.unparse(func.value)
    if func.attr == "open":
        if receiver == "os":
            return "O_CREAT" in ast.unparse(call) or "O_TRUNC" in ast.unparse(call)
        return opens_to_write(call, 0)
    if f"{receiver}.{func.attr}" in OTHER:
        return False
    if func.attr in ALWAYS:
        return True
    if func.attr == "replace" and len(call.args) == 1 and not call.keywords:
        return receiver not in ("msgspec.structs", "dataclasses")  # Path.replace; texts take two
    return func.attr in ON_FILES and FILES.search(receiver) is not None


def opens_to_write(call: ast.Call, position: int) -> bool:
    modes = [each.value for each in call.keywords if each.arg == "mode"] + call.args[position : position + 1]
    return any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and re.search("[wax+]", mode.value)
        for mode in modes
    )


def found() -> set[tuple[str, str]]:
    places = set()
    for folder in ("src/millstream", "examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, call in calls(ast.parse(path.read_text())):
                if changes_files(call):
                    places.add((str(path.relative_to(ROOT)).removeprefix("src/millstream/"), name))
    return places


def listed() -> set[tuple[str, str]]:
    places = set()
    for item in re.split(r"\n+\* |\n\n", PAGE):
        match = re.match(r"`([\w/]+\.py)` \(([^)]*)\):(.*)", item, re.DOTALL)
        if match:
            assert match[3].strip(), f"no condition: {item}"
            places |= {(match[1], name) for name in re.findall(r"`([\w.]+)`", match[2])}
    return places


def test_every_place_that_removes_or_overwrites_files_is_listed_with_its_condition() -> None:
    assert found() == listed()
