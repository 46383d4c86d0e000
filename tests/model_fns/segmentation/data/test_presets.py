import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing import colors
from model_fns.segmentation import fields
from model_fns.segmentation.data import presets
from model_fns.structures.label_map import LabelMap
from protos import segmentation_pb2


@pytest.mark.parametrize(
    'name, num_classes, ignore_label, samples',
    [
        ('pascal_voc', 21, 255, {0: 'background', 15: 'person', 20: 'tvmonitor'}),
        ('cityscapes', 19, 255, {0: 'road', 13: 'car', 18: 'bicycle'}),
        ('ade20k', 151, 0, {1: 'wall', 13: 'person', 21: 'car', 150: 'flag'}),
        ('camvid', 11, 11, {0: 'sky', 8: 'car', 10: 'bicyclist'}),
    ],
)
def test_known_data_sets(name, num_classes, ignore_label, samples):
    dataset = presets.get_dataset(name)
    assert (dataset.num_classes, dataset.ignore_label) == (num_classes, ignore_label)
    assert len(dataset.class_colors) == num_classes == len(set(dataset.class_names))
    for index, expected in samples.items():
        assert dataset.class_names[index] == expected


def slow_bit_color(index):
    """Bits of the class, three at a time, go to red, green and blue from the highest down."""
    color = [0, 0, 0]
    for place in range(8):
        for channel in range(3):
            color[channel] |= ((index >> (3 * place + channel)) & 1) << (7 - place)
    return tuple(color)


def test_colors_of_pascal_voc():
    assert presets.bit_colors(256) == tuple(map(slow_bit_color, range(256)))
    shown = presets.get_dataset('pascal_voc').class_colors
    assert shown[1] == (128, 0, 0) and shown[15] == (192, 128, 128) and shown[20] == (0, 64, 128)


def test_other_colors():
    assert presets.get_dataset('cityscapes').class_colors[13] == (0, 0, 142)
    assert presets.get_dataset('ade20k').class_colors[:2] == ((0, 0, 0), (120, 120, 120))
    assert presets.get_dataset('ade20k').class_colors[150] == (92, 0, 255)
    assert presets.get_dataset('camvid').class_colors[3] == (128, 64, 128)
    generated = presets.generated_colors(40)
    assert generated[0] == (0, 0, 0) and generated[5] == colors.class_color(5)
    assert len(set(generated)) == 40


def test_colored_labels():
    dataset = presets.get_dataset('camvid')
    picture = dataset.colored(np.array([[0, 10], [11, -1]]))
    ignored = list(presets.IGNORED_COLOR)
    assert picture.tolist() == [[[128, 128, 128], [0, 128, 192]], [ignored, ignored]]
    assert picture.dtype == np.uint8


def test_ids_of_the_evaluation_server():
    classes = np.arange(19).reshape(1, 19)
    submitted = presets.get_dataset('cityscapes').to_submission_ids(classes)
    assert submitted.tolist() == [
        [7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33]
    ]
    assert submitted.dtype == np.uint8
    plain = presets.get_dataset('pascal_voc').to_submission_ids(classes)
    assert plain.tolist() == classes.tolist()
    assert plain.dtype == np.uint8


def build(label_map=None, **values):
    return presets.from_config(segmentation_pb2.Segmentation(**values), label_map)


def test_a_config_names_a_data_set_or_says_the_same():
    assert build(dataset='cityscapes') == presets.get_dataset('cityscapes')
    assert build(dataset='ade20k').ignore_label == 0
    assert build(dataset='ade20k', ignore_label=255).ignore_label == 255
    other = build(num_classes=3, ignore_label=9)
    assert other.class_names == ('class 0', 'class 1', 'class 2')
    assert other.ignore_label == 9 and other.class_colors == presets.generated_colors(3)
    assert build(num_classes=3).ignore_label == 255
    fewer = build(dataset='cityscapes', num_classes=2)
    assert fewer.class_names == ('road', 'sidewalk') and not fewer.submission_ids
    more = build(dataset='camvid', num_classes=12)
    assert more.class_names[10:] == ('bicyclist', 'class 11')


def test_names_of_a_label_map():
    label_map = LabelMap.from_names(['cat', 'dog'])
    assert build(label_map, num_classes=3).class_names == ('background', 'cat', 'dog')
    assert build(label_map, dataset='camvid').class_names[:4] == ('sky', 'cat', 'dog', 'road')
    named = LabelMap.parse("item { id: 0 name: 'road' } item { id: 1 name: 'car' }", first_id=0)
    assert build(named, num_classes=2).class_names == ('road', 'car')
    with pytest.raises(errors.DataError, match="item 'dog' has id 2, but the model has 2 classes"):
        build(label_map, num_classes=2)


@pytest.mark.parametrize(
    'values, message',
    [
        ({}, 'neither num_classes nor dataset is set.*ade20k, camvid, cityscapes, pascal_voc'),
        ({'dataset': 'cityscape'}, "unknown .*'cityscape'; did you mean 'cityscapes'?"),
        ({'num_classes': 2, 'ignore_label': -1}, 'ignore_label: -1; expected a value that a label'),
    ],
)
def test_what_a_config_cannot_ask_for(values, message):
    with pytest.raises(errors.ConfigError, match=message):
        build(**values)


def test_255_of_a_program_is_ignored_too():
    """With CamVid's ignore label 11, and not where 255 is a class."""
    values = [0, 11, 255]
    cases = [
        (build(dataset='camvid'), [0, 11, 11]),
        (build(num_classes=3), values),
        (build(num_classes=256, ignore_label=300), values),
    ]
    for dataset, expected in cases:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            labels = dataset.unify_ignored({fields.SEMANTIC: tf.constant(values)})
            assert session.run(labels)[fields.SEMANTIC].tolist() == expected
