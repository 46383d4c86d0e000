"""Evaluations by tiles: merged detections against the labels of whole images."""

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, training
from estimator_lib.evaluation import tiles as evaluation_tiles
from model_fns import build_task
from model_fns.datasets import codecs, records
from model_fns.detection import fields
from model_fns.detection.detections import masks
from model_fns.structures import rotated_rectangles
from model_fns.structures.images import image_header
from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2
from tests import tiny_detection, tiny_rotated, tiny_two_stage

pytestmark = pytest.mark.usefixtures('shallow_networks')

SIZE = (100, 150)
SEEN = 64  # the longest side of an image in which the predictor finds anything
# Rows, columns: some at the seams of tiles of 64 that share 24.
PLACES = [(10, 10), (45, 58), (80, 40), (20, 100), (58, 96), (80, 135)]
SHAPE = 6, 10  # of each object
MASKED = 'DetectionBoxes', 'DetectionMasks'
UPRIGHT = 'DetectionBoxes_Precision/mAP'
ROTATED = 'RotatedBoxes_Precision/mAP@0.5IOU'


class Predictor:
    """Finds objects by their brightness, in images that are not large: as a network that sees
    small objects only where they are not scaled down."""

    path = 'fake.onnx'
    max_batch_size = None
    metrics = ()

    def __init__(self, rotated=False, has_masks=False):
        self._rotated, self._has_masks = rotated, has_masks
        numbers = 5 if rotated else 4
        shapes = {
            fields.DETECTION_BOXES: [None, numbers],
            fields.DETECTION_SCORES: [None],
            fields.DETECTION_CLASSES: [None],
            fields.NUM_DETECTIONS: [],
        }
        if rotated:
            shapes[fields.DETECTION_CORNERS] = [None, 8]
        if has_masks:
            shapes[fields.DETECTION_MASKS] = [None, 3, 3]
        self.output_shapes = shapes
        self.output_types = dict.fromkeys(shapes, tf.float32)

    def predict(self, images):
        rows = [self._find(image) for image in images]
        most = max(len(row[fields.DETECTION_SCORES]) for row in rows)
        return {
            name: np.stack([self._padded(row[name], most) for row in rows])
            for name in self.output_shapes
        }

    def _padded(self, values, most):
        if not np.ndim(values):
            return values
        return np.pad(values, [[0, most - len(values)], *[[0, 0]] * (values.ndim - 1)])

    def _find(self, image):
        size = np.array(image.shape[:2])
        found = []
        if max(size) <= SEEN:
            for value in range(100, 100 + len(PLACES)):
                points = np.argwhere(image[..., 1] == value)
                if len(points):
                    found.append(self._shape(points))
        boxes = np.array(found, np.float32).reshape([-1, 5 if self._rotated else 4])
        outputs = {
            fields.DETECTION_BOXES: boxes if self._rotated else boxes / np.tile(size, 2),
            fields.DETECTION_SCORES: np.linspace(0.9, 0.8, len(boxes), dtype=np.float32),
            fields.DETECTION_CLASSES: np.ones(len(boxes), np.float32),
            fields.NUM_DETECTIONS: np.float32(len(boxes)),
            fields.DETECTION_MASKS: np.ones([len(boxes), 3, 3], np.float32),
        }
        if self._rotated:
            corners = rotated_rectangles.corners(boxes) / size
            outputs[fields.DETECTION_CORNERS] = corners.reshape([-1, 8]).astype(np.float32)
            outputs[fields.DETECTION_BOXES] = rotated_rectangles.to_record(boxes, *size)
        return outputs

    def _shape(self, points):
        if not self._rotated:
            return [*points.min(axis=0), *points.max(axis=0) + 1]
        ends = np.concatenate([points + [dy, dx] for dy in (0, 1) for dx in (0, 1)])
        return rotated_rectangles.smallest_around(ends.astype(float))


def write_data(folder, rotated, size=SIZE, places=PLACES):
    image = np.zeros([*size, 3], np.uint8)
    boxes = []
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    for index, place in enumerate(places):
        box = np.array([*place, *SHAPE, 0.5 if rotated else 0.0])
        image[tiny_rotated.inside(box, rows, columns), 1] = 100 + index
        boxes.append(box)
    ids = np.ones(len(boxes), int)
    if rotated:
        record = tiny_rotated.record(image, np.array(boxes), ids)
    else:
        encoded = codecs.encode_png(image)
        features = records.image_features(encoded, image_header(encoded), 'a.png', 'a.png')
        centers, halves = np.array(boxes)[:, :2], np.array(SHAPE) / 2
        sides = np.concatenate([centers - halves, centers + halves], 1) / np.tile(size, 2)
        for column, side in enumerate(('ymin', 'xmin', 'ymax', 'xmax')):
            features[f'image/object/bbox/{side}'] = sides[:, column].astype(np.float32)
        features['image/object/class/label'] = ids
        features['image/object/mask'] = [
            codecs.encode_png((image[..., 1] == 100 + index).astype(np.uint8))
            for index in range(len(boxes))
        ]
        record = records.serialize(features)
    with tf.io.TFRecordWriter(str(folder / 'val.tfrecord')) as writer:
        writer.write(record)
    LabelMap.from_names(['green', 'blue']).write(str(folder / 'label_map.pbtxt'))


def config_of(folder, rotated, tiles=''):
    text = (tiny_rotated if rotated else tiny_detection).config_text(folder)
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    text_format.Merge(f'eval_config {{ tiles {{ {tiles} }} num_visualizations: 1 }}', config)
    return config


