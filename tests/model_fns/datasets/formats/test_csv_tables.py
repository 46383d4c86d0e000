"""`--from=csv`, through the command."""

import numpy as np
import pytest

from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, records_of, run, values, write_image

BOXES = """filename,width,height,class,xmin,ymin,xmax,ymax
a.png,30,20,cat,3,5,9,15
a.png,30,20,dog,0,0,30,20
b.png,,,,,,,
"""
LABELS = 'Label;File\ncat;a.png\ndog;b.png\n'

BBOX = 'filename,class,bbox\na.png,cat,"[3, 5, 6, 10]"\n'


def convert(folder, text, *more):
    for name in ('a', 'b', 'c'):
        write_image(folder / 'images' / f'{name}.png')
    (folder / 'table.csv').write_text(text)
    return run(
        '--from=csv',
        f'--images={folder / "images"}',
        f'--annotations={folder / "table.csv"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def test_boxes(tmp_path, capsys):
    assert convert(tmp_path, BOXES) == 0
    found = records_of(tmp_path / 'out' / 'train')
    assert sorted(found) == ['a.png', 'b.png']
    sides = [20, 30, 20, 30]
    np.testing.assert_allclose(boxes(found['a.png']) * sides, [[5, 3, 15, 9], [0, 0, 20, 30]])
    assert values(found['a.png'], 'image/object/class/text') == [b'cat', b'dog']
    assert not values(found['b.png'], 'image/object/class/label')
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    said = capsys.readouterr().err
    assert '1 image has no line in' in said and 'c.png' in said


@pytest.mark.parametrize(
    'text',
    [
        'filename,class,x1,y1,x2,y2\na.png,cat,3,5,9,15\n',
        'filename,class,x0,y0,x1,y1\na.png,cat,3,5,9,15\n',
        'image_path,label,left,top,right,bottom\nphotos/a.png,cat,3,5,9,15\n',
        'ImageID,LabelName,XMin,XMax,YMin,YMax\na,cat,3,9,5,15\n',
        'file name;category;bbox_x;bbox_y;bbox_width;bbox_height\na.png;cat;3;5;6;10\n',
        'filename\tclass\tx\ty\tw\th\na.png\tcat\t3\t5\t6\t10\n',
        'filename,class,x,y,width,height\na.png,cat,3,5,6,10\n',
        'filename,width,height,class,box_x,box_y,box_width,box_height\na.png,30,20,cat,3,5,6,10\n',
        'filename,class,left,top,width,height,image_width,image_height\na.png,cat,3,5,6,10,30,20\n',
        'filename,class,x_center,y_center,width,height\na.png,cat,6,10,6,10\n',
        'filename,class,xtl,ytl,xbr,ybr\nC:\\data\\a.png,cat,3,5,9,15\n',
        'filename,class,bbox\na.png,cat,3 5 6 10\n',
        BBOX,
    ],
)  # fmt: skip
def test_usual_spellings_of_boxes(tmp_path, text):
    assert convert(tmp_path, text) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    np.testing.assert_allclose(boxes(feature) * [20, 30, 20, 30], [[5, 3, 15, 9]], atol=1e-5)
    assert values(feature, 'image/object/class/text') == [b'cat']


def test_a_column_for_each_class(tmp_path):
    text = 'filename, dog, Cat\na.png, 0, 1\nb.png, 1, 1\nc.png, 0, 0\n'
    assert convert(tmp_path, text) == 0
    found = records_of(tmp_path / 'out' / 'train')
    texts = {name: values(one, 'image/class/text') for name, one in found.items()}
    assert texts == {'a.png': [b'Cat'], 'b.png': [b'dog', b'Cat'], 'c.png': []}
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'dog', 2: 'Cat'}


def test_cells_may_have_line_breaks_and_quotes(tmp_path, capsys):
    text = 'filename,note,class\r\na.png,"two\r\nlines, ""quoted""",cat\r\nmissing.png,,dog\r\n'
    assert convert(tmp_path, text, '--on_error=skip') == 0
    assert list(records_of(tmp_path / 'out' / 'train')) == ['a.png']
    assert 'the columns note are not read' in capsys.readouterr().err


