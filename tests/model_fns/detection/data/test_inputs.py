from __future__ import annotations

import base64
import functools

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, tf_estimator
from estimator_lib.data import record_sources
from model_fns import validate
from model_fns.detection import fields
from model_fns.detection.boxes import quadrilaterals
from model_fns.detection.data import examples, image_resizers, inputs
from model_fns.detection.data.keypoints import KeypointDecoder
from model_fns.structures.label_map import LabelMap, LabelMapItem
from protos import input_reader_pb2, pipeline_pb2
from tests.model_fns.detection.records import mask_png, png, record

tf1 = tf.compat.v1
TRAIN, EVAL = tf_estimator.ModeKeys.TRAIN, tf_estimator.ModeKeys.EVAL

LABEL_MAP = LabelMap(
    (LabelMapItem(1, '/m/1', 'cat'), LabelMapItem(2, '/m/2', 'dog'), LabelMapItem(3, 'cow', 'cow'))
)
PLAIN = inputs.Reader(num_classes=3, max_boxes=4)
NAMED = inputs.Reader(num_classes=3, max_boxes=4, label_map=LABEL_MAP)
BOX, OTHER = [0.1, 0.2, 0.5, 0.6], [0.0, 0.0, 1.0, 0.5]
NAN = float('nan')

# 2 x 2 pixels of (200, 40, 40) in cyan, magenta, yellow and black.
CMYK = base64.b64decode(
    '/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2Rjcs'
    'LUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAFAgAAgACBEMRAE0RAFkRAEsRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAYH'
    '/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAA4EQwBNAFkASwAAPwBYEhKnP//Z'
)


@functools.cache
def decoder(reader):
    """Run `reader.decode` inside a dataset, as the engine does."""
    with tf.Graph().as_default() as graph:
        serialized = tf1.placeholder(tf.string, [])
        dataset = tf.data.Dataset.from_tensors(serialized).map(reader.decode)
        example = dataset.get_single_element()
        session = tf1.Session(graph=graph)
        session.run(tf1.tables_initializer())
    return lambda one: session.run(example, {serialized: one})


def decode(reader=PLAIN, **parts):
    return decoder(reader)(record(**parts))


@functools.cache
def preparer(reader, mode, resizer):
    with tf.Graph().as_default() as graph:
        serialized = tf1.placeholder(tf.string, [])
        prepared = reader.prepare(reader.decode(serialized), resizer, mode)
        session = tf1.Session(graph=graph)
        session.run(tf1.tables_initializer())
    return lambda one: session.run(prepared, {serialized: one}), prepared


FIXED = image_resizers.FixedShapeResizer(8, 8)
PADDED = image_resizers.KeepAspectRatioResizer(4, 12, pad=True)


def prepare(reader=PLAIN, mode=EVAL, resizer=FIXED, **parts):
    """Return features and labels of a record."""
    return preparer(reader, mode, resizer)[0](record(**parts))


def test_an_example():
    example = decode(
        boxes=[BOX, OTHER],
        labels=[1, 3],
        difficult=[0, 1],
        is_crowd=[1, 0],
        group_of=[1, 1],
        weight=[0.5, 2.0],
        area=[5.0, 6.0],
        source_id='id',
        filename='name.png',
    )
    assert example[fields.IMAGE].shape == (4, 6, 3)
    assert example[fields.IMAGE].dtype == np.uint8
    assert example[fields.SOURCE_ID] == b'id'
    assert example[fields.ORIGINAL_SHAPE].tolist() == [4, 6]
    np.testing.assert_allclose(example[fields.BOXES], [BOX, OTHER])
    assert example[fields.CLASSES].tolist() == [0, 2]
    assert example[fields.DIFFICULT].tolist() == [False, True]
    assert example[fields.IS_CROWD].tolist() == [True, False]
    assert example[fields.GROUP_OF].tolist() == [True, True]
    assert example[fields.WEIGHTS].tolist() == [0.5, 2.0]
    assert example[fields.AREA].tolist() == [5.0, 6.0]
    assert fields.MASKS not in example and fields.IMAGE_CLASSES not in example


