"""The folder of an analysis: report, tables, figures, the worst examples and all errors."""

from __future__ import annotations

import csv
import io
import os
import re
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.analysis import example_files, rendering, report
from estimator_lib.analysis.collecting import Analyzed, Place, WorstExample
from estimator_lib.analysis.label_samples import DrawnLabels
from estimator_lib.analysis.parts import ExampleError, Figure, Section, Table
from estimator_lib.drawing import figures, visualization

FOLDER = 'analysis'
REPORT_FILE = 'report.html'
ERRORS_FILE = 'errors.csv'
LABELS_FILE = 'labels.png'
_COLUMNS = ('image', 'file', 'record', 'error', 'class', 'score', 'iou', 'note')
_UNSAFE = re.compile(r'[^A-Za-z0-9._-]+')
_MOST_NAME = 60  # letters of a source in the name of a picture
_JPEG_QUALITY = 85
_LABEL_COLUMNS = 3

Draw = Callable[[WorstExample], Optional[np.ndarray]]


def analysis_folder(model_dir: str, model: str, further_set: str = '') -> str:
    """Return the folder of an analysis.

    Args:
        model_dir: folder of the run.
        model: step of the checkpoint, or name of the file.
        further_set: name of the evaluation set; '' for the first one.
    """
    return os.path.join(model_dir, FOLDER, f'{model}_{further_set}' if further_set else model)


def write(
    folder: str,
    analyzed: Analyzed,
    draw: Draw,
    metrics: Mapping[str, float],
    title: str,
    subtitle: str,
    labels: Optional[DrawnLabels] = None,
) -> str:
    """Write the folder of an analysis, whole or not at all; an older one is replaced.

    Args:
        folder: path of the folder.
        analyzed: results of the analysis.
        draw: draws an example, uint8 [height, width, 3]; None where there is nothing to draw.
        metrics: all metrics by title.
        title: heading of the report.
        subtitle: what was evaluated.
        labels: labels of the data; None: they are not drawn.

    Returns:
        Path of the report.

    Raises:
        errors.UserError: the folder cannot be written.
    """
    # The dot hides it from the pattern `analysis/*/report.html` of `run_records.listeners`.
    unfinished = os.path.join(os.path.dirname(folder), f'.{os.path.basename(folder)}.unfinished')
    try:
        if tf.io.gfile.isdir(unfinished):
            tf.io.gfile.rmtree(unfinished)
        tf.io.gfile.makedirs(os.path.join(unfinished, 'worst'))
        _write_files(unfinished, analyzed, draw, metrics, title, subtitle, labels)
        if tf.io.gfile.isdir(folder):
            tf.io.gfile.rmtree(folder)
        tf.io.gfile.rename(unfinished, folder)
    except (tf.errors.OpError, OSError) as error:
        reason = errors.first_line(error)
        raise errors.UserError(f'{folder} cannot be written: {reason}.') from error
    return os.path.join(folder, REPORT_FILE)


def _write_files(
    folder: str,
    analyzed: Analyzed,
    draw: Draw,
    metrics: Mapping[str, float],
    title: str,
    subtitle: str,
    labels: Optional[DrawnLabels],
) -> None:
    def save(path: str, content: bytes) -> None:
        with tf.io.gfile.GFile(os.path.join(folder, path), 'wb') as file:
            file.write(content)

    with tf.io.gfile.GFile(os.path.join(folder, ERRORS_FILE), 'w') as file:
        _write_rows(file, _COLUMNS, (_error_row(*each) for each in analyzed.errors))
    sections = list(analyzed.sections)
    drawings = rendering.render_all(sections)
    if labels is not None:
        sections.append(labels.section)
        drawings.update(labels.drawings)
        save(LABELS_FILE, _side_by_side([each.png for each in labels.drawings.values()]))
    tables, drawn = _parts(sections, Table), _parts(sections, Figure)
    for table in tables:
        save(f'{table.name}.csv', _to_csv(table).encode())
    for name, drawing in drawings.items():
        save(f'{name}.png', drawing.png)
    pictures = _pictures(analyzed.worst, draw)
    for picture in pictures:
        save(picture.path, picture.jpeg)
    files = {
        ERRORS_FILE: 'each error, with image, record, class, score and IoU',
        **{f'{table.name}.csv': table.title for table in tables},
        **{f'{each.name}.png': each.title for each in drawn if each.name in drawings},
    }
    if analyzed.examples:
        save(example_files.FILE, example_files.to_bytes(analyzed.names, analyzed.examples))
        files[example_files.FILE] = 'numbers of each image, for --mode=compare'
    content = report.Report(title, subtitle, sections, drawings, pictures, metrics, files)
    save(REPORT_FILE, report.to_html(content).encode())


def _parts(sections: Sequence[Section], kind: Any) -> List[Any]:
    return [part for section in sections for part in section.parts if isinstance(part, kind)]


def _pictures(worst: Sequence[WorstExample], draw: Draw) -> List[report.Picture]:
    pictures = []
    for number, example in enumerate(worst, 1):
        place, drawn = example.place, None
        title = place.name or f'{os.path.basename(place.path)}, record {place.index}'
        with figures.tolerated(f'picture of {title}'):
            drawn = draw(example)
        if drawn is None:
            continue
        stem = os.path.splitext(os.path.basename(place.name))[0]
        name = f'{number:03d}_{_UNSAFE.sub("_", stem)[:_MOST_NAME]}.jpg'
        lines = [_error_line(error) for error in example.errors]
        size = (drawn.shape[1], drawn.shape[0])
        pictures.append(report.Picture(f'worst/{name}', _to_jpeg(drawn), title, lines, size))
    return pictures


def _side_by_side(pngs: Sequence[bytes]) -> bytes:
    """Return one PNG of several."""
    from PIL import Image

    pictures = [np.array(Image.open(io.BytesIO(png)).convert('RGB')) for png in pngs]
    return visualization.encode_png(visualization.grid(pictures, columns=_LABEL_COLUMNS))


def _to_jpeg(picture: np.ndarray) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(picture).save(content, 'JPEG', quality=_JPEG_QUALITY)
    return content.getvalue()


def _error_line(error: ExampleError) -> str:
    """Describe an error: `classification: cat, score 0.91, IoU 0.72 (dog)`."""
    parts = [error.class_name]
    parts += [] if error.score is None else [f'score {error.score:.2f}']
    parts += [] if error.overlap is None else [f'IoU {error.overlap:.2f}']
    note = f' ({error.note})' if error.note else ''
    return f'{error.kind}: {", ".join(parts)}{note}'


def _error_row(place: Place, error: ExampleError) -> List[Any]:
    index = place.index if place.index >= 0 else ''
    return [
        place.name,
        place.path,
        index,
        error.kind,
        error.class_name,
        _number(error.score),
        _number(error.overlap),
        error.note,
    ]


def _to_csv(table: Table) -> str:
    text = io.StringIO()
    rows = (
        [_number(cell) if isinstance(cell, float) else cell for cell in row] for row in table.rows
    )
    _write_rows(text, table.columns, rows)
    return text.getvalue()


def _write_rows(file: Any, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(columns)
    writer.writerows(map(texts.csv_cell, row) for row in rows)


def _number(value: Optional[float]) -> Any:
    """Format a number for CSV; '' where there is none."""
    return '' if value is None or value != value else f'{value:.6g}'
