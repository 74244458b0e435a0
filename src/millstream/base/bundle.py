"""One file with all that a process imports until it is ready: bytecode and regular expressions.

Python finds each module anew: it looks into folders, compares the times of two files and opens one of them,
some 50 µs for each of 300 modules.  Here one file has them all, and a module takes one look at the time and
the size of its source.

    bundle.write(path)    after everything was imported
    bundle.use(path)      in another process, before it is imported

The file is a copy of what stands elsewhere: without it, with another Python, and for a source that is not the
one it was made of, Python imports as ever.  It lies where Python keeps its own bytecode (``path_of``), and
whoever builds the package writes it.
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
    """Return where the bundle of this name lies, for this version of Python."""
    root = os.path.dirname(os.path.dirname(__file__))
    return os.path.join(root, "__pycache__", f"{name}.{sys.implementation.cache_tag}.bundle")


class _Loader(SourceFileLoader):
    """A module whose code is in the bundle; in all else it is one from a file, where tracebacks look."""

    def __init__(self, name: str, path: str, bundle: Bundle) -> None:
        super().__init__(name, path)
        self._bundle = bundle

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the bundle, or what Python finds if the bundle cannot be read any more."""
        return self._bundle.code(fullname) or super().get_code(fullname)


class Bundle:
    """Finds modules before Python looks for them; a part of ``sys.meta_path``."""

    _entries: dict[str, _Entry]

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = min(int.from_bytes(os.pread(self._file, _WORD, 0), "little"), os.fstat(self._file).st_size)
        self._start = _WORD + size
        python, self._entries, known = marshal.loads(os.pread(self._file, size, _WORD))
        if python != sys.version:
            raise ValueError("made by another Python")
        patterns.keep(known)

    def close(self) -> None:
        """Find nothing any more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        os.close(self._file)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is, if it is here and still what it was."""
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
        """Return the code of a module; None if the file is cut or damaged."""
        *_, offset, length = self._entries[name]
        try:
            code = marshal.loads(os.pread(self._file, length, self._start + offset))
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return code if isinstance(code, CodeType) else None


def use(path: str) -> Bundle | None:
    """Import from the bundle from now on, if there is one."""
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
    index = marshal.dumps((sys.version, entries, patterns.compiled()))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.{os.getpid()}"
    with open(beside, "wb") as file:
        file.writelines([len(index).to_bytes(_WORD, "little"), index, *parts])
    os.replace(beside, path)


def _bytecode(spec: ModuleSpec | None, name: str) -> bytes | None:
    """Return the code of a module, b"" of a compiled one; None of one that is no file of its own."""
    if spec is None or spec.name != name or not spec.origin:
        return None
    if isinstance(spec.loader, ExtensionFileLoader):
        return b""
    if not isinstance(spec.loader, SourceFileLoader) or len(spec.submodule_search_locations or ()) > 1:
        return None
    code = spec.loader.get_code(name)
    return None if code is None else marshal.dumps(code)
