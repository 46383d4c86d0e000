"""Sequences of images: their frames as records of one image, and which sequences are refused."""

import numpy as np
import pytest
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.data import context_features, inputs, record_checks, sequences
from model_fns.structures import label_map
from tests.model_fns.detection.records import png, record

# Frame by frame: boxes as (ymin, xmin, ymax, xmax), and their classes' names.
BOXES = [[(0.1, 0.2, 0.5, 0.6)], [], [(0.0, 0.0, 1.0, 1.0), (0.2, 0.1, 0.4, 0.3)]]
NAMES = [['cat'], [], ['dog', 'cat']]
LABELS = label_map.LabelMap.parse(
    "item { id: 1 name: 'cat' } item { id: 2 name: 'dog' }", 'label_map.pbtxt'
)


def sequence(annotated=None, confidences=None, context=(), without=(), cut=None):
    """Build a serialized sequence of three frames with 4, 5 and 6 rows."""
    message = tf.train.SequenceExample()
    message.context.feature['image/format'].bytes_list.value.append(b'png')
    if context:
        message.context.feature['image/context_features'].float_list.value.extend(context)
        message.context.feature['image/context_feature_length'].int64_list.value.append(2)
    lists = message.feature_lists.feature_list
    for index, (boxes, names) in enumerate(zip(BOXES, NAMES)):
        lists['image/encoded'].feature.add().bytes_list.value.append(png(height=4 + index))
        lists['image/source_id'].feature.add().bytes_list.value.append(b'frame %d' % index)
        for place, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
            values = lists[f'region/bbox/{side}'].feature.add().float_list.value
            values.extend(box[place] for box in boxes)
        lists['region/label/string'].feature.add().bytes_list.value.extend(
            name.encode() for name in names
        )
        if confidences:
            of_frame = lists['region/label/confidence'].feature.add().float_list.value
            of_frame.extend(confidences[index])
        if annotated:
            lists['region/is_annotated'].feature.add().int64_list.value.append(annotated[index])
    for key in without:
        del lists[key]
    if cut:
        del lists[cut].feature[-1:]
    return message.SerializeToString()


def decoded(serialized, **options):
    reader = inputs.Reader(num_classes=2, label_map=LABELS, **options)
    return [reader.decode(tf.constant(one)) for one in sequences.split(serialized)]


def test_each_frame_is_an_example():
    examples = decoded(sequence(confidences=[[0.5], [], [1.0, 0.25]]))
    assert [one[fields.IMAGE].shape[0] for one in examples] == [4, 5, 6]
    assert [one[fields.SOURCE_ID].numpy() for one in examples] == [
        b'frame 0',
        b'frame 1',
        b'frame 2',
    ]
    for one, boxes in zip(examples, BOXES):
        np.testing.assert_allclose(one[fields.BOXES], np.reshape(boxes, [-1, 4]), atol=1e-7)
    assert [one[fields.CLASSES].numpy().tolist() for one in examples] == [[0], [], [1, 0]]
    assert [one[fields.WEIGHTS].numpy().tolist() for one in examples] == [[0.5], [], [1.0, 0.25]]


def test_boxes_without_a_confidence_weigh_1():
    assert decoded(sequence())[2][fields.WEIGHTS].numpy().tolist() == [1.0, 1.0]


def test_frames_that_nobody_has_annotated_are_left_out():
    examples = decoded(sequence(annotated=[1, 0, 1]))
    assert [one[fields.SOURCE_ID].numpy() for one in examples] == [b'frame 0', b'frame 2']
    assert decoded(sequence(annotated=[0, 0, 0])) == []


def test_all_frames_share_the_features_of_other_images():
    context = context_features.ContextFeatures(most=3, length=2)
    examples = decoded(sequence(context=[1.0, 2.0, 3.0, 4.0]), context=context)
    for one in examples:
        np.testing.assert_array_equal(one[fields.CONTEXT_FEATURES], [[1, 2], [3, 4]])


def test_an_example_is_a_frame_by_itself():
    assert sequences.split(record()) == [record()]
    assert sequences.find_problem(record()) is None


@pytest.mark.parametrize(
    ('serialized', 'problem'),
    [
        (
            sequence(cut='region/bbox/xmin'),
            'region/bbox/xmin has 2 frames; expected 3, as many as image/encoded',
        ),
        (
            sequence(without=['image/encoded']),
            'a tf.train.SequenceExample without image/encoded; expected a list of it',
        ),
        (
            sequence(),
            'a tf.train.SequenceExample; expected a tf.train.Example, or in the input reader '
            'input_type: TF_SEQUENCE_EXAMPLE',
        ),
    ],
)
def test_what_is_said_of_a_sequence_that_is_to_be_decoded(serialized, problem):
    assert record_checks.find_problem(serialized, LABELS) == problem


def test_lists_of_other_programs_are_not_looked_at():
    message = tf.train.SequenceExample.FromString(sequence())
    message.feature_lists.feature_list['clip/label'].feature.add()
    assert len(sequences.split(message.SerializeToString())) == 3


@pytest.mark.parametrize('content', [b'', b'\xff', b'no message at all'])
def test_other_bytes_come_back_as_they_are(content):
    assert sequences.split(content) == [content]
