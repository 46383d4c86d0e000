"""`--from=voc`, through the command."""

import numpy as np
import pytest

from model_fns.datasets.rotated import boxes as rotated
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.converted import boxes, records_of, run, values, write_image

VOC = """<annotation><size><width>30</width><height>20</height></size>{objects}</annotation>"""
OBJECT = (
    '<object><name>cell</name><difficult>1</difficult><bndbox><xmin>3</xmin><ymin>5</ymin>'
    '<xmax>30</xmax><ymax>15</ymax></bndbox></object>'
)


def convert(folder, content, *more):
    write_image(folder / 'JPEGImages' / 'a.png')
    write_image(folder / 'JPEGImages' / 'without_annotation.png')
    (folder / 'Annotations').mkdir(exist_ok=True)
    if content is not None:
        (folder / 'Annotations' / 'a.xml').write_text(content)
    return run(
        '--from=voc',
        f'--images={folder / "JPEGImages"}',
        f'--annotations={folder / "Annotations"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def test_a_record(tmp_path):
    assert convert(tmp_path, VOC.format(objects=OBJECT)) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert boxes(feature) == pytest.approx(np.array([[0.25, 0.1, 0.75, 1.0]]))
    assert values(feature, 'image/object/class/label') == [1]
    assert values(feature, 'image/object/class/text') == [b'cell']
    assert values(feature, 'image/object/difficult') == [1]
    assert values(feature, 'image/object/truncated') == [0]
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell'}


def test_a_file_of_another_stem_belongs_to_the_image_that_it_names(tmp_path):
    content = VOC.format(objects=f'<filename>C:\\photos\\a.png</filename>{OBJECT}')
    (tmp_path / 'Annotations').mkdir()
    (tmp_path / 'Annotations' / '0001.xml').write_text(content)
    assert convert(tmp_path, None) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/filename') == [b'a.png']
    assert values(feature, 'image/object/class/text') == [b'cell']
    # Of two files that name it, none is taken.
    (tmp_path / 'Annotations' / '0002.xml').write_text(content)
    assert convert(tmp_path, None) == 2


def test_an_image_without_objects(tmp_path):
    LabelMap.from_names(['cell']).write(str(tmp_path / 'map.pbtxt'))
    assert convert(tmp_path, VOC.format(objects='')) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/bbox/ymin') == []


@pytest.mark.parametrize(
    'old, new, expected',
    [
        ('<xmax>30', '<xmax>1', 'is inverted'),
        (
            '3</xmin><ymin>5</ymin><xmax>30',
            '31</xmin><ymin>5</ymin><xmax>40',
            'is outside of the image, which has 20 x 30 pixels',
        ),
        ('<xmax>30', '<xmax>', "<xmax> of <bndbox> is ''; expected a number"),
        ('<xmax>30', '<xmax>nan', "<xmax> of <bndbox> is 'nan'; expected a number"),
        ('<xmax>30', '<xmax>1e400', "<xmax> of <bndbox> is '1e400'"),
        ('<xmax>30', '<xmax>right', "<xmax> of <bndbox> is 'right'"),
        ('<difficult>1', '<difficult>maybe', "<difficult> of <object> is 'maybe'"),
        ('<name>cell</name>', '', 'there is no <name>'),
        ('bndbox', 'box', 'there is no <bndbox>'),
        ('<name>cell</name>', '<name>cel</name>', "class 'cel' is not in the label map; did you"),
    ],
)
def test_one_bad_object_is_named_and_left_out(tmp_path, capsys, old, new, expected):
    LabelMap.from_names(['cell']).write(str(tmp_path / 'map.pbtxt'))
    content = VOC.format(objects=OBJECT + OBJECT.replace(old, new))
    assert convert(tmp_path, content) == 2
    said = capsys.readouterr().err
    assert 'a.xml: object 2: ' in said and expected in said
    assert 'Traceback' not in said and '1 problem:' in said
    assert convert(tmp_path, content, '--on_error=skip') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert boxes(feature) == pytest.approx(np.array([[0.25, 0.1, 0.75, 1.0]]))


@pytest.mark.parametrize(
    'content, expected',
    [
        ('<annotation>', 'a.xml is not XML: no element found'),
        (
            VOC.format(objects=OBJECT).replace('<width>30', '<width>wide'),
            "<width> of <size> is 'wide'; expected a number",
        ),
        (
            VOC.format(objects=OBJECT).replace('<height>20', '<height>21'),
            'of an image of 21 x 30 pixels; the image has 20 x 30',
        ),
    ],
)
def test_files_that_are_wrong_as_a_whole(tmp_path, capsys, content, expected):
    LabelMap.from_names(['cell']).write(str(tmp_path / 'map.pbtxt'))
    assert convert(tmp_path, content) == 2
    said = capsys.readouterr().err
    assert expected in said and 'a.png: ' in said and 'Traceback' not in said


@pytest.mark.parametrize('encoding, codec', [('gb2312', 'gb18030'), ('Big5', 'big5')])
def test_encodings_that_the_parser_does_not_know(tmp_path, encoding, codec):
    content = VOC.format(objects=OBJECT.replace('cell', '細胞'))
    content = f'<?xml version="1.0" encoding="{encoding}"?>\n{content}'
    assert convert(tmp_path, '') == 2
    (tmp_path / 'Annotations' / 'a.xml').write_bytes(content.encode(codec))
    assert convert(tmp_path, None) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/class/text') == ['細胞'.encode()]


@pytest.mark.parametrize('encoding', ['klingon', 'hex', 'utf-32'])
def test_encodings_that_nobody_knows(tmp_path, capsys, encoding):
    content = VOC.format(objects=OBJECT)
    content = f'<?xml version="1.0" encoding="{encoding}"?>{content}'
    assert convert(tmp_path, content) == 2
    said = capsys.readouterr().err
    assert 'a.xml is not XML: ' in said and 'Traceback' not in said
    # Nothing was readable: that is the fault, not the label map.
    assert 'None of the 1 annotations names a class' in said


def test_unspecified_flags_are_not_set(tmp_path):
    assert convert(tmp_path, VOC.format(objects=OBJECT.replace('>1<', '>Unspecified<'))) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    assert values(feature, 'image/object/difficult') == [0]


def test_images_without_annotation_are_counted(tmp_path, capsys):
    assert convert(tmp_path, VOC.format(objects=OBJECT)) == 0
    said = capsys.readouterr().err
    assert 'left out: 1 image has no annotation in' in said
    assert 'without_annotation.png' in said
    (tmp_path / 'Annotations' / 'alone.xml').write_text(VOC.format(objects=OBJECT))
    assert convert(tmp_path, VOC.format(objects=OBJECT)) == 2
    assert 'has the stem of 1 XML file: alone.xml.' in capsys.readouterr().err


def test_an_unknown_class_has_one_line(tmp_path, capsys):
    LabelMap.from_names(['cell']).write(str(tmp_path / 'map.pbtxt'))
    other = OBJECT.replace('cell', 'dog')
    assert convert(tmp_path, VOC.format(objects=other * 3 + OBJECT)) == 2
    said = capsys.readouterr().err
    assert '1 problem:' in said and "3 like this: class 'dog' is not in the label map" in said
    assert said.count("class 'dog' is not in the label map") == 1


def test_bad_files_do_not_hide_the_class_names(tmp_path, capsys):
    assert convert(tmp_path, VOC.format(objects=OBJECT)) == 0
    (tmp_path / 'map.pbtxt').unlink()
    write_image(tmp_path / 'JPEGImages' / 'b.png')
    (tmp_path / 'Annotations' / 'b.xml').write_text('no xml')
    assert convert(tmp_path, VOC.format(objects=OBJECT), '--on_error=skip') == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell'}


@pytest.mark.parametrize(
    'element',
    [
        '<robndbox><cx>15</cx><cy>10</cy><w>12</w><h>4</h><angle>0.5</angle></robndbox>',
        '<robndbox><x_left_top>10.693543</x_left_top><y_left_top>5.368279</y_left_top>'
        '<x_right_top>21.224534</x_right_top><y_right_top>11.121386</y_right_top>'
        '<x_right_bottom>19.306457</x_right_bottom><y_right_bottom>14.631721</y_right_bottom>'
        '<x_left_bottom>8.775466</x_left_bottom><y_left_bottom>8.878614</y_left_bottom>'
        '</robndbox>',
    ],
)
def test_rotated_boxes(tmp_path, element):
    turned = f'<object><name>cell</name>{element}</object>'
    # The second has an axis-aligned box alone.
    assert convert(tmp_path, VOC.format(objects=turned + OBJECT), '--boxes=rotated') == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    numbers = np.array([values(feature, key) for key in rotated.KEYS]).T * [20, 30, 20, 30, 1]
    np.testing.assert_allclose(numbers[0], [10, 15, 4, 12, 0.5], atol=1e-3)
    np.testing.assert_allclose(numbers[1], [10, 16.5, 10, 27, 0], atol=1e-3)
    assert values(feature, 'image/object/bbox/ymin') == []


def test_rotated_boxes_without_asking_for_them(tmp_path, capsys):
    element = '<robndbox><cx>15</cx><cy>10</cy><w>12</w><h>4</h><angle>0.5</angle></robndbox>'
    content = VOC.format(objects=f'<object><name>cell</name>{element}</object>')
    assert convert(tmp_path, content) == 2
    assert (
        "'cell' has a <robndbox> and no <bndbox>; expected --boxes=rotated"
        in capsys.readouterr().err
    )
