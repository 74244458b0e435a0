"""A file with all modules and regular expressions that a process imports until it is ready.

Python searches for each module: it lists folders, compares the times of two files and opens one of them,
about 50 µs for each of 300 modules.  A bundle has the bytecode of all of them in one file; a module only
costs a check of the time and size of its source.

    bundle.write(path)    after everything was imported
    bundle.use(path)      in another process, before it imports

The bundle is a copy: without it, with another version of Python, for a source that has changed, or if the
bundle itself was copied or moved with its package, Python imports as usual.  It is stored where Python keeps
its own bytecode (``path_of``); the build of the package writes it.
"""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import CodeType
from typing import TYPE_CHECKING, Final

from millstream.base import patterns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_WORD: Final = 8  # bytes at the start that give the size of the index

# Of a module: its file, when that was changed and how large it is, where Python keeps its bytecode, the
# folder of a package, where its code lies here and how long that is (0 for a compiled module).
_Entry = tuple[str, int, int, str | None, str, int, int]


def path_of(name: str) -> str:
    """Return the path of the bundle of this name for this version of Python."""
    root = os.path.dirname(os.path.dirname(__file__))
    return os.path.join(root, "__pycache__", f"{name}.{sys.implementation.cache_tag}.bundle")


class _Loader(SourceFileLoader):
    """Load a module whose code is in the bundle; otherwise it behaves like a module from its file."""

    def __init__(self, name: str, path: str, bundle: Bundle) -> None:
        super().__init__(name, path)
        self._bundle = bundle

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code from the bundle, or from the file if the bundle can no longer be read."""
        return self._bundle.code(fullname) or super().get_code(fullname)


class Bundle:
    """A finder for ``sys.meta_path`` that finds modules before Python searches for them."""

    _entries: dict[str, _Entry]

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = min(int.from_bytes(os.pread(self._file, _WORD, 0), "little"), os.fstat(self._file).st_size)
        self._start = _WORD + size
        python, place, self._entries, known = marshal.loads(os.pread(self._file, size, _WORD))
        if python != sys.version:
            raise ValueError("made by another Python")
        if place != os.path.realpath(path):
            raise ValueError("made for the package at another place")
        patterns.keep(known)

    def close(self) -> None:
        """Stop finding modules, and close the file."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        os.close(self._file)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module, or None if it is not in the bundle or its file has changed."""
        entry = self._entries.get(fullname)
        if entry is None:
            return None
        origin, changed, size, cached, folder, _, length = entry
        try:
            now = os.stat(origin)
        except OSError:
            return None
        if now.st_mtime_ns != changed or now.st_size != size:
            return None
        loader = _Loader(fullname, origin, self) if length else ExtensionFileLoader(fullname, origin)
        spec = ModuleSpec(fullname, loader, origin=origin, is_package=bool(folder))
        spec.has_location = True
        spec.cached = cached
        if folder:
            spec.submodule_search_locations = [folder]
        return spec

    def code(self, name: str) -> CodeType | None:
        """Return the code of a module, or None if the file is cut or damaged."""
        *_, offset, length = self._entries[name]
        try:
            code = marshal.loads(os.pread(self._file, length, self._start + offset))
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None


def use(path: str) -> Bundle | None:
    """Import from the bundle from now on; return None if there is no usable bundle."""
    try:
        bundle = Bundle(path)
    except (OSError, EOFError, ValueError, TypeError):
        return None
    sys.meta_path.insert(0, bundle)
    return bundle


def write(path: str) -> None:
    """Write a bundle of all modules that this process has imported from files."""
    entries: dict[str, _Entry] = {}
    parts: list[bytes] = []
    offset = 0
    for name, module in sorted(sys.modules.items()):
        spec: ModuleSpec | None = getattr(module, "__spec__", None)
        code = _bytecode(spec, name)
        if spec is None or code is None or spec.origin is None:
            continue
        found = os.stat(spec.origin)
        folder = next(iter(spec.submodule_search_locations or ()), "")
        entries[name] = (
            spec.origin,
            found.st_mtime_ns,
            found.st_size,
            spec.cached,
            folder,
            offset,
            len(code),
        )
        parts.append(code)
        offset += len(code)
    index = marshal.dumps((sys.version, os.path.realpath(path), entries, patterns.compiled()))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "wb") as file:
        file.writelines([len(index).to_bytes(_WORD, "little"), index, *parts])
    os.replace(beside, path)


def _bytecode(spec: ModuleSpec | None, name: str) -> bytes | None:
    """Return the code of a module, b"" for a compiled one, or None if it does not come from one file."""
    if spec is None or spec.name != name or not spec.origin:
        return None
    if isinstance(spec.loader, ExtensionFileLoader):
        return b""
    if not isinstance(spec.loader, SourceFileLoader) or len(spec.submodule_search_locations or ()) > 1:
        return None
    code = spec.loader.get_code(name)
    return None if code is None else marshal.dumps(code)
