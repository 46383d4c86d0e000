"""Classes that boxes are learned with, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from model_fns.detection import fields
from model_fns.detection.data import class_targets, image_resizers, inputs
from model_fns.structures.label_map import LabelMap, LabelMapItem
from tests.model_fns.detection.records import record

TRAIN, EVAL = tf_estimator.ModeKeys.TRAIN, tf_estimator.ModeKeys.EVAL
FIXED = image_resizers.FixedShapeResizer(8, 8)
BOX, OTHER = [0.1, 0.2, 0.5, 0.6], [0.0, 0.0, 1.0, 0.5]
NEARLY = [0.10001, 0.2, 0.5, 0.6]
ANIMALS = LabelMap(
    (
        LabelMapItem(1, 'animal', 'animal', descendant_ids=(2, 3)),
        LabelMapItem(2, 'cat', 'cat', ancestor_ids=(1,)),
        LabelMapItem(3, 'dog', 'dog', ancestor_ids=(1,)),
    )
)


def labels_of(reader, serialized, mode=TRAIN):
    _, labels = reader.prepare(reader.decode(tf.constant(serialized)), FIXED, mode)
    return {name: np.asarray(value) for name, value in labels.items()}


class TestEqualBoxes:
    READER = inputs.Reader(num_classes=3, max_boxes=4, merges_boxes=True)
    RECORD = record(boxes=[BOX, OTHER, NEARLY], labels=[1, 2, 3], weight=[0.5, 1.0, 0.25])

    def test_become_one_box_of_all_classes(self):
        labels = labels_of(self.READER, self.RECORD)
        assert labels[fields.NUM_BOXES] == 2
        np.testing.assert_array_equal(labels[fields.CLASSES][:2], [[1, 0, 1], [0, 1, 0]])
        np.testing.assert_allclose(labels[fields.BOXES][:2], [BOX, OTHER])
        np.testing.assert_allclose(labels[fields.WEIGHTS], [0.5, 1.0, 0, 0])

    def test_stay_apart_in_an_evaluation(self):
        labels = labels_of(self.READER, self.RECORD, EVAL)
        np.testing.assert_array_equal(labels[fields.CLASSES][:3], np.eye(3)[[0, 1, 2]])

    def test_an_image_may_have_no_boxes(self):
        labels = labels_of(self.READER, record())
        assert labels[fields.NUM_BOXES] == 0 and labels[fields.CLASSES].shape == (4, 3)


class TestScores:
    READER = inputs.Reader(num_classes=3, max_boxes=4, class_scores=True)
    KEY = 'class/multiclass_scores'
    SCORES = (0.5, 0.25, 0.125, 0.0, 0.75, 1.0)

    def record(self, scores):
        return record(boxes=[BOX, OTHER], labels=[1, 2], **{self.KEY: scores})

    def test_replace_classes_in_training(self):
        serialized = self.record(self.SCORES)
        expected = np.reshape(self.SCORES, [2, 3])
        labels = labels_of(self.READER, serialized)
        np.testing.assert_array_equal(labels[fields.CLASSES][:2], expected)
        labels = labels_of(self.READER, serialized, EVAL)
        np.testing.assert_array_equal(labels[fields.CLASSES][:2], np.eye(3)[[0, 1]])

    def test_of_a_record_without_any_are_its_classes(self):
        labels = labels_of(self.READER, self.record([]))
        np.testing.assert_array_equal(labels[fields.CLASSES][:2], np.eye(3)[[0, 1]])

    def test_of_some_boxes_are_a_problem(self):
        serialized = self.record(self.SCORES[:5])
        said = self.READER.find_problem(serialized)
        assert said.startswith('2 boxes and 5 image/object/class/multiclass_scores; expected none,')
        with pytest.raises(tf.errors.InvalidArgumentError):
            self.READER.decode(tf.constant(serialized))
        assert inputs.Reader(num_classes=3).find_problem(serialized) is None


class TestHierarchy:
    READER = inputs.Reader(
        num_classes=3,
        max_boxes=4,
        label_map=ANIMALS,
        image_classes=True,
        hierarchy=class_targets.build_hierarchy(ANIMALS, 3, 'train_input_reader'),
    )

    def test_a_box_is_one_of_the_classes_above_too(self):
        labels = labels_of(self.READER, record(boxes=[BOX, OTHER], labels=[2, 1]), EVAL)
        assert labels[fields.NUM_BOXES] == 3
        np.testing.assert_array_equal(labels[fields.CLASSES][:3], np.eye(3)[[0, 1, 0]])
        np.testing.assert_allclose(labels[fields.BOXES][:3], [BOX, BOX, OTHER])

    @pytest.mark.parametrize(
        'ids, confidences, expected',
        [
            ([2], [], [1, 1, 0]),
            ([2], [0.0], [0, 1, 0]),
            ([1], [0.0], [1, 1, 1]),
            ([1, 3], [1.0, 0.0], [1, 0, 1]),
            ([], [], [0, 0, 0]),
        ],
    )
    def test_verified_classes_tell_about_others(self, ids, confidences, expected):
        found = self.READER.hierarchy.expand_image(
            tf.constant(ids, tf.int64) - 1, tf.constant(confidences, tf.float32)
        )
        np.testing.assert_array_equal(found, expected)

    def test_records_may_name_verified_classes(self):
        message = tf.train.Example.FromString(
            record(image_labels=[2, 3], image_texts=['cat', 'dog'])
        )
        message.features.feature['image/class/confidence'].float_list.value.extend([0.0, 0.0])
        labels = labels_of(self.READER, message.SerializeToString())
        np.testing.assert_array_equal(labels[fields.IMAGE_CLASSES], [0, 1, 1])

    def test_a_label_map_without_one_is_refused(self):
        flat = LabelMap.from_names(['a', 'b'])
        for label_map in (flat, None):
            with pytest.raises(errors.ConfigError, match='expected ancestor_ids in the items'):
                class_targets.build_hierarchy(label_map, 2, 'train_input_reader')

    def test_an_unknown_ancestor_is_named(self):
        broken = LabelMap((LabelMapItem(1, 'a', 'a', ancestor_ids=(7,)),))
        with pytest.raises(errors.DataError, match='no item has id 7'):
            class_targets.build_hierarchy(broken, 1, 'train_input_reader')


def test_classes_of_an_image_for_lvis():
    message = tf.train.Example.FromString(record(boxes=[BOX], labels=[1]))
    for key, ids in (('neg', [3, 2, 3]), ('not_exhaustive', [1, 9])):
        message.features.feature[f'image/{key}_category_ids'].int64_list.value.extend(ids)
    reader = inputs.Reader(num_classes=3, max_boxes=4, absent_classes=True)
    labels = labels_of(reader, message.SerializeToString(), EVAL)
    np.testing.assert_array_equal(labels[fields.ABSENT_CLASSES], [0, 1, 1])
    np.testing.assert_array_equal(labels[fields.INCOMPLETE_CLASSES], [1, 0, 0])
