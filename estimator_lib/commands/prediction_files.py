"""Output files of `--mode=predict`: JSON, CSV, COCO results, annotations, and pictures."""

from __future__ import annotations

import csv
import io
import json
import os
import urllib.parse
import uuid
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, texts
from estimator_lib.commands import annotation_files, predictions_page
from estimator_lib.processes import journals, path_names
from estimator_lib.task import Region

# The text files that a benchmark of the task accepts.
SUBMISSION = 'submission'
FORMATS = ('json', 'coco', 'csv', SUBMISSION, *annotation_files.FORMATS)
PREDICTIONS_FILE = 'predictions.json'
TABLE_FILE = 'predictions.csv'
PAGE_FILE = 'predictions.html'
COCO_IMAGES_FILE = 'images.json'  # the image ids of COCO results
IMAGE_COLUMN = 'image'


class Entry(NamedTuple):
    """Predictions of one image.

    Attributes:
        name: the name of the image.
        id: its number in COCO files.
        size: height and width in pixels.
        values: the values for JSON, by name.
        rows: the rows for CSV.
        results: the results for COCO, without `image_id`.
        lines: the lines of a submission, by the name of their file.
        picture: path of its picture, relative to the output folder; None: there is none.
        summary: see `predictions_page.summarize`.
    """

    name: str
    id: int
    size: Tuple[int, ...]
    values: Mapping[str, Any] = {}
    rows: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    lines: Mapping[str, Sequence[str]] = {}
    picture: Optional[str] = None
    summary: Sequence[Sequence[Any]] = ()


