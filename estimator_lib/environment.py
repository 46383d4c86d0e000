"""The versions of Python and TensorFlow, the processor's kernels, and the memory of the machine.

The versions are checked, and the kernels chosen, before anything else of the project is imported.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.metadata
import importlib.util
import logging
import os
import platform
import re
import sys
from typing import Dict, FrozenSet, Iterable, Iterator, NamedTuple, Optional, Tuple

PYTHONS = ((3, 9), (3, 13))
TENSORFLOWS = ((2, 15), (2, 21))
# The last TensorFlow with `tf.estimator`, which is installed below Python 3.12, and the release of
# `tensorflow-estimator` that works with all of them.
REFERENCE = '2.15'
# The names of this package and of its main command in `setup.py`.
PACKAGE = 'vision-model-fns'
FRONT_DOOR = 'run-train-eval'
# The modes of the front door (`--mode`), the default first.
MODES = (
    'train_and_evaluate',
    'train',
    'evaluate',
    'export',
    'predict',
    'check',
    'benchmark',
    'compare',
    'replay',
    'create_config',
)
# The usual names of TensorFlow's distribution, which are looked up first because that is fast.
DISTRIBUTIONS = ('tensorflow', 'tensorflow-cpu', 'tensorflow-intel', 'tensorflow-macos')

# Control groups, which limit the memory of containers and of the jobs of a scheduler; the groups
# of this process, and the file of a group's limit by the folder of all groups: of version 2 and 1.
_CONTROL_GROUPS = '/sys/fs/cgroup'
_OWN_GROUPS = '/proc/self/cgroup'
_MEMORY_LIMITS = {'': 'memory.max', 'memory': 'memory.limit_in_bytes'}
# Numbers of this process, and the processor, on Linux.
_PROCESS = '/proc/self/status'
_CPU_INFO = '/proc/cpuinfo'

# TensorFlow reads it at import: 1 runs the kernels of oneDNN, 0 its own.
KERNELS = 'TF_ENABLE_ONEDNN_OPTS'


class Processor(NamedTuple):
    """Kind of x86 processor, with the faster kernels that were measured on it.

    Attributes:
        flag: the instruction set that tells the kind, by its name in Linux.
        name: the kind, for people.
        kernels: value of `TF_ENABLE_ONEDNN_OPTS`.
        has_faster_products: whether the gradients of pointwise convolutions are faster as matrix
            products.
    """

    flag: str
    name: str
    kernels: str
    has_faster_products: bool


# The first kind that fits counts. TensorFlow itself runs oneDNN's kernels from `avx512_vnni` on. On
# AVX2 they take 0.45 to 0.82 of the time of TensorFlow's own: docs/performance.md, "Kernels of a
# processor". Processors without AVX2 were not measured, and keep TensorFlow's choice.
PROCESSORS = (
    Processor('avx512_vnni', 'AVX-512 VNNI', '1', has_faster_products=False),  # not measured
    Processor('avx2', 'AVX2', '1', has_faster_products=True),
)
# For the program that serves an export, which does not import this package.
SERVER_VARIABLES = {KERNELS: '1'}
# oneDNN has a layout of weights of its own. It copies constants into it once, and variables at each
# request, unless this is 1. Never set it where a process trains: it would compute with old weights.
FROZEN_WEIGHTS = 'TF_ONEDNN_ASSUME_FROZEN_WEIGHTS'


def front_door_command() -> str:
    """Return the command that starts the front door: the script, if that is running."""
    script = sys.argv[0]
    return f'python {script}' if os.path.basename(script) == 'run_train_eval.py' else FRONT_DOOR


def versions() -> str:
    """Describe the versions of Python, TensorFlow and this package."""
    texts = [f'Python {platform.python_version()}', f'TensorFlow {tensorflow_version()}']
    version = _distribution_version(PACKAGE)
    if version is not None:
        texts.append(f'{PACKAGE} {version}')
    return ', '.join(texts)


def version_numbers() -> Dict[str, Optional[str]]:
    """Return the versions of Python, this package and what it computes with; None: not known."""
    names = ('tensorflow-estimator', 'numpy', 'protobuf', PACKAGE)
    return {
        'python': platform.python_version(),
        'tensorflow': tensorflow_version(),
        **{name: _distribution_version(name) for name in names},
    }


def package_version() -> str:
    """Return the version of this package; of a folder that is not installed, `unknown`."""
    return _distribution_version(PACKAGE) or 'unknown'


def memory_bytes() -> int:
    """Return the memory of this machine, or of the container or job that this is in, in bytes."""
    # Of the machine, which a container sees as well: its own limit is in the files below.
    sizes = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
    for path in _limit_files():
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            # Without a limit version 2 has the word `max`, which is no number; version 1 has a huge
            # number.
            sizes.append(int(file.read()))
    return min(sizes)


def _limit_files() -> Iterator[str]:
    """Yield the files of the memory limits of this process, of each group that it is in."""
    for folder, name in _MEMORY_LIMITS.items():
        group = _own_group(folder)
        while True:
            yield os.path.join(_CONTROL_GROUPS, folder, group, name)
            if not group:
                break
            group = os.path.dirname(group)


def _own_group(controller: str) -> str:
    """Return the path of the control group of this process, without the first slash."""
    with contextlib.suppress(OSError), open(_OWN_GROUPS) as file:
        # Such as `4:memory:/job_7/step_0`, and `0::/job_7/step_0` of version 2.
        for line in file:
            _, controllers, path = line.rstrip('\n').split(':', 2)
            if controller in controllers.split(','):
                return path.strip('/')
    return ''


def peak_memory_bytes() -> Optional[int]:
    """Return the peak of this process's resident memory, in bytes; None on Windows."""
    # On Linux, `ru_maxrss` begins with the memory of the parent.
    peak = _status_bytes('VmHWM:')
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Bytes on macOS, KiB on Linux.
    return peak if sys.platform == 'darwin' else 1024 * peak


