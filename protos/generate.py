"""Generator of modules and documentation from the `.proto` files: `python -m protos.generate`.

The generator writes `protos/*_pb2.py`, their types `protos/*_pb2.pyi`, and `docs/config.md`.

The version of protoc is pinned, so that the generated modules are the same for all developers.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import sys
import tempfile
from typing import Optional, Sequence

from google.protobuf import descriptor_pb2

# Later ones need protobuf 5, which TensorFlow 2.15 refuses.
GRPCIO_TOOLS = '1.62.3'

_FOLDER = pathlib.Path(__file__).resolve().parent
_ROOT = _FOLDER.parent
PAGE = _ROOT / 'docs' / 'config.md'


def missing_generator() -> Optional[str]:
    """Return the reason why modules cannot be generated; None if they can."""
    try:
        version = importlib.metadata.version('grpcio-tools')
    except importlib.metadata.PackageNotFoundError:
        version = 'not installed'
    if version != GRPCIO_TOOLS:
        return (
            f'grpcio-tools is {version}; expected {GRPCIO_TOOLS}, which needs protobuf 4 and so '
            f'TensorFlow 2.15: pip install grpcio-tools=={GRPCIO_TOOLS} (Python 3.9 to 3.11)'
        )
    return None


def generate(output: pathlib.Path) -> None:
    """Write `protos/*_pb2.py` and `protos/*_pb2.pyi` into a folder.

    Args:
        output: an existing folder; the modules go to its subfolder `protos`.

    Raises:
        RuntimeError: the generator is missing or of another version, or a `.proto` file is wrong
            (the generator prints the reason on standard error).
    """
    _protoc([f'--python_out={output}', f'--pyi_out={output}'])


def page() -> str:
    """Generate the text of `docs/config.md`.

    Raises:
        RuntimeError: the generator is missing or of another version, or a `.proto` file is wrong.
    """
    # Import here: the page shows the rules of `rules_pb2`, which `generate` may have just written.
    from tools import config_page

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'schema'
        _protoc(['--include_source_info', f'--descriptor_set_out={path}'])
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())
    return config_page.render(config_page.read_schema(files))


def _protoc(options: Sequence[str]) -> None:
    reason = missing_generator()
    if reason:
        raise RuntimeError(reason)
    # Import here: only the generation needs this package.
    from grpc_tools import protoc

    # The published messages that `rules.proto` extends come with the generator.
    includes = pathlib.Path(protoc.__file__).parent / '_proto'
    sources = sorted(str(path.relative_to(_ROOT)) for path in _FOLDER.glob('*.proto'))
    paths = [f'--proto_path={_ROOT}', f'--proto_path={includes}']
    if protoc.main(['protoc', *paths, *options, *sources]) != 0:
        raise RuntimeError(f'protoc refused one of {", ".join(sources)}.')


def main() -> int:
    """Generate the modules and the page in place."""
    try:
        generate(_ROOT)
        PAGE.write_text(page(), encoding='utf-8')
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
