"""Lists what `tensorflow-estimator` uses and the installed TensorFlow does not have.

    python -m tools.removed_names

Each line has a name, the files that use it, and whether `estimator_lib.tf_estimator` replaces it.
The exit status is 1 if a name is missing that is neither replaced nor of parts in `UNUSED`.
"""

from __future__ import annotations

import ast
import collections
import importlib
import importlib.util
import pathlib
import sys
import types
from typing import Any, Dict, Iterator, Optional, Set

from estimator_lib.tf_estimator import stand_ins

# Parts of the package that this project does not call: what needs Keras 2 (canned estimators,
# `model_to_estimator`, the optimizers of heads), and TPUs.
UNUSED = ('/canned/', '/keras_lib.py', '/head/', '/tpu/')


def tensorflow_names(source: str) -> Set[str]:
    """Return the dotted names of TensorFlow that a module's source imports or uses."""
    tree = ast.parse(source)
    bound: Dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('tensorflow.'):
            for one in node.names:
                bound[one.asname or one.name] = f'{node.module}.{one.name}'
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name == 'tensorflow' or one.name.startswith('tensorflow.'):
                    bound[one.asname or one.name.partition('.')[0]] = one.name
    names = set(bound.values())
    for node in ast.walk(tree):
        root, dot, rest = (_dotted_name(node) or '').partition('.')
        if dot and root in bound:
            names.add(f'{bound[root]}.{rest}')
    return names


def is_missing(name: str) -> bool:
    """Tell whether a dotted name of TensorFlow leads to nothing."""
    parts = name.split('.')
    value: Any = importlib.import_module(parts[0])
    path = parts[0]
    for part in parts[1:]:
        path = f'{path}.{part}'
        if hasattr(value, part):
            value = getattr(value, part)
        elif not isinstance(value, types.ModuleType):
            return False  # attributes of objects are made when they run
        elif _find_module(path):
            value = importlib.import_module(path)
        else:
            return True
    return False


def missing_names(package: pathlib.Path) -> Dict[str, Set[str]]:
    """Return the names that are missing, shortest first, with the files that use them."""
    users: Dict[str, Set[str]] = collections.defaultdict(set)
    for path in sorted(package.rglob('*.py')):
        for name in tensorflow_names(path.read_text(encoding='utf-8')):
            users[name].add(str(path.relative_to(package)))
    missing = {name: users[name] for name in sorted(users) if is_missing(name)}
    return {name: users for name, users in missing.items() if not _has_prefix(name, missing)}


def unused(users: Set[str]) -> bool:
    """Tell whether all files are of parts that this project does not call."""
    return all(any(part in user for part in UNUSED) for user in users)


def main() -> int:
    """Print the list and return the exit status."""
    import tensorflow as tf

    spec = importlib.util.find_spec('tensorflow_estimator')
    replaced = {one.name for one in stand_ins.REMOVED}
    status = 0
    for name, users in missing_names(pathlib.Path(spec.origin).parent).items():
        state = 'replaced' if name in replaced else 'not used here' if unused(users) else 'MISSING'
        status |= state == 'MISSING'
        print(f'{state:13} {name}  ({", ".join(sorted(users))})')
    print(f'TensorFlow {tf.__version__}: {"names are missing" if status else "nothing else"}')
    return status


def _dotted_name(node: ast.AST) -> Optional[str]:
    parts = list(_parts(node))
    return '.'.join(reversed(parts)) if parts and parts[-1] else None


def _parts(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value
    yield node.id if isinstance(node, ast.Name) else ''


def _find_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _has_prefix(name: str, names: Dict[str, Set[str]]) -> bool:
    return any(name.startswith(f'{one}.') for one in names)


if __name__ == '__main__':
    sys.exit(main())