def resident_memory_bytes() -> Optional[int]:
    """Return this process's resident memory, in bytes; None where the system does not tell."""
    return _status_bytes('VmRSS:')


def _status_bytes(key: str) -> Optional[int]:
    """Return a size from the status file of this process; None without such a file or key."""
    with contextlib.suppress(OSError), open(_PROCESS) as file:
        for line in file:
            if line.startswith(key):
                return 1024 * int(line.split()[1])
    return None


def release_free_memory() -> None:
    """Return memory that is free to the system, where the C library can.

    The threads of TensorFlow leave parts of it free in many arenas of glibc. Without this call each
    evaluation of a long run adds some 0.5 MB to the resident memory, and with it 3 kB.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another system, or another C library
        ctypes.CDLL(None).malloc_trim(0)


def cpu_flags(path: str = _CPU_INFO) -> FrozenSet[str]:
    """Return the instruction sets of the processor by their names in Linux.

    Args:
        path: path of the kernel's description of the processors.

    Returns:
        The names; empty where there is no such file.
    """
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            name, _, value = line.partition(':')
            if name.strip() == 'flags':
                return frozenset(value.split())
    return frozenset()


def find_processor() -> Optional[Processor]:
    """Return the kind of this processor; None if no kind of `PROCESSORS` fits."""
    flags = cpu_flags()
    return next((each for each in PROCESSORS if each.flag in flags), None)


def choose_kernels() -> None:
    """Choose the kernels that are fastest on this processor, unless the environment names some.

    TensorFlow reads the choice when it is imported. Where it has been imported before this package,
    and runs slower kernels, a warning says so.
    """
    processor = find_processor()
    if processor is None or KERNELS in os.environ:
        return
    if 'tensorflow' not in sys.modules:
        os.environ[KERNELS] = processor.kernels
    elif _runs_onednn() != (processor.kernels == '1'):
        logging.getLogger('estimator_lib').warning(
            'TensorFlow was imported before this package, so it runs kernels that are slower on '
            'this processor (%s); import %s first, or set %s=%s in the environment',
            *(processor.name, __package__, KERNELS, processor.kernels),
        )


def describe_kernels() -> str:
    """Say which kernels TensorFlow runs, and why, for the first lines of a log."""
    processor, value = find_processor(), os.environ.get(KERNELS)
    kernels = "oneDNN's" if value == '1' else "TensorFlow's own"
    if value is None:
        return "kernels: TensorFlow's choice; nothing was measured on this kind of processor"
    if processor is None or value != processor.kernels:
        return f'kernels: {kernels}, as {KERNELS}={value} says'
    return f'kernels: {kernels}, the fastest on this processor ({processor.name})'


def _runs_onednn() -> bool:
    """Return whether the TensorFlow that is imported runs oneDNN's kernels."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def check() -> None:
    """Check the versions of Python and of the packages; the error is one plain sentence.

    TensorFlow's version is read without importing it, so that bad flags are reported at once. While
    `python -m` looks for a program of this package no code can catch the error. The sentence is
    then printed, and the exit status is 2.

    Raises:
        ImportError: a version of Python or of a package is not supported.
        SystemExit: the same, while `python -m` looks for a program of this package.
    """
    problem = _problem()
    if problem and sys.argv[:1] == ['-m']:
        print(f'error: {problem}', file=sys.stderr)
        sys.exit(2)
    if problem:
        raise ImportError(problem)


