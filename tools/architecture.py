"""Reads the rooms and floors of the code off its imports, and draws them.

    python -m tools.architecture    # writes docs/architecture.svg

A room is a module of a folder, or one of its sub-folders as a whole. It stands one floor above the
highest room that it imports; rooms that import each other in a circle have no floor.
"""

from __future__ import annotations

import ast
import pathlib
from typing import Dict, Iterator, List, Mapping, Sequence, Set
from xml.sax import saxutils

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRAWING = ROOT / 'docs' / 'architecture.svg'

# Folders that are drawn, the top one first.
DRAWN = ('model_fns', 'estimator_lib')

_BOX_WIDTH, _BOX_HEIGHT, _GAP, _MARGIN = 128, 36, 12, 24
_PER_ROW = 7
_COLORS = {'model_fns': '#fff3e0', 'estimator_lib': '#e8f0fe', 'protos': '#e6f4ea'}

Graph = Mapping[str, Set[str]]


class CircleError(ValueError):
    """Rooms import each other in a circle."""


def imported_modules(path: pathlib.Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            for alias in node.names:
                yield f'{node.module}.{alias.name}'


def rooms(folder: pathlib.Path) -> Dict[str, Set[str]]:
    """What each room of a folder imports of the other rooms.

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
    """The floor of each room, from 1.

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
    """The drawing as SVG: a row of boxes for each floor, the ground floor at the bottom."""
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
    """Boxes beside each other."""
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


if __name__ == '__main__':
    DRAWING.write_text(draw())
