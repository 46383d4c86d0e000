"""The folder of an analysis: what is in it, whole or not at all."""

import csv
import io
import os

import numpy as np
import pytest
from PIL import Image

from estimator_lib import errors
from estimator_lib.analysis import files, plots, rendering
from estimator_lib.analysis.collecting import Analyzed, Place, WorstExample
from estimator_lib.analysis.label_samples import DrawnLabels
from estimator_lib.analysis.parts import ExampleError, Figure, Section, Table

pytest.importorskip('matplotlib')

ERROR = ExampleError('missed', 'a "cat", big', None, 0.25, 'note')
SHARP = ExampleError('background', 'dog', 1 / 3, None)


def bars(name):
    return Figure(name, name.title(), lambda figure: plots.bars(figure, {'a': 1.0}, 'b'))


def analyzed(count=2):
    place = Place('photos/cat 1.jpg', '/data/a.tfrecord', 7)
    unknown = Place('', '', -1)
    table = Table(
        'numbers', 'Numbers', ['a', 'b'], [('x', 1 / 3), ('y', None), ('z', float('nan'))]
    )
    examples = [
        WorstExample(place, [ERROR, SHARP], {'value': 9}, {}, {}),
        WorstExample(unknown, [SHARP], {'value': 0}, {}, {}),
    ]
    return Analyzed(
        count,
        [Section('Only', [table, bars('figure')])],
        examples,
        iter([(place, ERROR), (unknown, SHARP)]),
    )


def draw(example):
    """Draw nothing for the second example."""
    value = example.features['value']
    return np.full([10, 20, 3], value, np.uint8) if value else None


def write(folder, **options):
    return files.write(str(folder), analyzed(), draw, {'m': 0.5}, 'Title', 'Subtitle', **options)


def drawn_labels():
    figures = [bars('one'), bars('two')]
    drawings = {figure.name: rendering.render(figure) for figure in figures}
    return DrawnLabels(Section('Labels', figures), drawings)


def test_all_files(tmp_path):
    folder = tmp_path / 'analysis' / '7'
    path = write(folder, labels=drawn_labels())
    assert path == str(folder / 'report.html')
    found = {str(each.relative_to(folder)) for each in folder.rglob('*') if each.is_file()}
    assert found == {
        *('report.html', 'errors.csv', 'numbers.csv', 'figure.png', 'one.png', 'two.png'),
        *('labels.png', 'worst/001_cat_1.jpg'),
    }
    assert os.listdir(tmp_path / 'analysis') == ['7']
    rows = list(csv.DictReader(io.StringIO((folder / 'errors.csv').read_text())))
    assert rows == [
        {
            'image': 'photos/cat 1.jpg',
            'file': '/data/a.tfrecord',
            'record': '7',
            'error': 'missed',
            'class': 'a "cat", big',
            'score': '',
            'iou': '0.25',
            'note': 'note',
        },
        {
            'image': '',
            'file': '',
            'record': '',
            'error': 'background',
            'class': 'dog',
            'score': '0.333333',
            'iou': '',
            'note': '',
        },
    ]
    assert (folder / 'numbers.csv').read_text() == 'a,b\nx,0.333333\ny,\nz,\n'
    one, labels = Image.open(folder / 'one.png'), Image.open(folder / 'labels.png')
    assert labels.size == (2 * one.size[0] + 8, one.size[1])
    page = (folder / 'report.html').read_text()
    assert 'src="http' not in page and 'data:image/jpeg;base64,' in page
    assert 'missed: a &quot;cat&quot;, big, IoU 0.25 (note)' in page


def test_an_older_analysis_is_replaced(tmp_path):
    folder = tmp_path / '7'
    folder.mkdir()
    (folder / 'old.txt').write_text('')
    (tmp_path / '.7.unfinished').mkdir()
    write(folder)
    assert not (folder / 'old.txt').exists() and (folder / 'report.html').exists()
    assert os.listdir(tmp_path) == ['7']


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / 'analysis').write_text('a file')
    with pytest.raises(errors.UserError, match=r'analysis/7 cannot be written: .*\.$'):
        write(tmp_path / 'analysis' / '7')


def test_an_interrupted_analysis_is_not_seen(tmp_path):
    def interrupt(example):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(str(tmp_path / '7'), analyzed(), interrupt, {}, 'a', 'b')
    assert not (tmp_path / '7').exists()
