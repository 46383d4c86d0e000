"""Rooms, floors and paths of the code, read off its imports.

    python -m tools.architecture              # writes docs/architecture.svg
    python -m tools.architecture --longest    # prints the longest path of imports, file by file

A room is a module of a folder, or one of its sub-folders as a whole. It stands one floor above the
highest room that it imports; rooms that import each other in a circle have no floor.

Imports inside functions count like all others. Those under `if TYPE_CHECKING:` do not: they are for
the type checker, and no program runs them.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
from typing import Dict, Iterator, List, Mapping, Sequence, Set, Union
from xml.sax import saxutils

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRAWING = ROOT / 'docs' / 'architecture.svg'

# The front door and the packages, from the top down.
PACKAGES = ('run_train_eval', 'model_fns', 'estimator_lib', 'protos')
# Folders that are drawn, the top one first.
DRAWN = ('model_fns', 'estimator_lib')

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _MARGIN = 128, 36, 12, 24
_PER_ROW = 7
_COLORS = {'model_fns': '#fff3e0', 'estimator_lib': '#e8f0fe', 'protos': '#e6f4ea'}

Graph = Mapping[str, Set[str]]


class CircleError(ValueError):
    """Rooms import each other in a circle."""


def imported_modules(path: pathlib.Path) -> Iterator[str]:
    """Yield every module that a file imports, and every name that it imports from a module."""
    for node in _imports(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif node.module:
            yield node.module
            for alias in node.names:
                yield f'{node.module}.{alias.name}'


def _imports(tree: ast.AST) -> Iterator[Union[ast.Import, ast.ImportFrom]]:
    """Yield the imports of a syntax tree, except those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith('TYPE_CHECKING'):
            for other in node.orelse:
                yield from _imports(ast.Module([other], []))
        else:
            yield from _imports(node)


def source_files() -> Dict[str, pathlib.Path]:
    """Return the files of the front door and the packages by the names of their modules."""
    files = {}
    for package in PACKAGES:
        for path in [ROOT / f'{package}.py', *sorted((ROOT / package).rglob('*.py'))]:
            if path.exists():
                parts = path.relative_to(ROOT).with_suffix('').parts
                files['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = path
    return files


def file_graph(files: Mapping[str, pathlib.Path]) -> Graph:
    """Return which of these modules each of them imports.

    `from a import b` imports the file of `a.b` where there is one, else that of `a`.

    Args:
        files: of the modules, by their names.
    """
    graph: Dict[str, Set[str]] = {}
    for module, path in files.items():
        graph[module] = set()
        for node in _imports(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [f'{node.module}.{alias.name}' for alias in node.names]
                names = [name if name in files else str(node.module) for name in names]
            graph[module].update(name for name in names if name in files and name != module)
    return graph


def longest_path(graph: Graph) -> List[str]:
    """Return the longest path of imports, the importing module first.

    Raises:
        CircleError: modules import each other in a circle; the message shows it.
    """
    heights = floors(graph)
    module = max(sorted(graph), key=heights.__getitem__)
    path = [module]
    while graph[module]:
        module = max(sorted(graph[module]), key=heights.__getitem__)
        path.append(module)
    return path


def rooms(folder: pathlib.Path) -> Dict[str, Set[str]]:
    """Return which other rooms each room of a folder imports.

    The `__init__.py` of the folder itself is no room.
    """
    package = '.'.join(folder.relative_to(ROOT).parts)
    names = {path.stem for path in folder.glob('*.py')} - {'__init__'}
    names |= {path.parent.name for path in folder.glob('*/__init__.py')}
    graph: Dict[str, Set[str]] = {name: set() for name in sorted(names)}
    for path in sorted(folder.rglob('*.py')):
        room = path.relative_to(folder).parts[0].removesuffix('.py')
        if room not in names:
            continue
        for module in imported_modules(path):
            if module.startswith(f'{package}.'):
                other = module[len(package) + 1 :].split('.')[0]
                if other in names and other != room:
                    graph[room].add(other)
    return graph


def floors(graph: Graph) -> Dict[str, int]:
    """Return the floor of each room, from 1.

    Raises:
        CircleError: rooms import each other in a circle; the message shows it.
    """
    found: Dict[str, int] = {}

    def floor(room: str, path: Sequence[str]) -> int:
        if room in path:
            raise CircleError(' -> '.join([*path[path.index(room) :], room]))
        if room not in found:
            found[room] = 1 + max((floor(each, [*path, room]) for each in graph[room]), default=0)
        return found[room]

    for room in graph:
        floor(room, [])
    return found


def draw() -> str:
    """Return the drawing as SVG: a row of boxes for each floor, the ground floor at the bottom."""
    shapes: List[str] = []
    top = _MARGIN
    for package in DRAWN:
        by_floor = floors(rooms(ROOT / package))
        shapes.append(_text(_MARGIN, top + 14, f'{package}/', bold=True))
        top += 24
        for floor in range(max(by_floor.values()), 0, -1):
            names = sorted(name for name, its in by_floor.items() if its == floor)
            for start in range(0, len(names), _PER_ROW):
                shapes.append(_text(_MARGIN, top + 23, str(floor) if not start else ''))
                shapes += _row(names[start : start + _PER_ROW], top, _COLORS[package])
                top += _BOX_HEIGHT + _GAP
        top += _GAP
    shapes.append(_text(_MARGIN, top + 14, 'protos/', bold=True))
    shapes += _row(['the schema'], top, _COLORS['protos'])
    width = 2 * _MARGIN + _BOX_WIDTH // 2 + _PER_ROW * (_BOX_WIDTH + _GAP)
    height = top + _BOX_HEIGHT + _MARGIN
    return '\n'.join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *shapes,
            '</svg>',
            '',
        ]
    )


def _row(names: Sequence[str], top: int, color: str) -> List[str]:
    """Return boxes beside each other."""
    shapes = []
    for index, name in enumerate(names):
        left = _MARGIN + _BOX_WIDTH // 2 + index * (_BOX_WIDTH + _GAP)
        shapes.append(
            f'<rect x="{left}" y="{top}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5" '
            f'fill="{color}" stroke="#5f6368"/>'
        )
        shapes.append(_text(left + _BOX_WIDTH // 2, top + 23, name, anchor='middle'))
    return shapes


def _text(x: int, y: int, text: str, anchor: str = 'start', bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ''
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{weight}>{saxutils.escape(text)}</text>'


def main() -> None:
    """Write the drawing, or print the longest path."""
    parser = argparse.ArgumentParser(description='Rooms, floors and paths of the code.')
    parser.add_argument(
        '--longest', action='store_true', help='print the longest path of imports, file by file'
    )
    if parser.parse_args().longest:
        path = longest_path(file_graph(source_files()))
        print(f'{len(path)} files on the longest path of imports:', *path, sep='\n  ')
    else:
        DRAWING.write_text(draw())


if __name__ == '__main__':
    main()
