import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from model_fns.datasets import codecs, convert
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.id_files import png

IDS = np.zeros([6, 8], np.int32)
IDS[1:4, 2:5] = 1
IDS[4:, 5:] = 3
IDS[0, :] = 255


def run(folder, *more):
    try:
        convert.main(
            [
                '--from=masks',
                f'--images={folder / "images"}',
                f'--annotations={folder / "labels"}',
                f'--label_map={folder / "map.pbtxt"}',
                f'--output_prefix={folder / "out" / "train"}',
                '--num_shards=1',
                *more,
            ]
        )
    except SystemExit as ending:
        return ending.code
    return 0


def write(folder, stem, annotation, size=(6, 8)):
    for name in ('images', 'labels'):
        (folder / name).mkdir(exist_ok=True)
    image = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    (folder / 'images' / f'{stem}.png').write_bytes(codecs.encode_png(image))
    if annotation is not None:
        (folder / 'labels' / f'{stem}.png').write_bytes(annotation)


def classes_of(folder, dtype=tf.uint8):
    """Class ids of each record by source id."""
    found = {}
    for path in (folder / 'out').glob('*.tfrecord'):
        for serialized in tf.compat.v1.io.tf_record_iterator(str(path)):
            feature = tf.train.Example.FromString(serialized).features.feature
            encoded = feature['image/segmentation/class/encoded'].bytes_list.value[0]
            assert feature['image/segmentation/class/format'].bytes_list.value == [b'png']
            source_id = feature['image/source_id'].bytes_list.value[0].decode()
            found[source_id] = tf.io.decode_png(encoded, dtype=dtype).numpy()[..., 0]
    return found


def test_a_label_map_may_name_class_0(tmp_path):
    write(tmp_path, 'a', png(IDS))
    names = ('road', 'car', 'sky', 'tree')
    items = [f"item {{ id: {key} name: '{name}' }}" for key, name in enumerate(names)]
    (tmp_path / 'map.pbtxt').write_text(' '.join(items))
    assert run(tmp_path) == 0
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], IDS)


def test_gray_files_and_palettes_give_the_same_ids(tmp_path):
    write(tmp_path, 'gray', png(IDS))
    write(tmp_path, 'palette', png(IDS, 8, palette=True))
    write(tmp_path, 'few', png(np.minimum(IDS, 3), 2, palette=True))
    write(tmp_path, 'no_label', None)
    assert run(tmp_path) == 0
    found = classes_of(tmp_path)
    assert sorted(found) == ['few.png', 'gray.png', 'palette.png']
    np.testing.assert_array_equal(found['gray.png'], IDS)
    np.testing.assert_array_equal(found['palette.png'], IDS)
    np.testing.assert_array_equal(found['few.png'], np.minimum(IDS, 3))
    names = LabelMap.read(str(tmp_path / 'map.pbtxt')).names
    assert names == {1: 'class_1', 2: 'class_2', 3: 'class_3'}


def test_values_that_are_no_class_are_named_with_the_file(tmp_path, capsys):
    LabelMap.from_names(['cat', 'dog']).write(str(tmp_path / 'map.pbtxt'))
    write(tmp_path, 'good', png(np.minimum(IDS, 2)))
    wrong = IDS.copy()
    wrong[2, 2] = 77
    write(tmp_path, 'wrong', png(wrong))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert 'wrong.png has the values 3, 77; expected ids of the label map (1, 2), or 0, the' in said
    assert '--mask_values, like 0:background,255:cell' in said
    assert 'good' not in said
    assert run(tmp_path, '--on_error=skip') == 0
    assert sorted(classes_of(tmp_path)) == ['good.png']


def colored(ids):
    file = io.BytesIO()
    palette = np.zeros([256, 3], np.uint8)
    palette[[1, 3, 255]] = [[255, 0, 0], [0, 0, 255], [1, 2, 3]]
    Image.fromarray(palette[ids]).save(file, 'PNG')
    return file.getvalue()


