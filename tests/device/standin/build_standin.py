"""Build the stand-in accelerator into a cached folder, once for each version of its source: python build_standin.py

The folder, which is printed, is all that Python needs in its path.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).parent / "standin"


class BuildError(Exception):
    """There is no C++ compiler, or no headers of Python."""


def build() -> Path:
    """Return the folder of the built package; build it if it is not in the cache. Safe in several processes."""
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    if compiler is None:
        raise BuildError("no C++ compiler: install g++, or set CXX")
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        raise BuildError("no headers of Python: install python3-dev")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman-standin"
    cache.mkdir(parents=True, exist_ok=True)
    library = cache / f"{_hash(PACKAGE / 'standin.cpp')}.so"
    folder = cache / _hash(PACKAGE / "standin.cpp", *sorted(PACKAGE.glob("*.py")))
    with (cache / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as place:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(compiler, Path(place) / library.name)
            (Path(place) / library.name).rename(library)
        if not folder.exists():
            _assemble(library, Path(place) / folder.name)
            (Path(place) / folder.name).rename(folder)
    return folder


def _hash(*files: Path) -> str:
    import torch

    versions = f"{torch.__version__} {sys.implementation.cache_tag} {sysconfig.get_platform()}"
    return hashlib.sha256(b"\0".join([versions.encode(), *(file.read_bytes() for file in files)])).hexdigest()[:16]


def _compile(compiler: str, library: Path) -> None:
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    command = [compiler, "-shared", "-fPIC", "-O0", "-std=c++20", "-w", str(PACKAGE / "standin.cpp")]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    for path in [*include_paths(), sysconfig.get_paths()["include"]]:
        command += ["-isystem", path]
    for path in library_paths():
        command += [f"-L{path}", f"-Wl,-rpath,{path}"]
    command += ["-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_python", "-o", str(library)]
    subprocess.run(command, check=True)


def _assemble(library: Path, folder: Path) -> None:
    """Make a folder like one into which the package is installed."""
    package, info = folder / "standin", folder / "standin-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    for file in PACKAGE.glob("*.py"):
        shutil.copy(file, package)
    shutil.copy(library, package / "standin_c.so")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: standin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nstandin = standin:register\n")


if __name__ == "__main__":
    print(build())
