"""A class name means one thing in the whole project.

Names that begin with an underscore belong to their module and are left out.
"""

import ast
from collections import defaultdict

from tests.kits.paths import SOURCE


def test_every_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