def test_what_a_record_need_not_have():
    example = decode(boxes=[OTHER], source_id='', filename='name.png')
    assert example[fields.SOURCE_ID] == b'name.png'
    for flag in (fields.DIFFICULT, fields.IS_CROWD, fields.GROUP_OF):
        assert example[flag].tolist() == [False]
    assert example[fields.WEIGHTS].tolist() == [1.0]
    assert example[fields.AREA].tolist() == [4 * 6 / 2]  # pixels of the box


@pytest.mark.parametrize('reader', [PLAIN, NAMED])
def test_images_without_objects(reader):
    example = decode(reader)
    assert example[fields.BOXES].shape == (0, 4)
    for name in (fields.CLASSES, fields.AREA, fields.WEIGHTS, fields.IS_CROWD):
        assert example[name].shape == (0,)


@pytest.mark.parametrize(
    ('parts', 'classes'),
    [
        ({'labels': [3, 1]}, [2, 0]),
        ({'labels': [], 'texts': ['/m/2', 'cow']}, [1, 2]),
        ({'labels': [1, 1], 'texts': ['/m/2', 'cow']}, [1, 2]),  # texts come first
        ({'labels': [], 'texts': ['dog', '/m/1']}, [1, 0]),  # by display name, too
    ],
)
def test_classes_by_name_or_id(parts, classes):
    example = decode(NAMED, boxes=[BOX, OTHER], **parts)
    assert example[fields.CLASSES].tolist() == classes
    assert example[fields.CLASSES].dtype == np.int64


def test_display_names_first():
    crossed = LabelMap((LabelMapItem(1, 'a', 'b'), LabelMapItem(2, 'b', 'a')))
    for use_display_name, expected in ((False, 0), (True, 1)):
        reader = inputs.Reader(2, label_map=crossed, use_display_name=use_display_name)
        example = decode(reader, boxes=[BOX], labels=[], texts=['a'])
        assert example[fields.CLASSES].tolist() == [expected]


@pytest.mark.parametrize(
    ('reader', 'parts'),
    [
        (PLAIN, {'labels': [4, 1, 0, -1]}),
        (NAMED, {'labels': [], 'texts': ['bird', 'cat', '', 'x']}),
    ],
)
def test_boxes_of_unknown_classes_are_left_out(reader, parts):
    example = decode(reader, boxes=[BOX, OTHER, BOX, BOX], area=[1.0, 2.0, 3.0, 4.0], **parts)
    np.testing.assert_allclose(example[fields.BOXES], [OTHER])
    assert example[fields.CLASSES].tolist() == [0]
    assert example[fields.AREA].tolist() == [2.0]


def test_boxes_that_are_not_numbers_are_left_out():
    example = decode(boxes=[[NAN, 0, 1, 1], BOX], labels=[1, 2])
    np.testing.assert_allclose(example[fields.BOXES], [BOX])
    assert example[fields.CLASSES].tolist() == [1]


def test_boxes_may_reach_a_little_over_the_image():
    example = decode(boxes=[[-0.05, 0.0, 1.05, 1.0]])
    np.testing.assert_allclose(example[fields.BOXES], [[-0.05, 0.0, 1.05, 1.0]])


