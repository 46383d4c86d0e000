"""`report.html`: one page that opens without server or network, in light and dark, on any width."""

from __future__ import annotations

import base64
import dataclasses
import html
import math
import re
import string
from typing import List, Mapping, Sequence, Tuple

from estimator_lib.analysis import page
from estimator_lib.analysis.parts import Cell, Figure, Section, Table, Tile
from estimator_lib.analysis.rendering import Drawing

# Bytes of pictures in the page; the others are links to their files.
_MOST_BYTES = 12_000_000
_BREAKS = re.compile(r'(?<=[/_.])(?=[A-Za-z])')


@dataclasses.dataclass(frozen=True)
class Picture:
    """Picture of an example, in the page and as a file.

    Attributes:
        path: path of its file, relative to the page.
        jpeg: content of the file.
        title: name of the example.
        lines: its errors, a line each.
        size: width and height in pixels, so that the page keeps its layout while pictures load.
    """

    path: str
    jpeg: bytes
    title: str
    lines: Sequence[str]
    size: Tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Report:
    """Content of the page.

    Attributes:
        title: heading.
        subtitle: what was evaluated.
        sections: tables and figures.
        drawings: the drawn figures, by name.
        pictures: the worst examples.
        metrics: all metrics by title; shown with the files.
        files: further files beside the page: a description of each, by relative path.
    """

    title: str
    subtitle: str
    sections: Sequence[Section]
    drawings: Mapping[str, Drawing]
    pictures: Sequence[Picture] = ()
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def to_html(report: Report) -> str:
    """Return the text of the page."""
    blocks = [_section(section, report.drawings) for section in report.sections]
    titles = [section.title for section in report.sections]
    if report.pictures:
        blocks.append(_gallery(report.pictures))
        titles.append('Worst images')
    if report.files:
        rows = sorted(report.metrics.items())
        metrics = Table('metrics', 'All metrics', ['metric', 'value'], rows)
        blocks.append(_block('Metrics and files', [_table(metrics), _files(report.files)]))
        titles.append('Metrics and files')
    links = ''.join(f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title in titles)
    return string.Template(page.TEMPLATE).substitute(
        title=html.escape(report.title),
        subtitle=html.escape(report.subtitle),
        style=page.STYLE,
        script=page.SCRIPT,
        links=links,
        body='\n'.join(blocks),
    )


def _section(section: Section, drawings: Mapping[str, Drawing]) -> str:
    inside = [f'<p class="text">{html.escape(section.text)}</p>'] if section.text else []
    if section.tiles:
        inside.append(f'<div class="tiles">{"".join(map(_tile, section.tiles))}</div>')
    figures: List[str] = []
    for part in section.parts:
        if isinstance(part, Figure):
            if part.name in drawings:
                figures.append(_figure(part, drawings[part.name]))
            continue
        inside += _row(figures)
        figures = []
        inside.append(_table(part))
    return _block(section.title, [*inside, *_row(figures)])


def _row(figures: Sequence[str]) -> List[str]:
    return [f'<div class="figures">{"".join(figures)}</div>'] if figures else []


def _block(title: str, inside: Sequence[str]) -> str:
    heading = f'<h2>{html.escape(title)}</h2>'
    return f'<section id="{_anchor(title)}">{heading}{"".join(inside)}</section>'


def _anchor(title: str) -> str:
    return ''.join(letter if letter.isalnum() else '-' for letter in title.lower())


def _tile(tile: Tile) -> str:
    hint = f'<small>{html.escape(tile.hint)}</small>' if tile.hint else ''
    return (
        f'<div class="tile"><span>{html.escape(tile.title)}</span>'
        f'<b>{html.escape(tile.value)}</b>{hint}</div>'
    )


def _figure(figure: Figure, drawing: Drawing) -> str:
    note = f' <small>{html.escape(figure.note)}</small>' if figure.note else ''
    return (
        f'<figure style="--width:{drawing.width}px"><figcaption>{html.escape(figure.title)}{note}'
        f'</figcaption><div class="drawing">{drawing.svg}</div></figure>'
    )


def _table(table: Table) -> str:
    head = ''.join(
        f'<th scope="col" aria-sort="none"{_alignment([row[index] for row in table.rows])}>'
        f'<button type="button">{html.escape(column)}</button></th>'
        for index, column in enumerate(table.columns)
    )
    body = ''.join(f'<tr>{"".join(map(_cell, row))}</tr>' for row in table.rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ''
    title = html.escape(table.title)
    # A region that has a name and takes the focus can be scrolled with the keyboard.
    return (
        f'<h3>{title}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f'<table aria-label="{title}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f'</div>{note}'
    )


def _alignment(cells: Sequence[Cell]) -> str:
    """Return the attribute of a heading above numbers; '' above text."""
    return '' if any(isinstance(cell, str) for cell in cells) else ' class="number"'


def _cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return '<td class="number none" data-value="">–</td>'
    if isinstance(value, str):
        # On a phone, names of metrics and fields break at these letters.
        return f'<td>{_BREAKS.sub("<wbr>", html.escape(value))}</td>'
    text = f'{value:,}' if isinstance(value, int) else f'{value:.4g}'
    return f'<td class="number" data-value="{value!r}">{text}</td>'


def _gallery(pictures: Sequence[Picture]) -> str:
    left, cards = _MOST_BYTES, []
    for picture in pictures:
        # Base64 makes a third more of these bytes.
        left -= len(picture.jpeg)
        source = html.escape(picture.path)
        if left > 0:
            source = f'data:image/jpeg;base64,{base64.b64encode(picture.jpeg).decode()}'
        lines = ''.join(f'<li>{html.escape(line)}</li>' for line in picture.lines)
        name = html.escape(picture.title)
        cards.append(
            f'<figure class="card"><button type="button" class="zoom" aria-label="enlarge {name}">'
            f'<img loading="lazy" alt="{name}" width="{picture.size[0]}" '
            f'height="{picture.size[1]}" src="{source}"></button>'
            f'<figcaption><b>{name}</b><ul>{lines}</ul></figcaption></figure>'
        )
    text = (
        'The images with most errors. Wrong labels are often found here first; errors.csv names '
        'the record of each.'
    )
    return _block('Worst images', [f'<p class="text">{text}</p>', _cards(cards)])


def _cards(cards: Sequence[str]) -> str:
    return f'<div class="cards">{"".join(cards)}</div>'


def _files(files: Mapping[str, str]) -> str:
    rows = ''.join(
        f'<li><a href="{html.escape(path)}">{html.escape(path)}</a> {html.escape(text)}</li>'
        for path, text in files.items()
    )
    return f'<h3>Files</h3><ul class="files">{rows}</ul>'
