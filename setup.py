"""Compile the modules on the path of a message.

Everything else about the package is in ``pyproject.toml``; the list of compiled modules is in
``src/millstream/base/build.py``, where the running program reads it too.  A C compile that fails,
fails the build: only ``MILLSTREAM_PURE=1`` gives a package without compiled modules.
"""

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer

HERE = Path(__file__).parent
build = runpy.run_path(str(HERE / "src/millstream/base/build.py"))

FLAGS = ["-O2", "-g0", "-fno-strict-aliasing", "-Wno-sign-compare"]
FLAGS += ["-Werror=incompatible-pointer-types"]  # gcc 14 refuses it, too
if "gcc" in (os.environ.get("CC") or sysconfig.get_config_var("CC") or ""):
    # A fifth of gcc's time goes into these, and the path of a message has as many instructions without.
    FLAGS += ["-fno-code-hoisting", "-fno-gcse", "-fno-ipa-cp", "-fno-tree-pre", "-fno-tree-vrp"]
X86_FLAGS = ["-mcrc32"]  # allows the instruction; no compiler uses it of its own accord
# For `make fuzz`: an access outside of what was allocated, or undefined arithmetic, ends the process.
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
if os.environ.get("MILLSTREAM_SANITIZE") == "1":
    FLAGS = [*FLAGS, "-O1", "-g1", "-fno-omit-frame-pointer", *SANITIZERS]
    LINK_FLAGS = SANITIZERS
else:
    LINK_FLAGS = []


TRANSLATION: dict[str, Any] = {
    "build_dir": "build/cython",
    "include_path": ["src"],
    "quiet": True,
    "compiler_directives": {
        "language_level": 3,
        # Types come from the .pxd beside each module, never from annotations: an annotation
        # `x: int` must keep meaning a Python int of any size.
        "annotation_typing": False,
        # What is unreachable when compiled (`if not cython.compiled`) is there on purpose.
        "warn.unreachable": False,
        # Nothing compiled is pickled; the code for it is a fifth of what the C compiler would get.
        "auto_pickle": False,
        # Functions of compiled modules are plain functions of C, without a signature for `inspect`.
        "binding": False,
    },
}
C_ENDS_WITH = b"#endif /* Py_PYTHON_H */\n"  # what Cython writes last
SAY_EVERY_S = 3.0


def extensions() -> list[Extension]:
    """Return the modules to compile, as their Python source."""
    if os.environ.get(build["PURE_SWITCH"]) == "1":
        return []
    modules = [
        Extension(
            name,
            [f"src/{name.replace('.', '/')}.py"],
            extra_compile_args=FLAGS + (X86_FLAGS if name in build["X86_MODULES"] else []),
            extra_link_args=LINK_FLAGS,
        )
        for name in build["COMPILED_MODULES"]
    ]
    # The large ones first, so that no core waits for the last one.
    return sorted(modules, key=lambda module: Path(module.sources[0]).stat().st_size, reverse=True)


def make_whole(path: str, make: Callable[[str], object]) -> None:
    """Make a file under another name, and rename it when it is finished.

    A build decides by its time whether a file is up to date, so one that is killed leaves no part of a file
    under the name.
    """
    unfinished = f"{path}.unfinished"
    Path(unfinished).unlink(missing_ok=True)
    make(unfinished)
    os.replace(unfinished, path)


def drop_unfinished_translation(ext: Extension) -> None:
    """Remove a C file that Cython has not written to its end: it looks newer than its source."""
    [source] = ext.sources
    path = Path(TRANSLATION["build_dir"], source).with_suffix(".c")
    if path.exists() and not path.read_bytes().endswith(C_ENDS_WITH):
        path.unlink()


def end_with_parent() -> None:
    """End this process when the build is killed; it would wait for work forever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Compile(build_ext):
    """Translates each module to C and compiles that, several at a time, and says how far it is.

    Cython is Python, so it runs in processes; the C compiler is a process, so threads wait for it.
    """

    translators: Executor
    counting = threading.Lock()
    missing = 0  # modules that were not there before
    compiled = 0
    checked = 0  # modules that are up to date now
    said = 0.0

    def build_extensions(self) -> None:
        if not self.extensions:
            return
        from Cython.Build import cythonize

        self.missing = sum(not Path(self.get_ext_fullpath(ext.name)).exists() for ext in self.extensions)
        if self.missing:
            self.say(f"compiling {self.missing} modules")
        link = self.compiler.link_shared_object

        def link_whole(objects: list[str], path: str, **options: Any) -> None:
            make_whole(path, lambda unfinished: link(objects, unfinished, **options))

        self.compiler.link_shared_object = link_whole
        # A fork is a child of this process and ends with it.  From Python 3.14 on, others are the default.
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(self.parallel, fork, end_with_parent) as self.translators:
            self.translators.submit(cythonize, [], **TRANSLATION).result()  # forks before there are threads
            super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        from Cython.Build import cythonize

        drop_unfinished_translation(ext)
        [translated] = self.translators.submit(cythonize, [ext], **TRANSLATION).result()
        ext.sources = translated.sources
        path = Path(self.get_ext_fullpath(ext.name))
        before = path.stat().st_mtime_ns if path.exists() else 0
        super().build_extension(ext)
        with self.counting:
            self.checked += 1
            self.compiled += path.stat().st_mtime_ns != before
            last = self.checked == len(self.extensions)
            if self.compiled and (last or time.monotonic() - self.said > SAY_EVERY_S):
                # with some modules there already, nobody knows how many of those are out of date
                fresh = self.missing == len(self.extensions)
                self.say(f"compiled {self.compiled}{f' of {self.missing}' if fresh else ''} modules")

    def copy_file(self, infile: str, outfile: str, *options: Any, **named: Any) -> tuple[str, bool]:
        """Copy a module beside its source, where `--inplace` wants it."""
        if not self.force and not newer(infile, outfile):
            return outfile, False
        copy = super().copy_file
        make_whole(outfile, lambda unfinished: copy(infile, unfinished, *options, **named))
        return outfile, True

    def say(self, text: str) -> None:
        self.said = time.monotonic()
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":  # a process of Cython's may import this file
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": Compile},
        options={"build_ext": {"parallel": os.cpu_count() or 1}},
    )