@pytest.mark.parametrize(
    ('reader', 'parts'),
    [
        (PLAIN, {'boxes': [BOX, BOX], 'ymax': [0.5]}),
        (PLAIN, {'boxes': [BOX, BOX], 'labels': [1]}),
        (PLAIN, {'boxes': [BOX], 'labels': []}),
        (PLAIN, {'boxes': [BOX], 'labels': [], 'texts': ['cat']}),
        (NAMED, {'boxes': [BOX, BOX], 'labels': [1, 1], 'texts': ['cat']}),
        (PLAIN, {'boxes': [], 'labels': [1]}),
        (PLAIN, {'boxes': [BOX], 'is_crowd': [0, 1]}),
        (PLAIN, {'boxes': [BOX, BOX], 'area': [1.0]}),
        (PLAIN, {'boxes': [[0.5, 0.2, 0.1, 0.6]]}),
        (PLAIN, {'boxes': [[0.1, 0.6, 0.5, 0.2]]}),
        (PLAIN, {'boxes': [[0.1, 0.2, 0.5, 250.0]]}),
        (PLAIN, {'boxes': [[0.1, -0.2, 0.5, 0.5]]}),
        (PLAIN, {'boxes': [[0.1, 0.2, 0.5, float('inf')]]}),
        (PLAIN, {'encoded': b''}),
        (PLAIN, {'encoded': None}),
        (PLAIN, {'encoded': b'no image'}),
    ],
)
def test_records_that_stop_a_run(reader, parts):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(reader, **parts)
    if parts.get('encoded', b'no image') != b'no image':
        assert reader.find_problem(record(**parts))


def test_what_stops_a_run_is_said_by_the_keys():
    sentence = PLAIN.find_problem(record(boxes=[BOX], is_crowd=[0, 1]))
    assert sentence == '1 box and 2 image/object/is_crowd; expected none, or 1 for each box'
    assert PLAIN.find_problem(record(boxes=[BOX])) is None


@functools.cache
def encoded(kind):
    if kind == 'cmyk jpeg':
        return CMYK
    with tf.Graph().as_default(), tf1.Session() as session:
        if kind == 'gray jpeg':
            return session.run(tf.io.encode_jpeg(np.full([3, 5, 1], 77, np.uint8)))
        if kind == 'gray png':
            return session.run(tf.io.encode_png(np.full([3, 5, 1], 77, np.uint8)))
        return session.run(tf.io.encode_png(np.full([3, 5, 4], 77, np.uint8)))


@pytest.mark.parametrize(
    ('kind', 'size', 'color'),
    [
        ('gray jpeg', (3, 5), [77] * 3),
        ('gray png', (3, 5), [77] * 3),
        ('png with transparency', (3, 5), [77] * 3),
        ('cmyk jpeg', (2, 2), [200, 40, 40]),
    ],
)
def test_images_of_other_kinds(kind, size, color):
    image = decode(encoded=encoded(kind))[fields.IMAGE]
    assert image.shape == (*size, 3)
    np.testing.assert_allclose(image[0, 0], color, atol=4)


def test_one_pixel():
    features, labels = prepare(encoded=png(1, 1), boxes=[[0.0, 0.0, 1.0, 1.0]])
    assert features[fields.IMAGE].shape == (8, 8, 3)
    assert (features[fields.IMAGE] == 7).all()
    assert labels[fields.NUM_BOXES] == 1


MASKED = inputs.Reader(3, 4, mask_type=input_reader_pb2.PNG_MASKS)
NUMBERS = inputs.Reader(3, 4, mask_type=input_reader_pb2.NUMERICAL_MASKS)
POINTS = inputs.Reader(3, 4, keypoints=KeypointDecoder(2))


def mask(row):
    """Build a mask of 4 x 6 with one row of ones."""
    full = np.zeros([4, 6], np.uint8)
    full[row] = 1
    return full


def test_png_masks():
    example = decode(
        MASKED, boxes=[BOX, OTHER], labels=[9, 1], masks=[mask_png(mask(0)), mask_png(mask(2))]
    )
    # The first box is of an unknown class: it goes with its mask.
    np.testing.assert_array_equal(example[fields.MASKS], [mask(2)])


def test_numerical_masks():
    values = np.concatenate([mask(0), mask(2)]).astype(float).ravel().tolist()
    example = decode(NUMBERS, boxes=[BOX, OTHER], numerical_masks=values)
    np.testing.assert_array_equal(example[fields.MASKS], [mask(0), mask(2)])


