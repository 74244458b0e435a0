"""Compile the modules on the path of a message.

Everything else about the package is in ``pyproject.toml``; the list of compiled modules is in
``src/millstream/base/build.py``, where the running program reads it too.  A C compile that fails,
fails the build: only ``MILLSTREAM_PURE=1`` gives a package without compiled modules.
"""

import os
import runpy
import sys
import threading
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
build = runpy.run_path(str(HERE / "src/millstream/base/build.py"))

FLAGS = ["-O2", "-g0", "-fno-strict-aliasing", "-Wno-sign-compare"]
X86_FLAGS = ["-mcrc32"]  # allows the instruction; no compiler uses it of its own accord
# For `make fuzz`: an access outside of what was allocated, or undefined arithmetic, ends the process.
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
if os.environ.get("MILLSTREAM_SANITIZE") == "1":
    FLAGS = [*FLAGS, "-O1", "-g1", "-fno-omit-frame-pointer", *SANITIZERS]
    LINK_FLAGS = SANITIZERS
else:
    LINK_FLAGS = []


def extensions() -> list[Extension]:
    if os.environ.get(build["PURE_SWITCH"]) == "1":
        return []
    from Cython.Build import cythonize

    modules = [
        Extension(
            name,
            [f"src/{name.replace('.', '/')}.py"],
            extra_compile_args=FLAGS + (X86_FLAGS if name in build["X86_MODULES"] else []),
            extra_link_args=LINK_FLAGS,
        )
        for name in build["COMPILED_MODULES"]
    ]
    return cythonize(
        modules,
        build_dir="build/cython",
        include_path=["src"],
        nthreads=os.cpu_count() or 1,
        quiet=True,
        # Types come from the .pxd beside each module, never from annotations: an annotation
        # `x: int` must keep meaning a Python int of any size.
        # What is unreachable when compiled (`if not cython.compiled`) is there on purpose.
        compiler_directives={"language_level": 3, "annotation_typing": False, "warn.unreachable": False},
    )


class Compile(build_ext):
    """Compiles, and says how far it is: it takes a minute, and the C compiler says nothing."""

    done = 0
    counting = threading.Lock()

    def build_extension(self, ext: Extension) -> None:
        stale = not Path(self.get_ext_fullpath(ext.name)).exists()
        super().build_extension(ext)
        with self.counting:
            self.done += 1
            if stale and (self.done % 10 == 0 or self.done == len(self.extensions)):
                print(f"compiled {self.done} of {len(self.extensions)} modules", file=sys.stderr, flush=True)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": Compile},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
