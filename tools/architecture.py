"""Rooms, floors and paths of the code, from its imports.

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
import functools
import pathlib
from typing import Dict, Iterator, List, Mapping, Sequence, Set, Tuple, Union
from xml.sax import saxutils

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRAWING = ROOT / 'docs' / 'architecture.svg'

# The front door and the packages, from the top down.
PACKAGES = ('run_train_eval', 'vision_extras', 'model_fns', 'estimator_lib', 'protos')
# Folders that are drawn, the top one first.
DRAWN = ('vision_extras', 'model_fns', 'estimator_lib')

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _MARGIN = 168, 34, 16, 24
_ROW_GAP = 44  # between two rows, for the arrows
_FLOOR_WIDTH = 24  # of the number of a floor, left of the boxes
_PER_ROW = 7
_COLORS = {
    'vision_extras': '#f3e8fd',
    'model_fns': '#fff3e0',
    'estimator_lib': '#e8f0fe',
    'protos': '#e6f4ea',
}

Graph = Mapping[str, Set[str]]


class CircleError(ValueError):
    """Error: rooms import each other in a circle."""


def imported_modules(path: pathlib.Path, with_types: bool = False) -> Iterator[str]:
    """Yield every module that a file imports, and every name that it imports from a module.

    Args:
        path: of the file.
        with_types: True: imports under `if TYPE_CHECKING:` count too.
    """
    for node in _imports(path, with_types):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif node.module:
            yield node.module
            for alias in node.names:
                yield f'{node.module}.{alias.name}'


@functools.cache
def _imports(
    path: pathlib.Path, with_types: bool = False
) -> List[Union[ast.Import, ast.ImportFrom]]:
    """Return the imports of a file, by default without those under `if TYPE_CHECKING:`.

    A file belongs to several folders, so it is read for each of them, but only parsed once.
    """
    found: List[Union[ast.Import, ast.ImportFrom]] = []
    statements: List[ast.stmt] = list(ast.parse(path.read_text()).body)
    while statements:
        node = statements.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif not with_types and _is_for_types(node):
            statements += node.orelse
        else:
            # An import is a statement, and expressions, which are most of a file, hold none.
            for part in ('body', 'orelse', 'finalbody', 'handlers'):
                statements += getattr(node, part, [])
    return found


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith('TYPE_CHECKING')


def source_files() -> Dict[str, pathlib.Path]:
    """Return the files of the front door and the packages by the names of their modules."""
    files = {}
    for package in PACKAGES:
        for path in [ROOT / f'{package}.py', *sorted((ROOT / package).rglob('*.py'))]:
            if path.exists():
                parts = path.relative_to(ROOT).with_suffix('').parts
                files['.'.join(parts[:-1] if parts[-1] == '__init__' else parts)] = path
    return files


def file_graph(files: Mapping[str, pathlib.Path], with_types: bool = False) -> Graph:
    """Return which of these modules each of them imports.

    `from a import b` imports the file of `a.b` where there is one, else that of `a`.

    Args:
        files: of the modules, by their names.
        with_types: True: imports under `if TYPE_CHECKING:` count too.
    """
    graph: Dict[str, Set[str]] = {}
    for module, path in files.items():
        graph[module] = set()
        for node in _imports(path, with_types):
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
    known: Dict[str, int] = {}

    def floor(room: str, path: Sequence[str]) -> int:
        if room in path:
            raise CircleError(' -> '.join([*path[path.index(room) :], room]))
        if room not in known:
            known[room] = 1 + max((floor(each, [*path, room]) for each in graph[room]), default=0)
        return known[room]

    for room in graph:
        floor(room, [])
    return known


def draw() -> str:
    """Return the drawing as SVG: a row of boxes for each floor, arrows to what they import."""
    shapes: List[str] = []
    top = _MARGIN
    for package in DRAWN:
        graph = rooms(ROOT / package)
        shapes.append(_text(_MARGIN, top + 14, f'{package}/', bold=True))
        places = _places(graph, top + 24)
        by_floor = floors(graph)
        rows = {floors_top: by_floor[name] for name, (_, floors_top) in reversed(places.items())}
        shapes += [_text(_MARGIN, y + 22, str(floor)) for y, floor in rows.items()]
        shapes += _arrows(graph, places)
        for name, (left, y) in places.items():
            shapes += _box(name, left, y, _COLORS[package])
        top = max(rows) + _BOX_HEIGHT + _GAP
        shapes += _package_arrow(top)
        top += _ROW_GAP
    shapes.append(_text(_MARGIN, top + 14, 'protos/', bold=True))
    shapes += _box('the schema', (_width() - _BOX_WIDTH) // 2, top, _COLORS['protos'])
    width, height = _width(), top + _BOX_HEIGHT + _MARGIN
    return '\n'.join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker>'
            '</defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *shapes,
            '</svg>',
            '',
        ]
    )


def direct_imports(graph: Graph) -> Dict[str, Set[str]]:
    """Return the imports that no longer path of imports implies.

    If `a` imports `b` and `c`, and `b` imports `c`, the arrow from `a` to `c` says nothing new.
    """
    reached: Dict[str, Set[str]] = {}
    for name in sorted(graph, key=floors(graph).__getitem__):
        reached[name] = set(graph[name]).union(*(reached[other] for other in graph[name]))
    return {
        name: {
            other
            for other in others
            if not any(other in reached[between] for between in others if between != other)
        }
        for name, others in graph.items()
    }


def _width() -> int:
    """Return the width of the drawing in pixels."""
    return 2 * _MARGIN + _FLOOR_WIDTH + _PER_ROW * (_BOX_WIDTH + _GAP) - _GAP


def _places(graph: Graph, top: int) -> Dict[str, Tuple[int, int]]:
    """Return the left and top pixel of each box, from the lowest floor up.

    Boxes of a floor are in the order of the boxes that they import, so that few arrows cross.
    """
    by_floor = floors(graph)
    rows: List[List[str]] = []
    lefts: Dict[str, int] = {}
    direct = direct_imports(graph)
    for floor in range(1, max(by_floor.values()) + 1):
        names = sorted(name for name, its in by_floor.items() if its == floor)
        if floor > 1:
            names.sort(key=lambda name: sum(lefts[it] for it in direct[name]) / len(direct[name]))
        for start in range(0, len(names), _PER_ROW):
            row = names[start : start + _PER_ROW]
            used = len(row) * (_BOX_WIDTH + _GAP) - _GAP
            left = _FLOOR_WIDTH + (_width() - _FLOOR_WIDTH - used) // 2
            lefts.update({n: left + i * (_BOX_WIDTH + _GAP) for i, n in enumerate(row)})
            rows.append(row)
    tops = {name: len(rows) - 1 - index for index, row in enumerate(rows) for name in row}
    return {
        name: (lefts[name], top + tops[name] * (_BOX_HEIGHT + _ROW_GAP))
        for row in rows
        for name in row
    }


def _arrows(graph: Graph, places: Mapping[str, Tuple[int, int]]) -> List[str]:
    """Return an arrow for each direct import, from the bottom of a box to the top of another."""
    shapes = []
    for name, others in sorted(direct_imports(graph).items()):
        for other in sorted(others):
            (x1, y1), (x2, y2) = places[name], places[other]
            shapes.append(
                f'<line x1="{x1 + _BOX_WIDTH // 2}" y1="{y1 + _BOX_HEIGHT}" '
                f'x2="{x2 + _BOX_WIDTH // 2}" y2="{y2}" stroke="#9aa0a6" '
                'marker-end="url(#head)"/>'
            )
    return shapes


def _package_arrow(top: int) -> List[str]:
    """Return the wide arrow from a package to the one below."""
    x = _width() // 2
    return [
        f'<line x1="{x}" y1="{top - 8}" x2="{x}" y2="{top + _ROW_GAP - 10}" stroke="#5f6368" '
        'stroke-width="3" marker-end="url(#head)"/>'
    ]


def _box(name: str, left: int, top: int, color: str) -> List[str]:
    """Return a box with a name in it."""
    return [
        f'<rect x="{left}" y="{top}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="5" '
        f'fill="{color}" stroke="#5f6368"/>',
        _text(left + _BOX_WIDTH // 2, top + 22, name, anchor='middle'),
    ]


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