def test_files_of_colors(tmp_path, capsys):
    write(tmp_path, 'a', colored(IDS))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert 'the annotation is a PNG of colors, 8 bits' in said
    assert '--mask_colors tells which class each color means, like #000000:background' in said
    colors = '#000000:background,#ff0000:cell,#0000FF:nucleus'
    assert run(tmp_path, f'--mask_colors={colors}') == 2
    said = capsys.readouterr().err
    assert 'has the values #010203; expected those of --mask_colors (#000000, #0000ff' in said
    assert run(tmp_path, f'--mask_colors={colors},#010203:ignore') == 0
    expected = np.select([IDS == 1, IDS == 3, IDS == 255], [1, 2, 255], 0)
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], expected)
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell', 2: 'nucleus'}


@pytest.mark.parametrize('text', ['ff0000:cell', '#ff00:cell', '#ff0000:', '#ff0000:a,#FF0000:b'])
def test_colors_that_are_none(tmp_path, capsys, text):
    write(tmp_path, 'a', colored(IDS))
    assert run(tmp_path, f'--mask_colors={text}') == 2
    assert '--mask_colors' in capsys.readouterr().err


def test_the_folders_of_cityscapes(tmp_path, capsys):
    for city, stem in (('bonn', 'bonn_1'), ('ulm', 'ulm_1'), ('ulm', 'ulm_2')):
        write(tmp_path, 'x', png(IDS))
        for kind, suffix in (('images', '_left'), ('labels', '_gt_ids')):
            (tmp_path / kind / city).mkdir(exist_ok=True)
            (tmp_path / kind / 'x.png').rename(tmp_path / kind / city / f'{stem}{suffix}.png')
    (tmp_path / 'labels' / 'ulm' / 'ulm_2_gt_ids.png').unlink()
    write(tmp_path, 'other', png(IDS))
    (tmp_path / 'labels' / 'ulm' / 'ulm_1_gt_color.png').write_bytes(colored(IDS))
    assert run(tmp_path, '--image_suffix=_left', '--annotation_suffix=_gt_ids') == 0
    found = classes_of(tmp_path)
    assert sorted(found) == ['bonn/bonn_1_left.png', 'ulm/ulm_1_left.png']
    np.testing.assert_array_equal(found['ulm/ulm_1_left.png'], IDS)
    said = capsys.readouterr().err
    assert 'left out: 1 image has no annotation in' in said
    assert 'ulm_2_left.png' in said


def test_another_ignore_label_is_written_as_255(tmp_path, capsys):
    LabelMap.from_names(['cat', 'dog', 'emu']).write(str(tmp_path / 'map.pbtxt'))
    write(tmp_path, 'a', png(np.where(IDS == 255, 11, IDS)))
    assert run(tmp_path) == 2
    assert 'has the values 11' in capsys.readouterr().err
    assert run(tmp_path, '--ignore_label=11') == 0
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], IDS)


def test_no_ignore_label(tmp_path, capsys):
    LabelMap.from_names(['cat', 'dog', 'emu']).write(str(tmp_path / 'map.pbtxt'))
    write(tmp_path, 'a', png(IDS))
    assert run(tmp_path, '--ignore_label=none') == 2
    said = capsys.readouterr().err
    assert 'has the values 255; expected ids of the label map (1, 2, 3), or 0, the background.' in (
        said
    )


def test_0_and_255_are_told_by_mask_values(tmp_path, capsys):
    binary = np.where(IDS == 1, 255, 0)
    write(tmp_path, 'a', png(binary))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert '1 of 1 masks have no pixel of a class: all are 0, the background, or 255' in said
    assert '--mask_values, like 0:background,255:cell' in said
    write(tmp_path, 'b', png((binary > 0).astype(int), 1))
    assert run(tmp_path, '--mask_values=0:background,1:cell,255:cell') == 0
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell'}
    for found in classes_of(tmp_path).values():
        np.testing.assert_array_equal(found, IDS == 1)