def _problem() -> Optional[str]:
    return _python_problem() or _tensorflow_problem() or _estimator_problem()


def _python_problem() -> Optional[str]:
    least, most = PYTHONS
    if least <= sys.version_info[:2] <= most:
        return None
    return (
        f'This project needs Python {_dotted(least)} to {_dotted(most)}, and this is Python '
        f'{_dotted(sys.version_info[:2])}: TensorFlow {_supported()} have no builds for it.'
    )


def _tensorflow_problem() -> Optional[str]:
    version = tensorflow_version()
    least, most = TENSORFLOWS
    if version is not None and least <= release(version) <= most:
        return _protobuf_problem(version)
    present = 'there is none here' if version is None else f'this is TensorFlow {version}'
    best = REFERENCE if sys.version_info < (3, 12) else _dotted(most)
    return (
        f'This project needs TensorFlow {_supported()}, and {present}: '
        f'pip install "tensorflow=={best}.*".'
    )


def _protobuf_problem(tensorflow: str) -> Optional[str]:
    """Say that TensorFlow 2.20 cannot write graphs with protobuf 7, which its metadata allows."""
    if release(tensorflow) != (2, 20):
        return None
    protobuf = _distribution_version('protobuf')
    if protobuf is None or release(protobuf) < (7,):
        return None
    return (
        f'TensorFlow {tensorflow} does not work with protobuf 7, and this is protobuf {protobuf}: '
        'pip install "protobuf<7".'
    )


def _estimator_problem() -> Optional[str]:
    version = _distribution_version('tensorflow-estimator')
    if version is not None and _dotted(release(version)) == REFERENCE:
        return None
    if version is None and importlib.util.find_spec('tensorflow_estimator') is not None:
        return None  # a build from source, which does not tell its version
    present = 'there is none here' if version is None else f'this is {version}'
    return (
        f'This project needs tensorflow-estimator {REFERENCE}, whatever TensorFlow is installed, '
        f'and {present}: pip install "tensorflow-estimator=={REFERENCE}.*".'
    )


def release(version: str) -> Tuple[int, ...]:
    """Return major and minor number of a version such as `2.15.1` or `2.21.0-rc1`."""
    return tuple(int(number) for number in re.findall(r'\d+', version)[:2])


def _dotted(numbers: Iterable[int]) -> str:
    return '.'.join(str(number) for number in numbers)


def _supported() -> str:
    return ' to '.join(_dotted(numbers) for numbers in TENSORFLOWS)


def _distribution_version(name: str) -> Optional[str]:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def tensorflow_version() -> Optional[str]:
    """Return the version that `import tensorflow` gives; None if there is no such module."""
    for name in DISTRIBUTIONS:
        version = _distribution_version(name)
        if version is not None:
            return version
    if importlib.util.find_spec('tensorflow') is None:
        return None
    # The build of a vendor may have another name.
    for distribution in importlib.metadata.distributions():
        if 'tensorflow' in (distribution.read_text('top_level.txt') or '').split():
            return distribution.version
    # A build from source may be on the path without a distribution; only the module has its
    # version.
    return getattr(importlib.import_module('tensorflow'), '__version__', None)


@contextlib.contextmanager
def bypass_setuptools() -> Iterator[None]:
    """Make `import distutils` in the block give Python's own package, where it has one.

    TensorFlow's import needs one path of `distutils`. Setuptools replaces that package by its own
    copy, which imports all of setuptools and takes 0.2 s of the start.
    """
    hack = sys.modules.get('_distutils_hack')  # None if setuptools is not installed
    # Python 3.12 and later have no `distutils`: there the copy of setuptools is the only one.
    finder = getattr(hack, 'DISTUTILS_FINDER', None)
    if finder not in sys.meta_path or not importlib.machinery.PathFinder.find_spec('distutils'):
        yield
        return
    place = sys.meta_path.index(finder)
    sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.meta_path.insert(place, finder)