class PredictionFiles:
    """Collection of predictions, which images may join in any order and from any thread.

    Args:
        output_dir: created if it does not exist.
        output_format: one of `FORMATS`.
        atomically: whether files appear under their names only when they are complete, even if
            several processes write them.
        journal: keeps the entries for the next start of the same command; None: they are not kept.

    Attributes:
        entries: the entries so far.
        found_any: whether any entry had rows.

    Raises:
        errors.UserError: `output_dir` is not a folder that can be written to, or has annotations of
            another program.
    """

    def __init__(
        self,
        output_dir: str,
        output_format: str = 'json',
        atomically: bool = False,
        journal: Optional[journals.Journal] = None,
    ):
        self._dir = output_dir
        self._format = output_format
        self._annotations = annotation_files.FORMATS.get(output_format)
        self._atomically = atomically
        self.entries: List[Entry] = []
        self.found_any = False
        self._journal = journal
        for entry, stamp, found_any in journal.entries if journal is not None else ():
            if stamp == _stamp(entry[0]):
                self.entries.append(Entry(*entry))
                self.found_any |= found_any
        if tf.io.gfile.exists(output_dir) and not tf.io.gfile.isdir(output_dir):
            raise errors.UserError(f'--output_dir: {output_dir} is a file; expected a folder.')
        self._refuse_annotations()
        folder = os.path.join(output_dir, self._annotations.folder) if self._annotations else ''
        try:
            tf.io.gfile.makedirs(folder or output_dir)
        except tf.errors.OpError as error:
            raise errors.UserError(f'--output_dir: {output_dir}: {error.message}.') from None

    def _refuse_annotations(self) -> None:
        """Refuse a folder with annotations that this program has not written.

        A data set has its own annotations under the same names.
        """
        if self._annotations is None:
            return
        folder = os.path.join(self._dir, self._annotations.folder)
        mark_file = os.path.join(self._dir, self._annotations.mark_file)
        if tf.io.gfile.exists(mark_file):
            with tf.io.gfile.GFile(mark_file, 'rb') as file:
                is_foreign = not file.read().startswith(annotation_files.MARK.encode())
        else:
            is_foreign = bool(path_names.list_names(folder))
        if is_foreign:
            raise errors.UserError(
                f'--output_dir: {self._dir} has annotations of another program '
                f'({self._annotations.folder}, {self._annotations.mark_file}); expected another '
                'folder.'
            )

    def write_shared(self, class_names: Sequence[str]) -> None:
        """Write the files of an annotation format that belong to all images."""
        if self._annotations is not None:
            for name, content in self._annotations.encode_shared(class_names).items():
                self.write_file(name, content)

    def write_annotations(
        self, image: Entry, stem: str, regions: Sequence[Region], class_names: Sequence[str]
    ) -> None:
        """Write the annotations of an image.

        Args:
            image: its name and size count.
            stem: of the file.
            regions: of the image.
            class_names: names by `Region.class_index`.
        """
        own = self._annotations
        content = own.encode(os.path.basename(image.name), image.size, regions, class_names)
        self.write_file(os.path.join(own.folder, stem + own.ending), content)

    def add(self, entry: Entry) -> None:
        """Add the predictions of an image, reduced to the needs of the format."""
        kept = {'json': 'values', 'csv': 'rows', 'coco': 'results', SUBMISSION: 'lines'}.get(
            self._format
        )
        if entry.rows:
            self.found_any = True
        own = {kept: to_json(getattr(entry, kept))} if kept else {}
        summary = predictions_page.summarize(entry.rows, entry.size)
        reduced = Entry(
            entry.name, entry.id, entry.size, picture=entry.picture, summary=summary
        )._replace(**own)
        if self._journal is not None:
            self._journal.add([reduced, _stamp(entry.name), bool(entry.rows)])
        self.entries.append(reduced)

    def relative_path(self, path: str) -> Optional[str]:
        """Return the path of a file of this machine as the page finds it; None: it is elsewhere."""
        if '://' in path or '://' in self._dir or not os.path.isfile(path):
            return None
        return os.path.relpath(path, self._dir)

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of one image, whose name may begin with a folder.

        Raises:
            errors.UserError: the file cannot be written.
        """
        path = os.path.join(self._dir, name)
        try:
            if os.path.dirname(name):
                tf.io.gfile.makedirs(os.path.dirname(path))
            # A random name: processes of several machines, which may have equal process ids, write
            # here.
            own = f'{path}.{uuid.uuid4().hex}' if self._atomically else path
            with tf.io.gfile.GFile(own, 'wb') as file:
                file.write(content)
            if self._atomically:
                tf.io.gfile.rename(own, path, overwrite=True)
        except tf.errors.OpError as error:
            raise errors.UserError(f'--output_dir: {path}: {error.message}.') from None

    def write(self) -> None:
        """Write the predictions of all images, sorted by name, and the page that shows them.

        Annotations are written already.
        """
        entries = sorted(self.entries, key=lambda entry: entry.name)
        shown = [
            predictions_page.Shown(
                entry.name, entry.picture and urllib.parse.quote(entry.picture), entry.summary
            )
            for entry in entries
        ]
        self.write_file(PAGE_FILE, predictions_page.to_html(shown).encode())
        if self._annotations is not None:
            return
        write = {
            'json': self._write_json,
            'csv': self._write_table,
            'coco': self._write_coco,
            SUBMISSION: self._write_submission,
        }
        write[self._format](entries)

    def _write_json(self, entries: Sequence[Entry]) -> None:
        self._save(PREDICTIONS_FILE, {entry.name: entry.values for entry in entries}, indent=1)

    def _write_table(self, entries: Sequence[Entry]) -> None:
        columns: Dict[str, None] = {IMAGE_COLUMN: None}
        for entry in entries:
            for row in entry.rows:
                columns.update(dict.fromkeys(row))
        text = io.StringIO()
        writer = csv.DictWriter(text, list(columns), lineterminator='\n')
        writer.writeheader()
        for entry in entries:
            rows = ({IMAGE_COLUMN: entry.name, **row} for row in entry.rows)
            writer.writerows(
                {column: texts.csv_cell(value) for column, value in row.items()} for row in rows
            )
        self.write_file(TABLE_FILE, text.getvalue().encode())

    def _write_coco(self, entries: Sequence[Entry]) -> None:
        entries = sorted(entries, key=lambda entry: entry.id)
        results = [
            {'image_id': entry.id, **result} for entry in entries for result in entry.results
        ]
        self._save(PREDICTIONS_FILE, results)
        images = [
            {
                'id': entry.id,
                'file_name': entry.name,
                'height': entry.size[0],
                'width': entry.size[1],
            }
            for entry in entries
        ]
        self._save(COCO_IMAGES_FILE, {'images': images})

    def _write_submission(self, entries: Sequence[Entry]) -> None:
        names = sorted({name for entry in entries for name in entry.lines})
        for name in names:
            lines = [line for entry in entries for line in entry.lines.get(name, ())]
            self.write_file(name, ''.join(f'{line}\n' for line in lines).encode())

    def _save(self, name: str, content: Any, indent: Optional[int] = None) -> None:
        text = json.dumps(content, indent=indent, ensure_ascii=False)
        self.write_file(name, f'{text}\n'.encode())


def _stamp(name: str) -> journals.Stamp:
    """Return the stamp of the file of an image, or of its record, whose name is `file#index`."""
    path, _, index = name.rpartition('#')
    return journals.stamp(path if index.isdecimal() and path else name)


def to_json(value: Any) -> Any:
    """Convert a value, which may have NumPy types, to types of JSON."""
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    # JSON has no bytes, and TensorFlow's strings are bytes.
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    if isinstance(value, np.generic):
        return to_json(value.item())
    if isinstance(value, np.ndarray):
        return to_json(value.tolist())
    return value