def test_the_class_of_value_0_has_a_name_where_there_is_no_background(tmp_path):
    write(tmp_path, 'a', png(IDS))
    assert run(tmp_path, '--mask_values=3:tree,1:car,0:road') == 0
    path = str(tmp_path / 'map.pbtxt')
    assert LabelMap.read(path, first_id=0).names == {0: 'road', 1: 'tree', 2: 'car'}
    expected = np.select([IDS == 3, IDS == 1, IDS == 255], [1, 2, 255], 0)
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], expected)
    assert run(tmp_path, '--mask_values=3:tree,1:car,0:road') == 0  # with the label map of before
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], expected)
    (tmp_path / 'map.pbtxt').unlink()
    assert run(tmp_path, '--mask_values=0:road,1:car,3:background') == 0
    assert LabelMap.read(path).names == {1: 'road', 2: 'car'}


def test_all_of_mask_values(tmp_path, capsys):
    LabelMap.from_names(['cat', 'dog']).write(str(tmp_path / 'map.pbtxt'))
    write(tmp_path, 'a', png(np.select([IDS == 1, IDS == 3], [100, 200], 7)))
    assert run(tmp_path, '--mask_values=7:background,100:dog') == 2
    assert (
        'has the values 200; expected those of --mask_values (7, 100).' in capsys.readouterr().err
    )
    assert run(tmp_path, '--mask_values=7:background,100:dog,200:ignore') == 0
    expected = np.select([IDS == 1, IDS == 3], [2, 255])
    np.testing.assert_array_equal(classes_of(tmp_path)['a.png'], expected)
    assert run(tmp_path, '--mask_values=7:background,100:dog,200:bat') == 2
    assert "class 'bat' is not in the label map; did you mean 'cat'?" in capsys.readouterr().err


def test_16_bits_of_classes(tmp_path, capsys):
    LabelMap.from_names([f'class {i}' for i in range(1, 301)]).write(str(tmp_path / 'map.pbtxt'))
    ids = np.where(IDS == 3, 300, 0)
    write(tmp_path, 'a', png(ids, 16))
    assert run(tmp_path) == 0
    np.testing.assert_array_equal(classes_of(tmp_path, tf.uint16)['a.png'], ids)
    write(tmp_path, 'a', png(np.where(IDS == 3, 9, ids), 16))
    assert run(tmp_path, '--ignore_label=9') == 2
    assert 'the label map has a class of id 255, which pixels' in capsys.readouterr().err


@pytest.mark.parametrize(
    'annotation, message',
    [
        (codecs.encode_png(np.zeros([6, 8, 3], np.uint8)), 'a PNG of colors, 8 bits; expected a'),
        (b'\xff\xd8\xff\xe0 a JPEG', 'the annotation is not a PNG file'),
        (png(IDS)[:-30], 'the annotation is corrupt'),
        (png(IDS[:5]), 'the annotation is of an image of 5 x 8 pixels; the image has 6 x 8'),
    ],
)
def test_annotations_that_cannot_be_read(tmp_path, capsys, annotation, message):
    write(tmp_path, 'good', png(IDS))
    write(tmp_path, 'bad', annotation)
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert message in said and 'bad.png' in said and 'good.png' not in said


def test_folders_that_do_not_belong_together(tmp_path, capsys):
    write(tmp_path, 'a', None)
    (tmp_path / 'labels' / 'b.png').write_bytes(png(IDS))
    assert run(tmp_path) == 2
    said = capsys.readouterr().err
    assert 'has no PNG file with the stem of any of the images in ' in said and '(1 image).' in said
    write(tmp_path, 'c', png(IDS))
    assert run(tmp_path) == 2
    assert 'has the stem of 1 PNG file: b.png.' in capsys.readouterr().err


def test_labels_without_any_class(tmp_path, capsys):
    write(tmp_path, 'a', png(np.where(IDS == 255, 255, 0)))
    assert run(tmp_path) == 2
    assert '1 of 1 masks have no pixel of a class' in capsys.readouterr().err


def test_annotations_are_needed(tmp_path, capsys):
    write(tmp_path, 'a', png(IDS))
    assert run(tmp_path, '--annotations=') == 2
    assert '--from=masks needs --annotations=DIR' in capsys.readouterr().err