def test_labels(tmp_path):
    assert convert(tmp_path, LABELS) == 0
    found = records_of(tmp_path / 'out' / 'train')
    labels = {name: values(one, 'image/class/label') for name, one in found.items()}
    assert labels == {'a.png': [1], 'b.png': [2]}
    assert values(found['b.png'], 'image/class/text') == [b'dog']


def test_an_image_may_have_several_labels_or_none(tmp_path):
    text = 'filename,class\na.png,dog\nb.png,\na.png,cat\na.png,dog\n'
    assert convert(tmp_path, text) == 0
    found = records_of(tmp_path / 'out' / 'train')
    assert values(found['a.png'], 'image/class/label') == [2, 1]
    assert values(found['a.png'], 'image/class/text') == [b'dog', b'cat']
    assert values(found['b.png'], 'image/class/label') == []


def test_a_split_keeps_the_proportions_of_labels(tmp_path):
    text = 'filename,class\n'
    for index in range(8):
        write_image(tmp_path / 'images' / f'{index}.png')
        text += f'{index}.png,{"cat" if index % 4 else "dog"}\n'
    assert convert(tmp_path, text, '--split=train:0.5,val:0.5') == 0
    for part in ('train', 'val'):
        found = records_of(tmp_path / 'out' / f'train-{part}')
        assert sorted(values(one, 'image/class/label')[0] for one in found.values()) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('', 'table.csv has no lines below the column names'),
        ('filename,class\n', 'has no lines below'),
        ('a,b\n1,2\n', "has the columns 'a, b'; expected filename and class"),
        ('filename,class,xmin\na.png,cat,1\n', 'the columns xmin are of boxes, it seems; expected'),
        (
            'filename,class,width,height,xmin,ymin,xmax\na.png,cat,9,9,1,2,3\n',
            'the columns xmin, ymin, xmax are of boxes, it seems',
        ),
        ('filename,cat,dog\na.png,1,2\n', 'or a column of 0 and 1 for each class'),
        (
            'filename,class\na.png,"cat\nb.png,dog\nc.png,"dog\n',
            'table.csv, line 2: a quote is not closed',
        ),
        ('filename,class\na.png,cat\nb.png,"dog\n', 'table.csv, line 3: a quote is not closed'),
        ('filename,class\na.png,"cat"s\n', 'line 2: text follows a closed quote'),
        (
            'filename,class\na.png,"cat\nb.png,dog"\n',
            'line 2: the class has a line break; a quote is not closed, it seems',
        ),
        (BBOX.replace('6, 10', '6'), "line 2: bbox is '[3, 5, 6]'; expected four numbers"),
        ('filename,class,class\na.png,b,c\n', 'two columns of the same name'),
        ('filename,class\na.png\n', 'line 2: 1 cells; expected 2'),
        ('filename,class\n../d.png,cat\n', "line 2: '../d.png' is not a path in --images"),
        ('filename,class\n/d.png,cat\n', 'is not a path in --images'),
        ('filename,class\nmissing.png,cat\n', 'missing.png: there is no such file'),
        (BOXES.replace('3,5,9', 'x,5,9'), "line 2: xmin is 'x'; expected a number of pixels"),
        (BOXES.replace('3,5,9', 'nan,5,9'), 'line 2: the box [5, nan, 15, 9]'),
        (BOXES.replace('3,5,9', '9,5,3'), 'is inverted'),
        (BOXES.replace('30,20,cat', '31,20,cat'), 'the annotation is of an image of 20 x 31'),
        (BOXES.replace('30,20,cat', 'x,20,cat'), "width is 'x'; expected a number of pixels"),
        ('filename,class\na.png,"' + 'x' * 200_000 + '"\n', 'field larger than field limit'),
    ],
)  # fmt: skip
def test_malformed_tables_get_one_sentence(tmp_path, capsys, text, said):
    assert convert(tmp_path, text) == 2
    found = capsys.readouterr().err
    assert said in found.replace('there is no such image', 'x'), found
    assert 'Traceback' not in found
