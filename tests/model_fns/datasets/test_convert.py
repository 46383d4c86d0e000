import json

import numpy as np
import pytest
import tensorflow as tf

from model_fns import images
from model_fns.datasets import codecs, convert
from model_fns.label_map import LabelMap


def run(*arguments):
    try:
        convert.main(list(map(str, arguments)))
    except SystemExit as ending:
        return ending.code
    return 0


def write_image(path, height=20, width=30, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codecs.encode_png(np.full([height, width, 3], value, np.uint8)))


def records_of(prefix):
    """Features of all records by source id."""
    found = {}
    for path in sorted(prefix.parent.glob(prefix.name + '-*.tfrecord')):
        for serialized in tf.compat.v1.io.tf_record_iterator(str(path)):
            feature = tf.train.Example.FromString(serialized).features.feature
            found[feature['image/source_id'].bytes_list.value[0].decode()] = feature
    return found


def numbers(feature, key):
    kind = feature[key].WhichOneof('kind')
    return list(getattr(feature[key], kind).value) if kind else []


@pytest.fixture
def classes_folder(tmp_path):
    for name in ('dog', 'cat'):
        for index in range(3):
            write_image(tmp_path / 'photos' / name / f'{name}{index}.png', value=index)
    return tmp_path


def convert_folders(folder, *more):
    return run(
        '--from=folders',
        f'--images={folder / "photos"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=2',
        *more,
    )


def test_folders(classes_folder):
    assert convert_folders(classes_folder) == 0
    names = sorted(path.name for path in (classes_folder / 'out').iterdir())
    assert names == ['train-00000-of-00002.tfrecord', 'train-00001-of-00002.tfrecord']
    assert LabelMap.read(str(classes_folder / 'map.pbtxt')).names == {1: 'cat', 2: 'dog'}
    found = records_of(classes_folder / 'out' / 'train')
    assert len(found) == 6
    feature = found['dog/dog1.png']
    assert numbers(feature, 'image/class/label') == [2]
    assert numbers(feature, 'image/class/text') == [b'dog']
    assert numbers(feature, 'image/height') == [20]
    assert numbers(feature, 'image/width') == [30]
    assert numbers(feature, 'image/format') == [b'png']


def test_a_label_map_that_exists_is_read(classes_folder, capsys):
    LabelMap.from_names(['dog', 'mouse', 'cat']).write(str(classes_folder / 'map.pbtxt'))
    assert convert_folders(classes_folder) == 0
    found = records_of(classes_folder / 'out' / 'train')
    assert numbers(found['cat/cat0.png'], 'image/class/label') == [3]


def test_a_class_that_the_label_map_lacks_is_named(classes_folder, capsys):
    LabelMap.from_names(['dog', 'cats']).write(str(classes_folder / 'map.pbtxt'))
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert "class 'cat' is not in the label map; did you mean 'cats'?" in said
    assert 'cat0.png' in said and 'Traceback' not in said
    assert not list((classes_folder / 'out').glob('*.tfrecord'))


def test_what_does_not_decode_is_listed_or_left_out(classes_folder, capsys):
    (classes_folder / 'photos' / 'cat' / 'broken.jpg').write_bytes(b'\xff\xd8\xff\xe0 broken')
    assert convert_folders(classes_folder) == 2
    assert 'broken.jpg' in capsys.readouterr().err
    assert convert_folders(classes_folder, '--on_error=skip') == 0
    assert len(records_of(classes_folder / 'out' / 'train')) == 6


def test_folders_without_images_and_other_formats_are_problems(classes_folder, capsys):
    (classes_folder / 'photos' / 'emu').mkdir()
    (classes_folder / 'photos' / 'dog' / 'dog9.webp').write_bytes(b'RIFF')
    (classes_folder / 'photos' / 'dog' / 'notes.txt').write_text('no picture')
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert 'emu: there are no images' in said and 'dog9.webp: not JPEG' in said
    assert 'notes' not in said
    assert {path.name for path in classes_folder.iterdir()} == {'photos', 'out'}
    assert not list((classes_folder / 'out').iterdir())
    assert convert_folders(classes_folder, '--on_error=skip') == 0
    assert len(records_of(classes_folder / 'out' / 'train')) == 6
    assert 'emu' in LabelMap.read(str(classes_folder / 'map.pbtxt'))


