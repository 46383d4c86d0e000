"""Generates the `*_pb2.py` modules from the `.proto` files: `python protos/generate.py`.

The generator's version is pinned, so that the modules in the repository are the same whoever makes
them.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import sys
from typing import Optional

GRPCIO_TOOLS = '1.62.3'

_FOLDER = pathlib.Path(__file__).resolve().parent
_ROOT = _FOLDER.parent


def missing_generator() -> Optional[str]:
    """What keeps the modules from being generated; None when nothing does."""
    try:
        version = importlib.metadata.version('grpcio-tools')
    except importlib.metadata.PackageNotFoundError:
        version = 'not installed'
    if version != GRPCIO_TOOLS:
        return (
            f'grpcio-tools is {version}; expected {GRPCIO_TOOLS}: '
            f'pip install grpcio-tools=={GRPCIO_TOOLS}'
        )
    return None


def generate(output: pathlib.Path) -> None:
    """Writes `protos/*_pb2.py` into a folder.

    Args:
        output: an existing folder; the modules go to its subfolder `protos`.

    Raises:
        RuntimeError: the generator is missing or of another version, or a `.proto` file is wrong
            (the generator has then said what, on standard error).
    """
    reason = missing_generator()
    if reason:
        raise RuntimeError(reason)
    # Its own package, needed for nothing else.
    from grpc_tools import protoc

    sources = sorted(str(path.relative_to(_ROOT)) for path in _FOLDER.glob('*.proto'))
    arguments = ['protoc', f'--proto_path={_ROOT}', f'--python_out={output}', *sources]
    if protoc.main(arguments) != 0:
        raise RuntimeError('protoc refused the .proto files.')


def main() -> int:
    """Generates the modules in place."""
    try:
        generate(_ROOT)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