@pytest.mark.parametrize('reader', [MASKED, NUMBERS])
def test_no_masks_without_objects(reader):
    assert decode(reader)[fields.MASKS].shape == (0, 4, 6)
    # A batch has at least one row of masks, so that a lookup of none does not fail.
    masks = prepare(reader)[1][fields.MASKS]
    assert masks.shape == (1, 8, 8) and not masks.any()


@pytest.mark.parametrize(('given', 'expected'), [([], [1, 1]), ([0.0, 2.0], [0, 2])])
def test_weights_of_masks(given, expected):
    parts = {'boxes': [BOX, OTHER], 'masks': [mask_png(mask(0)), mask_png(mask(2))]}
    parts['mask/weight'] = given
    assert decode(MASKED, **parts)[fields.MASK_WEIGHTS].tolist() == expected
    assert prepare(MASKED, **parts)[1][fields.MASK_WEIGHTS].tolist() == [*expected, 0, 0]


def test_masks_are_not_padded_to_as_many_rows_as_boxes():
    pngs = [mask_png(mask(row % 4)) for row in range(6)]
    for count, rows in ((2, 2), (6, 4)):
        _, labels = prepare(MASKED, boxes=[BOX] * count, masks=pngs[:count])
        assert labels[fields.MASKS].shape == (rows, 8, 8)
        assert labels[fields.MASKS].dtype == np.uint8
        assert labels[fields.BOXES].shape == (4, 4)


@pytest.mark.parametrize(
    ('reader', 'parts'),
    [
        (MASKED, {}),
        (MASKED, {'masks': [mask_png(np.zeros([3, 3]))]}),
        (NUMBERS, {'numerical_masks': [1.0] * 23}),
        (NUMBERS, {}),
        (MASKED, {'masks': [mask_png(mask(0))], 'mask/weight': [1.0, 0.0]}),
        (POINTS, {'keypoints_y': [0.5], 'keypoints_x': [0.5]}),
        (POINTS, {'keypoints_y': [0.5] * 3, 'keypoints_x': [0.5] * 3}),
        (POINTS, {'keypoints_y': [0.5] * 2}),
        (POINTS, {'keypoints_y': [0.5] * 2, 'keypoints_x': [0.5] * 2, 'visibilities': [2]}),
    ],
)
def test_masks_and_keypoints_of_another_size_or_number(reader, parts):
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(reader, boxes=[BOX], **parts)
    assert 'image/object/' in reader.find_problem(record(boxes=[BOX], **parts))