def test_masks_are_compared_at_the_size_of_the_image(tmp_path):
    """At the input of the network, 64 x 64 pixels, objects have 4 x 4 pixels; here 6 x 10."""
    write_data(tmp_path, rotated=False)
    config = text_format.Parse(
        tiny_two_stage.config_text(tmp_path, 3), pipeline_pb2.TrainEvalPipelineConfig()
    )
    config.eval_config.tiles.size, config.eval_config.tiles.overlap = 64, 24
    task = build_task(config, 'evaluate')
    predictor = Predictor(has_masks=True)
    metrics = training.evaluate_file(task, config, 'fake.onnx', predictor=predictor)
    found = {name: metrics['0'][f'{name}_Precision/mAP@.50IOU'] for name in MASKED}
    assert found == {'DetectionBoxes': pytest.approx(1.0), 'DetectionMasks': pytest.approx(1.0)}


def test_only_the_inputs_of_tiles_have_masks_of_the_size_of_the_image(tmp_path):
    """What else reads examples, as `Estimator.evaluate`, has those of the network's input."""
    write_data(tmp_path, rotated=False)
    config = text_format.Parse(
        tiny_two_stage.config_text(tmp_path, 3), pipeline_pb2.TrainEvalPipelineConfig()
    )
    config.eval_config.tiles.size = 64
    task = build_task(config, 'evaluate')
    serialized = next(tf.compat.v1.io.tf_record_iterator(f'{tmp_path}/val.tfrecord'))
    sizes = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        example = task.decode(tf.constant(serialized))
        for each in (task, task.as_tiled(64), task.as_tiled(200)):
            features, labels = each.prepare(example, 'eval')
            sizes.append((tf.shape(features[fields.IMAGE])[:2], tf.shape(labels[fields.MASKS])))
        session.run(tf.compat.v1.tables_initializer())
        own, of_tiles, fits = session.run(sizes)
    assert own[0].max() == own[1][1:].max() == 64  # the longer side of the network's input
    assert of_tiles[1].tolist() == [len(PLACES), *SIZE]
    assert [part.tolist() for part in fits] == [part.tolist() for part in own]


def test_models_with_context_are_refused():
    """A tile is predicted alone, and the network would attend to no other image."""
    found = []
    for model in (tiny_two_stage.MODEL, tiny_two_stage.CONTEXT):
        text = f'{model.format(stages=2)} eval_config {{ tiles {{ size: 64 }} }}'
        config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
        task = build_task(config)
        found.append(bool(task.presentation.tiled_outputs))
    assert found == [True, False]
    with pytest.raises(errors.ConfigError, match='or its network needs the context of other imag'):
        evaluation_tiles.check(task, config.eval_config)


@pytest.mark.parametrize(('rotated', 'metric'), [(False, UPRIGHT), (True, ROTATED)])
def test_small_objects_are_found_in_tiles_only(tmp_path, rotated, metric):
    write_data(tmp_path, rotated)
    folder = tmp_path / 'results'
    found = {}
    for tiles in ('', 'size: 64 overlap: 24'):
        config = config_of(tmp_path, rotated, tiles)
        if not rotated:
            config.eval_config.coco_files = str(folder)
        task = build_task(config, 'evaluate')
        metrics = training.evaluate_file(
            task,
            config,
            'fake.onnx',
            str(folder),
            predictor=Predictor(rotated),
            analyze=bool(tiles),
        )
        found[tiles] = metrics['0'][metric]
    assert found == {'': 0.0, 'size: 64 overlap: 24': pytest.approx(1.0)}
    # What else reads an evaluation has the merged detections too.
    assert (folder / 'analysis' / 'fake.onnx' / 'report.html').exists()
    rows = (folder / 'analysis' / 'fake.onnx' / 'errors.csv').read_text().splitlines()
    assert len(rows) == 1
    if not rotated:
        results = json.loads((folder / 'results.json').read_text())
        corners = sorted(tuple(np.round(result['bbox']).astype(int)) for result in results)
        assert corners == sorted((x - 5, y - 3, 10, 6) for y, x in PLACES)


def test_images_that_fit_in_a_tile_have_the_numbers_of_whole_ones(tmp_path):
    write_data(tmp_path, False, (60, SEEN), [(10, 10), (45, 30), (25, 50)])
    found = []
    for tiles in ('', f'size: {SEEN}'):
        config = config_of(tmp_path, False, tiles)
        task = build_task(config, 'evaluate')
        metrics = training.evaluate_file(
            task, config, 'fake.onnx', str(tmp_path / 'results'), predictor=Predictor()
        )
        found.append(metrics['0'])
    assert found[0][UPRIGHT] > 0.9
    assert found[1] == pytest.approx(found[0], abs=1e-6, nan_ok=True)


def test_masks_of_one_size_are_those_that_were_listed():
    """The finest has 3 x 5 cells; linear interpolation between cells keeps straight ramps."""
    ramp = np.array([[0, 1], [0, 1]], np.float32)
    fine = np.array([[0, 0, 0, 0, 1]] * 3, np.float32)
    even = masks.even_masks(masks.list_masks([ramp, fine]))
    np.testing.assert_allclose(even[0], [[0, 0.25, 0.5, 0.75, 1]] * 3, atol=1e-6)
    np.testing.assert_array_equal(even[1], fine)
    assert masks.even_masks(masks.list_masks([])).shape == (0, 1, 1)
