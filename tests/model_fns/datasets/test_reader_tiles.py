"""Readers of files that cut images into tiles: the examples of `convert-records --tile`."""

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.config import reader_checks
from estimator_lib.config.section import Section
from model_fns.datasets import readers
from model_fns.recipes import facts
from tests.estimator_lib.data import record_cases as cases
from tests.model_fns.datasets import test_readers as files
from tests.model_fns.datasets.test_readers import COUNT, data  # noqa: F401  (a fixture)

SIZE, OVERLAP = 5, 2  # of images of 8 x 8 pixels: 4 tiles each
FLAGS = f'--tile={SIZE}', f'--overlap={OVERLAP}', '--min_area_inside=0.5'


def tiled(reader, **fields):
    reader.tiles.size, reader.tiles.overlap, reader.tiles.min_area_inside = SIZE, OVERLAP, 0.5
    for name, value in fields.items():
        setattr(reader.tiles, name, value)
    return reader


@pytest.mark.parametrize(
    ('name', 'fields', 'flags', 'drop'),
    [
        ('mask', {}, (), False),
        ('instance', {}, (), False),
        ('csv', {}, (), True),
        ('coco', {'rotated_boxes': True}, ('--boxes=rotated',), True),
    ],
)
def test_tiles_are_those_of_the_converter(data, name, fields, flags, drop):  # noqa: F811
    prefix = data / 'records' / f'{name}{len(fields)}{drop}_tiles'
    empty = 'drop' if drop else 'keep'
    files.convert(data, name, prefix, *flags, *FLAGS, f'--empty_tiles={empty}')
    reader = tiled(files.reader_of(data, name, fields=fields), drop_empty=drop)
    converted = files.records_reader(f'{prefix}-*')
    files.same(files.read(reader, batches=9), files.read(converted, batches=9))
    ids = files.read(reader, mode=cases.EVAL).all_ids
    assert len(ids) == len(readers.open_files(reader, 0))
    assert len(ids) < 4 * COUNT if drop else len(ids) == 4 * COUNT


def test_shuffling_and_resuming_and_the_cache_are_those_of_other_images(data):  # noqa: F811
    reader = tiled(files.reader_of(data, 'voc', shuffle_buffer_size=64))
    made = cases.Input(reader, task=files.RecordTask())
    whole = made.read(9)
    rest = made.read(5, whole.positions[3])
    assert (rest.ids, rest.noise) == (whole.ids[4:], whole.noise[4:])
    reader.cache = reader.MEMORY
    kept = cases.Input(reader, task=files.RecordTask()).read(40)  # more than an epoch
    assert kept.ids[:9] == whole.ids
    assert len(set(kept.all_ids)) == 4 * COUNT


def test_other_tiles_are_other_examples(data):  # noqa: F811
    """A run that is resumed with other tiles begins its data again, and its cache is not read."""
    contents = [
        readers.open_files(tiled(files.reader_of(data, 'voc'), **fields), 0).contents()
        for fields in ({}, {'size': 6}, {'drop_empty': True})
    ]
    assert len({tuple(each) for each in contents}) == 3
    names = {
        readers.open_files(tiled(files.reader_of(data, 'voc'), size=size), 0).path
        for size in (5, 6, 0)
    }
    assert len(names) == 3


def test_annotations_of_tiles_have_the_boxes_inside(data):  # noqa: F811
    """A box of rows 1 to 6 and columns 1 to 5 (VOC counts from 1), of which half has to be in a
    tile: only the two tiles at the left hold it."""
    reader = tiled(files.reader_of(data, 'voc'))
    found = [facts.from_annotation(each) for each in readers.read_annotations(reader)]
    assert len(found) == 4 * COUNT and {each.size for each in found} == {(5, 5)}
    whole = [facts.from_annotation(each) for each in readers.read_annotations(
        files.reader_of(data, 'voc'))]  # fmt: skip
    (box,) = whole[0].boxes * 8
    areas = []
    for top in (0, 3):
        for left in (0, 3):
            inside = np.clip(box - [top, left] * 2, 0, 5)
            areas.append(max(inside[2] - inside[0], 0) * max(inside[3] - inside[1], 0))
    total = (box[2] - box[0]) * (box[3] - box[1])
    kept = sum(area >= 0.5 * total for area in areas)
    assert 0 < kept < 4
    assert sum(len(each.boxes) for each in found) == kept * COUNT


def test_problems_of_an_image_are_counted_once(tmp_path):
    folder = files.write_all(tmp_path)
    path = folder / 'xml' / 'image_0.xml'
    text = path.read_text()
    path.write_text(text.replace('<xmax>', '<xmax>-'))  # at the left of its other side
    assert path.read_text() != text
    for reader in (files.reader_of(folder, 'voc'), tiled(files.reader_of(folder, 'voc'))):
        found = [(each.item.path, each.report) for each in readers.read_annotations(reader)]
        counts = [len(report.problems) for path, report in found if path.endswith('image_0.png')]
        assert counts[0] == 1 and sum(counts) == 1


def test_what_has_no_tiles_is_refused_in_a_sentence(data):  # noqa: F811
    with pytest.raises(errors.UserError) as caught:
        readers.open_files(tiled(files.reader_of(data, 'folder')), 0)
    assert str(caught.value) == 'tiles.size=5: a label of a whole image is not one of its tiles.'
    with pytest.raises(errors.UserError, match='tiles.size=5 tiles.overlap=5'):
        readers.open_files(tiled(files.reader_of(data, 'voc'), overlap=5), 0)
    reader = tiled(files.records_reader('some.tfrecord'))
    (problem,) = reader_checks.check_reader(Section(reader, 'train_input_reader'))
    assert 'records are read as they are; expected a reader of files' in str(problem)
