import numpy as np
import pytest
import tensorflow as tf

from model_fns.datasets import codecs, convert
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.id_files import png

IDS = np.zeros([10, 20], np.int32)
IDS[1:4, 2:5] = 700
IDS[4:, 15:] = 3
IDS[0, 19] = 3  # apart from the rest of it


def run(images, annotations, folder, *more):
    try:
        convert.main(
            [
                '--from=instances',
                f'--images={images}',
                f'--annotations={annotations}',
                f'--label_map={folder / "map.pbtxt"}',
                f'--output_prefix={folder / "out" / "train"}',
                '--num_shards=1',
                *more,
            ]
        )
    except SystemExit as ending:
        return ending.code
    return 0


def convert_one(folder, annotation, *more):
    for name in ('images', 'ids'):
        (folder / name).mkdir(exist_ok=True)
    image = np.zeros([10, 20, 3], np.uint8)
    (folder / 'images' / 'a.png').write_bytes(codecs.encode_png(image))
    (folder / 'ids' / 'a.png').write_bytes(annotation)
    return run(folder / 'images', folder / 'ids', folder, *more)


def records_of(folder):
    found = {}
    for path in (folder / 'out').glob('*.tfrecord'):
        for serialized in tf.compat.v1.io.tf_record_iterator(str(path)):
            feature = tf.train.Example.FromString(serialized).features.feature
            found[feature['image/source_id'].bytes_list.value[0].decode()] = feature
    return found


def values(feature, key):
    return list(getattr(feature[key], feature[key].WhichOneof('kind')).value)


def decoded(feature, key, dtype=tf.uint8):
    return [tf.io.decode_png(png, dtype=dtype).numpy()[..., 0] for png in values(feature, key)]


def test_a_record_serves_segmentation_and_detection(tmp_path):
    assert convert_one(tmp_path, png(IDS, 16), '--class_name=cell') == 0
    feature = records_of(tmp_path)['a.png']
    (classes,) = decoded(feature, 'image/segmentation/class/encoded')
    np.testing.assert_array_equal(classes, IDS > 0)
    (ids,) = decoded(feature, 'image/segmentation/instance/encoded', tf.uint16)
    np.testing.assert_array_equal(ids, IDS)
    assert values(feature, 'image/segmentation/instance/encoded')[0][24] == 16  # bits
    assert values(feature, 'image/object/class/label') == [1, 1]
    assert values(feature, 'image/object/class/text') == [b'cell', b'cell']
    boxes = [
        values(feature, f'image/object/bbox/{side}') for side in ('ymin', 'xmin', 'ymax', 'xmax')
    ]
    np.testing.assert_allclose(np.transpose(boxes), [[0, 0.75, 1, 1], [0.1, 0.1, 0.4, 0.25]])
    assert values(feature, 'image/object/area') == [31, 9]
    assert values(feature, 'image/object/is_crowd') == [0, 0]
    masks = decoded(feature, 'image/object/mask')
    np.testing.assert_array_equal(masks, [IDS == 3, IDS == 700])
    assert LabelMap.read(str(tmp_path / 'map.pbtxt')).names == {1: 'cell'}


def test_eight_bits_a_palette_and_void(tmp_path):
    ids = np.where(IDS == 700, 255, IDS)
    assert convert_one(tmp_path, png(ids, 8, palette=True), '--ignore_label=255') == 0
    feature = records_of(tmp_path)['a.png']
    (classes,) = decoded(feature, 'image/segmentation/class/encoded')
    np.testing.assert_array_equal(classes, np.select([ids == 3, ids == 255], [1, 255]))
    (found,) = decoded(feature, 'image/segmentation/instance/encoded', tf.uint16)
    np.testing.assert_array_equal(found, np.where(ids == 3, 3, 0))
    assert len(values(feature, 'image/object/mask')) == 1


def test_an_image_without_instances(tmp_path):
    assert convert_one(tmp_path, png(0 * IDS, 16)) == 0
    feature = records_of(tmp_path)['a.png']
    (classes,) = decoded(feature, 'image/segmentation/class/encoded')
    assert not classes.any()
    assert values(feature, 'image/object/class/label') == []


def test_the_class_of_a_label_map(tmp_path, capsys):
    LabelMap.from_names(['nucleus']).write(str(tmp_path / 'map.pbtxt'))
    assert convert_one(tmp_path, png(IDS, 16)) == 0
    assert values(records_of(tmp_path)['a.png'], 'image/object/class/text') == [b'nucleus'] * 2
    LabelMap.from_names(['nucleus', 'cell']).write(str(tmp_path / 'map.pbtxt'))
    assert convert_one(tmp_path, png(IDS, 16), '--class_name=cells') == 2
    assert "class 'cells' is not in the label map; did you mean 'cell'?" in capsys.readouterr().err
    assert convert_one(tmp_path, png(IDS, 16), '--class_name=cell') == 0
    assert values(records_of(tmp_path)['a.png'], 'image/object/class/label') == [2, 2]


def test_ignored_pixels_do_not_become_a_class(tmp_path, capsys):
    names = [f'cell_{index}' for index in range(255)]
    LabelMap.from_names(names).write(str(tmp_path / 'map.pbtxt'))
    flags = '--class_name=cell_0', '--ignore_label=3'
    assert convert_one(tmp_path, png(IDS, 16), *flags) == 2
    assert 'the label map has a class of id 255, which pixels that' in capsys.readouterr().err


def test_a_size_that_differs(tmp_path, capsys):
    assert convert_one(tmp_path, png(IDS[:9], 16)) == 2
    assert 'of an image of 9 x 20 pixels; the image has 10 x 20' in capsys.readouterr().err


def test_the_real_nuclei(shared, tmp_path):
    folder = shared / 'data' / 'nuclei' / 'val'
    if not folder.is_dir():
        pytest.skip('the micrographs are not here')
    stems = sorted(path.stem for path in (folder / 'images').iterdir())[:8]
    (tmp_path / 'list.txt').write_text('\n'.join(stems))
    more = ('--class_name=nucleus', f'--list={tmp_path / "list.txt"}')
    assert run(folder / 'images', folder / 'instance_masks', tmp_path, *more) == 0
    found = records_of(tmp_path)
    assert len(found) == 8
    for source_id, feature in found.items():
        original = (folder / 'instance_masks' / source_id).read_bytes()
        expected = tf.io.decode_png(original, dtype=tf.uint16).numpy()[..., 0]
        (ids,) = decoded(feature, 'image/segmentation/instance/encoded', tf.uint16)
        np.testing.assert_array_equal(ids, expected)
        masks = np.array(decoded(feature, 'image/object/mask'))
        assert len(masks) == len(np.unique(expected)) - 1
        np.testing.assert_array_equal(masks.sum(0), expected > 0)
