"""The configs in the package: `--pipeline_config_path=builtin:bccd_ssd`."""

from __future__ import annotations

import pathlib
import re
from typing import Dict, List

from estimator_lib import errors

PREFIX = 'builtin:'

# In a checkout this is a link to `configs` in the root.
_FOLDER = pathlib.Path(__file__).resolve().parents[1] / 'configs'


def resolve(path: str) -> str:
    """Return the file of a config's path.

    Args:
        path: `builtin:NAME`, or any other path, which is returned as it is.

    Raises:
        errors.ConfigError: there is no config of that name; the message lists the known ones.
    """
    if not path.startswith(PREFIX):
        return path
    name = path[len(PREFIX) :]
    known = builtin_configs()
    if name.endswith('.config') and name not in known:
        name = name[: -len('.config')]
    if name in known:
        return str(known[name])
    hint = errors.did_you_mean(name, known).partition(' Known:')[0]
    lines = [f'{path}: the package has no config {name!r}{hint} There are, in {_FOLDER}:']
    raise errors.ConfigError('\n'.join([*lines, *(f'  {line}' for line in list_lines())]))


def list_lines() -> List[str]:
    """Return a line for each config of the package: its path and a summary."""
    return [f'{PREFIX}{name}  {_summary(file)}' for name, file in builtin_configs().items()]


def builtin_configs() -> Dict[str, pathlib.Path]:
    """Return the files of the package's configs by name, sorted.

    Raises:
        errors.ConfigError: the package was installed without its configs.
    """
    files = sorted(_FOLDER.glob('*.config'))
    if not files:
        raise errors.ConfigError(
            f'{PREFIX}: this installation has no configs in {_FOLDER}; install it again.'
        )
    return {file.stem: file for file in files}


def _summary(file: pathlib.Path) -> str:
    """Return the first sentence of the comment at the top of a config."""
    lines = []
    for line in file.read_text(encoding='utf-8').splitlines():
        if not line.startswith('#'):
            break
        lines.append(line.lstrip('# '))
    return re.split(r'(?<=\.)\s', ' '.join(lines))[0]