def test_keypoints_by_name():
    named = LabelMap((LabelMapItem(1, 'a', 'a', ((0, 'nose'), (2, 'tail'))),))
    config = text_format.Parse(
        'train_input_reader { num_keypoints: 3 use_keypoint_label_map: true }',
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    reader = inputs.build_reader(config, 3, named)
    parts = {
        'boxes': [BOX, OTHER],
        'keypoints_y': [0.1, 0.2, 0.3, 0.4],
        'keypoints_x': [0.5, 0.6, 0.7, 0.8],
        'keypoint/text': ['tail', 'nose', 'ear', 'tail'],
    }
    example = decode(reader, **parts)
    np.testing.assert_allclose(
        example[fields.KEYPOINTS],
        [[[0.2, 0.6], [NAN, NAN], [0.1, 0.5]], [[NAN, NAN], [NAN, NAN], [0.4, 0.8]]],
    )
    assert reader.find_problem(record(**parts)) is None
    parts['keypoint/text'] = ['tail']
    assert '1 image/object/keypoint/text and 4' in reader.find_problem(record(**parts))
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(reader, **parts)


def test_keypoints():
    reader = POINTS
    parts = {
        'boxes': [BOX, OTHER],
        'keypoints_y': [0.1, 0.2, 0.3, 0.4],
        'keypoints_x': [0.5, 0.6, 0.7, 0.8],
    }
    example = decode(reader, **parts, visibilities=[2, 0, 1, 1])
    np.testing.assert_allclose(
        example[fields.KEYPOINTS],
        [[[0.1, 0.5], [NAN, NAN]], [[0.3, 0.7], [0.4, 0.8]]],
    )
    assert example[fields.KEYPOINT_VISIBILITIES].tolist() == [[True, False], [True, True]]
    assert np.isfinite(decode(reader, **parts)[fields.KEYPOINTS]).all()
    assert np.isnan(decode(reader, boxes=[BOX])[fields.KEYPOINTS]).all()
    assert decode(reader)[fields.KEYPOINTS].shape == (0, 2, 2)


def test_classes_that_an_image_was_looked_through_for():
    reader = inputs.Reader(3, 4, label_map=LABEL_MAP, image_classes=True)
    found = decode(reader, image_labels=[1], image_texts=['cow', 'bird', 'cow'])
    assert found[fields.IMAGE_CLASSES].tolist() == [1, 0, 1]
    assert decode(reader)[fields.IMAGE_CLASSES].tolist() == [0, 0, 0]
    _, labels = prepare(reader, image_labels=[2])
    assert labels[fields.IMAGE_CLASSES].tolist() == [0, 1, 0]
    by_id = inputs.Reader(3, 4, image_classes=True)
    assert decode(by_id, image_labels=[3, 4])[fields.IMAGE_CLASSES].tolist() == [0, 0, 1]


def test_classes_that_were_looked_for():
    reader = inputs.Reader(3, 4, label_map=LABEL_MAP, labeled_classes=True)
    added = tf.train.Example()
    added.features.feature[record_sources.LABELED].bytes_list.value.extend([b'cow', b'/m/1'])
    found = decoder(reader)(record(boxes=[BOX]) + added.SerializeToString())
    assert found[fields.LABELED_CLASSES].tolist() == [1, 0, 1]
    # Without the key all classes were looked for.
    assert decode(reader, boxes=[BOX])[fields.LABELED_CLASSES].tolist() == [1, 1, 1]
    _, labels = prepare(reader)
    assert labels[fields.LABELED_CLASSES].tolist() == [1, 1, 1]


def test_of_a_joined_image_known_is_what_was_looked_for_in_all_parts():
    parts = [
        {fields.BOXES: tf.zeros([1, 4]), fields.LABELED_CLASSES: tf.constant(known)}
        for known in ([1.0, 0.0, 1.0], [1.0, 1.0, 0.0])
    ]
    joined = examples.join_boxes(parts)
    assert joined[fields.LABELED_CLASSES].numpy().tolist() == [1, 0, 0]
    assert joined[fields.BOXES].shape == [2, 4]


def test_prepared_shapes_are_static():
    features, labels = preparer(PLAIN, EVAL, FIXED)[1]
    assert features[fields.IMAGE].shape == [8, 8, 3]
    assert features[fields.IMAGE].dtype == tf.float32
    for name, values in labels.items():
        assert values.shape.is_fully_defined(), name
        assert values.shape.rank == 0 or values.shape[0] == 4, name


def test_prepared_values():
    features, labels = prepare(boxes=[BOX, OTHER], labels=[2, 3], source_id='id')
    assert features[fields.TRUE_IMAGE_SHAPE].tolist() == [8, 8, 3]
    assert features[fields.ORIGINAL_SHAPE].tolist() == [4, 6]
    assert features[fields.SOURCE_ID] == b'id'
    assert features[fields.HASH].dtype == np.int32 and features[fields.HASH] >= 0
    np.testing.assert_allclose(labels[fields.BOXES], [BOX, OTHER, [0] * 4, [0] * 4])
    np.testing.assert_array_equal(
        labels[fields.CLASSES], [[0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )
    assert labels[fields.WEIGHTS].tolist() == [1, 1, 0, 0]
    assert labels[fields.NUM_BOXES] == 2
    assert labels[fields.NUM_LEFT_OUT] == 0


def test_more_boxes_than_there_is_room_for_are_counted():
    boxes = [[0.1 * row, 0.0, 1.0, 1.0] for row in range(7)]
    _, labels = prepare(boxes=boxes)
    np.testing.assert_allclose(labels[fields.BOXES], boxes[:4])
    assert labels[fields.NUM_BOXES] == 4
    assert labels[fields.NUM_LEFT_OUT] == 3


def test_training_warns_of_images_with_more_boxes_than_there_is_room_for(caplog):
    prepare(mode=TRAIN, boxes=[BOX] * 4, source_id='full')
    assert not caplog.records
    _, labels = prepare(mode=TRAIN, boxes=[BOX] * 6, source_id='crowd.jpg')
    assert labels[fields.NUM_LEFT_OUT] == 2
    assert '2 boxes of 1 image left out' in caplog.text
    assert '4 (max_number_of_boxes: 6 has room for all of them): crowd.jpg' in caplog.text


@pytest.mark.parametrize(('mode', 'count'), [(TRAIN, 1), (EVAL, 2)])
def test_training_leaves_out_boxes_without_area(mode, count):
    _, labels = prepare(mode=mode, boxes=[[0.5, 0.25, 0.5, 0.75], BOX])
    assert labels[fields.NUM_BOXES] == count
    np.testing.assert_allclose(labels[fields.BOXES][count - 1], BOX)


def test_boxes_stay_normalized_to_the_image_whatever_pads_it():
    reader = inputs.Reader(3, 2, keypoints=KeypointDecoder(1), mask_type=input_reader_pb2.PNG_MASKS)
    # 4 x 6 pixels stay so, in 12 x 12.
    features, labels = prepare(
        reader,
        resizer=PADDED,
        boxes=[[0.0, 0.5, 1.0, 1.0]],
        keypoints_y=[0.75],
        keypoints_x=[0.25],
        masks=[mask_png(np.ones([4, 6]))],
    )
    assert features[fields.IMAGE].shape == (12, 12, 3)
    height, width, _ = features[fields.TRUE_IMAGE_SHAPE].tolist()
    assert (height, width) == (4, 6)
    np.testing.assert_allclose(labels[fields.BOXES][0], [0.0, 0.5, 1.0, 1.0])
    np.testing.assert_allclose(labels[fields.KEYPOINTS][0], [[0.75, 0.25]])
    assert labels[fields.MASKS][0].sum() == height * width


def test_training_ignores_the_boxes_that_the_config_names():
    text = 'train_input_reader { ignored_boxes: [CROWD, DIFFICULT] }'
    reader = inputs.build_reader(config(text), 3, None)
    flags = {'is_crowd': [1, 0, 0, 0], 'difficult': [0, 1, 0, 0], 'group_of': [0, 0, 1, 0]}
    parts = {'boxes': [BOX] * 4, 'labels': [1] * 4, 'weight': [1.0, 1.0, 0.5, 2.0], **flags}
    _, labels = prepare(reader, TRAIN, **parts)
    assert labels[fields.WEIGHTS][:4].tolist() == [0.0, 0.0, 0.5, 2.0]
    assert labels[fields.NUM_BOXES] == 4
    _, labels = prepare(reader, EVAL, **parts)
    assert labels[fields.WEIGHTS][:4].tolist() == [1.0, 1.0, 0.5, 2.0]
    _, labels = prepare(inputs.build_reader(config(), 3, None), TRAIN, **parts)
    assert labels[fields.WEIGHTS][:4].tolist() == [1.0, 1.0, 0.5, 2.0]


def test_decoding_adds_few_operations():
    """Time to the first step is mostly time for building graphs."""
    with tf.Graph().as_default() as graph:
        PLAIN.prepare(PLAIN.decode(tf1.placeholder(tf.string, [])), FIXED, TRAIN)
        assert len(graph.get_operations()) < 400


def config(text=''):
    message = pipeline_pb2.TrainEvalPipelineConfig()
    message.train_input_reader.label_map_path = 'x'
    text_format.Merge(text, message)
    return message


def built(text='', label_map=LABEL_MAP):
    return inputs.build_reader(config(text), 3, label_map)


def test_reader_from_config():
    assert built() == inputs.Reader(3, 100, LABEL_MAP, max_train_boxes=100)
    reader = built(
        """train_input_reader {
          use_display_name: true load_instance_masks: true num_keypoints: 5 max_number_of_boxes: 7
        }"""
    )
    assert reader.use_display_name
    assert reader.mask_type == input_reader_pb2.NUMERICAL_MASKS
    assert (reader.keypoints, reader.max_boxes) == (KeypointDecoder(5), 7)
    masks = built('train_input_reader { load_instance_masks: true mask_type: PNG_MASKS }')
    assert masks.mask_type == input_reader_pb2.PNG_MASKS


MOST_BOXES = 'train_config { max_number_of_boxes: 2 } eval_input_reader { %s }'


def test_the_number_of_boxes_of_the_training_config_is_about_training_alone():
    """Published configs that set it (19 do) evaluate against all boxes that the reader takes."""
    for reader, most in (('', 100), ('max_number_of_boxes: 3', 3)):
        made = inputs.build_reader(config(MOST_BOXES % reader), 3, None)
        for mode, rows in ((TRAIN, 2), (EVAL, most)):
            _, labels = prepare(made, mode=mode, boxes=[BOX] * 5)
            assert labels[fields.BOXES].shape == (rows, 4)
            assert labels[fields.NUM_BOXES] == min(rows, 5)
            assert labels[fields.NUM_LEFT_OUT] == max(5 - rows, 0)


def test_where_the_training_config_says_nothing_each_reader_does():
    text = 'train_input_reader { max_number_of_boxes: 7 } eval_input_reader {}'
    assert (built(text).max_train_boxes, built(text).max_boxes) == (7, 100)
    # Without an evaluation reader the evaluation is one of the training data.
    assert built('train_input_reader { max_number_of_boxes: 7 }').max_boxes == 7


def test_classes_of_images_are_read_where_a_metric_needs_them():
    assert not built().image_classes
    assert built("eval_config { metrics_set: 'oid_challenge_detection_metrics' }").image_classes
    assert built('eval_config { skip_predictions_for_unlabeled_class: true }').image_classes


def test_fields_that_are_not_supported():
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text = 'train_input_reader { load_track_id: true }'
    text_format.Parse(f'model {{ ssd {{}} }} {text}', config)
    path = 'train_input_reader.load_track_id'
    with pytest.raises(errors.ConfigError, match=f'{path}: not supported'):
        validate(config)


def test_an_image_of_too_many_pixels_is_not_decoded():
    content = record(encoded=png(4, 5))
    assert decoder(inputs.Reader(num_classes=3, max_pixels=20))(content)[fields.IMAGE].shape[0] == 4
    with pytest.raises(tf.errors.InvalidArgumentError, match='the image has 20 pixels'):
        decoder(inputs.Reader(num_classes=3, max_pixels=19))(content)


def test_rotated_boxes_become_corners():
    reader = inputs.Reader(num_classes=3, max_boxes=4, family=quadrilaterals)
    # In an image of 4 x 6 pixels: 1 high and 3 wide, turned by a quarter; NaN is left out.
    lists = {
        'rbbox/cy': [0.5, NAN],
        'rbbox/cx': [0.5, 0.5],
        'rbbox/h': [0.25, 0.1],
        'rbbox/w': [0.5, 0.1],
        'rbbox/ang': [np.pi / 2, 0.0],
    }
    example = decode(reader, boxes=[], labels=[2, 3], **lists)
    corners = np.array([[0.5, 3.5], [3.5, 3.5], [3.5, 2.5], [0.5, 2.5]]) / [4, 6]
    np.testing.assert_allclose(example[fields.BOXES], [corners.ravel()], atol=1e-6)
    np.testing.assert_array_equal(example[fields.CLASSES], [1])
    np.testing.assert_allclose(example[fields.AREA], [3], atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match='not valid'):
        decode(reader, boxes=[], labels=[2, 3], **{**lists, 'rbbox/ang': [90.0, 0.0]})