def test_all_problems_are_listed(classes_folder, capsys):
    for index in range(30):
        (classes_folder / 'photos' / 'cat' / f'empty{index}.png').write_bytes(b'')
    assert convert_folders(classes_folder) == 2
    said = capsys.readouterr().err
    assert '30 problems' in said
    assert all(f'empty{index}.png: the image is empty' in said for index in range(30))


def test_nothing_to_convert_is_an_error(classes_folder, capsys):
    (classes_folder / 'list.txt').write_text('\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 2
    assert 'no image to convert' in capsys.readouterr().err
    for path in (classes_folder / 'photos').rglob('*.png'):
        path.write_bytes(b'')
    assert convert_folders(classes_folder, '--on_error=skip') == 2
    assert 'Nothing is left to write' in capsys.readouterr().err


def test_a_list_does_not_change_the_classes(classes_folder):
    (classes_folder / 'list.txt').write_text('dog2\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 0
    found = records_of(classes_folder / 'out' / 'train')
    assert numbers(found['dog/dog2.png'], 'image/class/label') == [2]


def test_the_real_signs(shared, tmp_path):
    folder = shared / 'data' / 'sign_digits'
    if not folder.is_dir():
        pytest.skip('the photographs of signs are not here')
    status = run(
        '--from=folders',
        f'--images={folder / "test"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "test"}',
    )
    assert status == 0
    found = records_of(tmp_path / 'test')
    assert len(found) == len(list((folder / 'test').glob('*/*'))) == 409
    names = LabelMap.read(str(tmp_path / 'map.pbtxt')).names
    assert names == {i + 1: str(i) for i in range(10)}
    for source_id, feature in found.items():
        (label,) = numbers(feature, 'image/class/label')
        assert names[label] == source_id.split('/')[0]


def test_a_list_takes_some(classes_folder):
    (classes_folder / 'list.txt').write_text('cat1\ndog2 -1\n')
    assert convert_folders(classes_folder, f'--list={classes_folder / "list.txt"}') == 0
    assert set(records_of(classes_folder / 'out' / 'train')) == {'cat/cat1.png', 'dog/dog2.png'}


@pytest.mark.parametrize(
    'flags, expected',
    [
        (['--from=vok'], "'vok'"),
        (['--num_shards=0'], 'expected at least 1'),
        (['--list=nowhere'], 'there is no file nowhere'),
        (['--images=nowhere'], 'no folder nowhere'),
        (['--from=voc'], 'needs --annotations'),
        (['--from=coco'], 'needs --annotations'),
    ],
)
def test_bad_usage_gets_one_sentence(classes_folder, capsys, flags, expected):
    assert convert_folders(classes_folder, *flags) == 2
    said = capsys.readouterr().err
    assert said.startswith('error: ') and expected in said


VOC = """<annotation><size><width>30</width><height>20</height></size>
<object><name>{name}</name><difficult>1</difficult>
<bndbox><xmin>3</xmin><ymin>5</ymin><xmax>{xmax}</xmax><ymax>15</ymax></bndbox></object>
</annotation>"""


def convert_voc(folder, xmax=30, name='cell', *more):
    write_image(folder / 'JPEGImages' / 'a.png')
    write_image(folder / 'JPEGImages' / 'without_annotation.png')
    (folder / 'Annotations').mkdir(exist_ok=True)
    (folder / 'Annotations' / 'a.xml').write_text(VOC.format(name=name, xmax=xmax))
    return run(
        '--from=voc',
        f'--images={folder / "JPEGImages"}',
        f'--annotations={folder / "Annotations"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
        *more,
    )


def test_voc(tmp_path):
    assert convert_voc(tmp_path) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    box = [numbers(feature, f'image/object/bbox/{side}')[0] for side in ('ymin', 'xmin')]
    assert box == pytest.approx([0.25, 0.1])
    box = [numbers(feature, f'image/object/bbox/{side}')[0] for side in ('ymax', 'xmax')]
    assert box == pytest.approx([0.75, 1.0])
    assert numbers(feature, 'image/object/class/label') == [1]
    assert numbers(feature, 'image/object/class/text') == [b'cell']
    assert numbers(feature, 'image/object/difficult') == [1]


@pytest.mark.parametrize('xmax, expected', [(1, 'is inverted'), (40, 'reaches outside')])
def test_voc_boxes_are_checked(tmp_path, capsys, xmax, expected):
    assert convert_voc(tmp_path, xmax) == 2
    assert expected in capsys.readouterr().err


def test_voc_size_is_checked(tmp_path, capsys):
    assert convert_voc(tmp_path) == 0
    write_image(tmp_path / 'JPEGImages' / 'a.png', height=21)
    status = run(
        '--from=voc',
        f'--images={tmp_path / "JPEGImages"}',
        f'--annotations={tmp_path / "Annotations"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "out" / "train"}',
        '--num_shards=1',
    )
    assert status == 2
    assert '20 x 30 pixels; the image has 21 x 30' in capsys.readouterr().err


COCO = {
    'images': [{'id': 7, 'file_name': 'a.png', 'height': 20, 'width': 30}],
    'categories': [{'id': 18, 'name': 'dog'}, {'id': 3, 'name': 'car'}],
    'annotations': [
        {
            'id': 1,
            'image_id': 7,
            'category_id': 18,
            'bbox': [3, 5, 6, 10],
            'area': 55.5,
            'iscrowd': 0,
            'segmentation': [[3, 5, 9, 5, 9, 15, 3, 15]],
            'keypoints': [6, 10, 2, 0, 0, 0],
            'num_keypoints': 1,
        },
        {
            'id': 2,
            'image_id': 7,
            'category_id': 3,
            'bbox': [0, 0, 30, 20],
            'area': 2,
            'iscrowd': 1,
            # Column by column: 1 zero, 2 ones, the rest zeros.
            'segmentation': {'size': [20, 30], 'counts': [1, 2, 597]},
        },
    ],
}


def test_coco(tmp_path):
    write_image(tmp_path / 'images' / 'a.png')
    (tmp_path / 'instances.json').write_text(json.dumps(COCO))
    status = run(
        '--from=coco',
        f'--images={tmp_path / "images"}',
        f'--annotations={tmp_path / "instances.json"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "out" / "train"}',
        '--num_shards=1',
    )
    assert status == 0
    # Ids of a label map have no gaps: the categories keep their order.
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'car', 2: 'dog'}
    feature = records_of(tmp_path / 'out' / 'train')['7']
    assert numbers(feature, 'image/object/class/label') == [2, 1]
    assert numbers(feature, 'image/object/is_crowd') == [0, 1]
    assert numbers(feature, 'image/object/area') == [55.5, 2]
    assert numbers(feature, 'image/object/bbox/xmax') == pytest.approx([0.3, 1.0])
    assert numbers(feature, 'image/object/keypoint/x') == pytest.approx([0.2, 0, 0, 0])
    assert numbers(feature, 'image/object/keypoint/visibility') == [2, 0, 0, 0]
    masks = [decode(png) for png in numbers(feature, 'image/object/mask')]
    assert masks[0].sum() == 60 and masks[0][5:15, 3:9].all()
    assert masks[1].sum() == 2 and masks[1][1:3, 0].all()


def decode(png):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(images.decode_image(tf.constant(png), channels=1))[:, :, 0]


@pytest.mark.parametrize(
    'content, expected', [('{', 'is not JSON'), ('{"images": []}', 'has no "annotations"')]
)
def test_coco_files_are_checked(tmp_path, capsys, content, expected):
    (tmp_path / 'instances.json').write_text(content)
    status = run(
        '--from=coco',
        f'--images={tmp_path}',
        f'--annotations={tmp_path / "instances.json"}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "out" / "train"}',
    )
    assert status == 2 and expected in capsys.readouterr().err
