"""The comparisons that benchmarks make, at sizes at which only their agreement is seen."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from benchmarks import (
    coco_metrics,
    demo,
    deployment,
    measuring,
    pipelines,
    published,
    rotated,
    rotated_accuracy,
    rotated_tiles,
    suppression,
)
from estimator_lib.drawing.tiling import Tiling
from model_fns.detection import fields
from model_fns.detection.data import inputs, sequences
from model_fns.detection.metrics.evaluator import Groundtruth
from model_fns.structures import rotated_rectangles
from protos import pipeline_pb2
from tests import tiny_detection


def test_all_evaluators_give_the_same_twelve_numbers(tmp_path):
    path = str(tmp_path / 'scenes.npz')
    np.savez(path, **coco_metrics.random_scenes(6, seed=3))
    results = {side: coco_metrics.measure_here(side, path) for side in coco_metrics.SIDES}
    assert len(results['ours']['numbers']) == 12
    assert 0.05 < results['ours']['numbers'][0] < 0.95
    for one in results.values():
        np.testing.assert_allclose(one['numbers'], results['ours']['numbers'], atol=1e-12)


@pytest.mark.parametrize('trained', [False, True])
def test_suppression_equals_the_loop_and_the_rule(trained):
    case = suppression.Case('small', 2, 60, trained)
    found = suppression.measure(case, runs=1, seed=2)
    assert found['equal_to_loop'] and found['equal_to_rule']
    assert found['loop']['nodes'] > found['ours']['nodes']


def test_overlaps_of_rotated_boxes_are_those_of_clipping():
    results = rotated.check(14_000, seed=3)
    assert len(results) == 14 and {one['pairs'] for one in results} == {1000}
    beyond = [one for one in results if not (one['float64_within'] and one['float32_within'])]
    assert beyond == []


class SeesWholeBoxes:
    """A model that knows the objects of a picture, and where a tile is by its pixels.

    It finds those that are whole in a tile, and of others a part that looks better.
    """

    def __init__(self, boxes):
        self.boxes = boxes

    def predict(self, tiles):
        found = [self.predict_one(tile) for tile in tiles]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}

    def predict_one(self, tile):
        (top, left), side = tile[0, 0, :2], len(tile)
        boxes = self.boxes - [top, left, 0, 0, 0]
        corners = rotated_rectangles.corners(boxes) / side
        whole = np.all((corners >= 0) & (corners <= 1), axis=(1, 2))
        cut = np.all((boxes[:, :2] > 0) & (boxes[:, :2] < side), axis=1) & ~whole
        order = np.argsort(~(whole | cut), kind='stable')
        scores = np.where(whole, 0.8, np.where(cut, 0.9, 0.0))[order]
        shorter = np.where(whole, 1.0, 0.4)[:, np.newaxis]
        numbers = rotated_rectangles.to_record(
            np.concatenate([boxes[:, :3], boxes[:, 3:4] * shorter, boxes[:, 4:]], 1), side, side
        )
        middle = corners.mean(axis=1, keepdims=True)
        corners = middle + (corners - middle) * shorter[:, np.newaxis]
        return {
            fields.DETECTION_BOXES: numbers[order],
            fields.DETECTION_CORNERS: corners[order].reshape([-1, 8]),
            fields.DETECTION_SCORES: scores.astype(np.float32),
            fields.DETECTION_CLASSES: np.ones(len(boxes), np.float32),
            fields.NUM_DETECTIONS: np.float32(np.sum(whole | cut)),
        }


def test_tiles_of_a_perfect_model_are_merged_without_loss_and_doubles():
    places = np.arange(16) * 15.0
    boxes = np.array([[y + 8, x + 8, 6, 12, 0.1 * (y + x)] for y in places[1:13] for x in places])
    pixels = np.stack([*np.mgrid[:250, :250], np.zeros([250, 250])], axis=-1).astype(np.uint8)
    groundtruth = Groundtruth(
        rotated_rectangles.corners(boxes), np.ones(len(boxes), int), *[None] * 5
    )
    picture = rotated_accuracy.Picture('one', pixels, groundtruth)
    found = rotated_tiles.measure(
        SeesWholeBoxes(boxes), [picture], 250, Tiling(70, 30), batch_size=5
    )
    assert found['objects'] == found['objects_found_merged'] == len(boxes) == 192
    assert found['merged'] == found['detections_of_own_tiles'] == found['of_them_merged'] == 192
    assert found['merged_of_no_own_tile'] == 0 and found['doubles'] == 0


@pytest.mark.parametrize(
    ('model', 'kind'),
    [
        ('ssd { num_classes: 2 }', ''),
        ('ssd { feature_extractor { bifpn { min_level: 3 } } }', ''),
        ('faster_rcnn { num_classes: 2 }', ''),
        ('center_net { num_classes: 2 }', ''),
        ('experimental_model {}', 'model.experimental_model'),
    ],
)
def test_kinds_that_are_not_available(model, kind):
    config = text_format.Parse(f'model {{ {model} }}', pipeline_pb2.TrainEvalPipelineConfig())
    assert published.unavailable_kind(config) == kind


def test_a_refusal_that_nobody_expects_is_a_failure(tmp_path):
    path = tmp_path / 'empty.config'
    path.write_text('model { ssd { num_classes: 2 } }')
    outcome = published.run_here(str(path))
    assert outcome.status == published.FAILED
    assert outcome.name == 'empty' and outcome.message


def test_the_step_alone_has_the_side_that_it_is_given(monkeypatch):
    name = 'ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8'
    path = pathlib.Path(pipelines.PUBLISHED, 'tf2', f'{name}.config')
    if not path.exists():
        pytest.skip('the published configs are not there')
    sides = {}

    def run(task, config, folder):
        resizer = config.model.ssd.image_resizer.fixed_shape_resizer
        sides[parts.pop(0)] = (resizer.height, resizer.width)
        return published.Part()

    parts = list(published._PARTS)
    monkeypatch.setattr(published, '_part_apart', published.run_part)
    monkeypatch.setattr(published, '_PARTS', dict.fromkeys(parts, run))
    assert published.run_here(str(path), step_side=256).status == published.DONE
    assert sides == {'step': (256, 256), 'evaluation': (320, 320), 'export': (320, 320)}


def test_what_fails_in_a_process_of_its_own_is_a_failure(monkeypatch):
    def fail(module, arguments, timeout=None):
        raise measuring.ProcessError('status 1', ['a traceback', 'ValueError: no'])

    monkeypatch.setattr(measuring, 'run_apart', fail)
    outcome = published.run_apart('configs/one.config', memory_gib=2)
    assert (outcome.name, outcome.status) == ('one', published.FAILED)
    assert outcome.message == 'status 1: ValueError: no'
    assert published._part_apart('step', 'a_folder').message == 'step: status 1: ValueError: no'


def test_readers_of_sequences_get_sequences(tmp_path):
    tiny_detection.write_records(tmp_path / 'plain.tfrecord', 1, seed=0)
    reader = f"""
      tf_record_input_reader {{ input_path: '{tmp_path}/plain.tfrecord' }}
      load_context_features: true input_type: TF_SEQUENCE_EXAMPLE
    """
    config = text_format.Parse(
        f"""
        model {{ faster_rcnn {{ context_config {{ context_feature_length: 7 }} }} }}
        train_input_reader {{ {reader} }} eval_input_reader {{ {reader} }}
        """,
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    pipelines.complete_records(config, str(tmp_path), count=1)
    (path,) = config.eval_input_reader[0].tf_record_input_reader.input_path
    (record,) = tf.data.TFRecordDataset(path).as_numpy_iterator()
    (plain,) = tf.data.TFRecordDataset(f'{tmp_path}/plain.tfrecord').as_numpy_iterator()
    assert tf.train.SequenceExample.FromString(record).feature_lists.feature_list
    decoder = inputs.build_reader(config, num_classes=2, label_map=None)
    (frame,) = sequences.split(record)
    example = decoder.decode(tf.constant(frame))
    assert example[fields.CONTEXT_FEATURES].shape == [5, 7]
    values = tf.train.Example.FromString(plain).features.feature
    expected = values['image/object/bbox/ymin'].float_list.value
    np.testing.assert_allclose(example[fields.BOXES][:, 0], expected)


def test_records_get_what_their_readers_load(tmp_path):
    tiny_detection.write_records(tmp_path / 'plain.tfrecord', 3, seed=0)
    reader = f"""
      tf_record_input_reader {{ input_path: '{tmp_path}/plain.tfrecord' }}
      load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 2
      load_context_features: true
    """
    config = text_format.Parse(
        f"""
        model {{ faster_rcnn {{ context_config {{ context_feature_length: 7 }} }} }}
        train_input_reader {{ {reader} }} eval_input_reader {{ {reader} }}
        """,
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    pipelines.complete_records(config, str(tmp_path), count=2)
    (path,) = config.eval_input_reader[0].tf_record_input_reader.input_path
    decoder = inputs.build_reader(config, num_classes=2, label_map=None)
    records = list(tf.data.TFRecordDataset(path))
    assert len(records) == 2
    for record in records:
        assert decoder.find_problem(record.numpy()) is None
        example = decoder.decode(record)
        count = len(example[fields.BOXES])
        assert example[fields.CONTEXT_FEATURES].shape == [5, 7]
        masks, boxes = example[fields.MASKS].numpy(), example[fields.BOXES].numpy() * 64
        assert masks.shape == (count, 64, 64)
        for mask, box in zip(masks, boxes):
            # An ellipse fills pi / 4 of its box.
            area = (box[2] - box[0]) * (box[3] - box[1])
            assert mask.sum() == pytest.approx(area * np.pi / 4, rel=0.1)
            rows = np.flatnonzero(mask.any(1))
            np.testing.assert_allclose([rows[0], rows[-1] + 1], box[[0, 2]], atol=1)
        points = example[fields.KEYPOINTS].numpy()
        assert points.shape == (count, 2, 2) and np.isfinite(points).all()


def test_what_is_shown_of_the_demo_is_counted_as_by_hand():
    truth = demo.Objects(['star', 'ring', 'ring'], [[0, 0, 10, 10], [0, 20, 10, 30], [5, 5, 9, 9]])
    found = {
        'star': [[1, 0, 10, 10], [0, 1, 10, 10]],  # 0.9 of it, twice: found once
        'ring': [[0, 24, 10, 34], [0, 20, 5, 30]],  # 0.43 of it, and exactly half
        'cross': [[5, 5, 9, 9]],  # another name
    }
    shown = [(name, box) for name, boxes in found.items() for box in boxes]
    assert demo.count_right(demo.Objects(*zip(*shown)), truth) == 2
    assert demo.count_right(demo.Objects([], []), truth) == 0


def test_limits_of_the_demo_are_at_least_or_at_most():
    assert demo.Limit(0.8).holds(0.8) and not demo.Limit(0.8).holds(0.79)
    assert demo.Limit(240, at_least=False).holds(240)
    assert not demo.Limit(240, at_least=False).holds(241)


def test_exports_are_measured_on_the_same_images():
    def model(classes):
        return deployment.Model(
            2500,
            lambda images: [3 * image for image in images],
            lambda fed: np.eye(3)[classes[fed]],
        )

    images, labels = [np.array(value) for value in range(4)], np.array([0, 1, 2, 2])
    right, other = {0: 0, 3: 1, 6: 2, 9: 2}, {0: 0, 3: 2, 6: 2, 9: 1}

    class ByNumber(dict):
        def __getitem__(self, fed):
            return super().__getitem__(int(fed))

    rows = deployment.measure(
        {'first': model(ByNumber(right)), 'second': model(ByNumber(other))}, images, labels
    )
    assert [row['accuracy'] for row in rows.values()] == [1.0, 0.5]
    assert [row['agreement'] for row in rows.values()] == [1.0, 0.5]
    assert rows['second']['kB'] == 2.5
    assert 0 < rows['second']['least_ms'] <= rows['second']['median_ms']
