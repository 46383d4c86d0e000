"""Recorded cases of single-shot detectors in ../shared/golden, and our network run on them.

    case = load('ssd_mobilenet_v1_coco')     # skips the test when it is not there
    ours = run(case, is_training=False)      # resizer, extractor, head and anchors
    case.check('infer/pred__box_encodings', ours.box_encodings, 1e-4)

For parts that start from a graph: `build` puts the network in the current graph, `set_weights`
gives it the recorded weights.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection.boxes import anchors, box_coders
from model_fns.detection.data import image_resizers
from model_fns.detection.networks import box_predictors
from model_fns.detection.networks.feature_extractors import extractor
from protos import model_pb2, pipeline_pb2, ssd_pb2
from tests.conftest import shared_folder
from tests.model_fns.backbones import recorded_backbones

tf1 = tf.compat.v1

CASES = ('ssd_mobilenet_v1_coco', 'ssd_mobilenet_v1_fpn_320', 'ssdlite_mobilenet_v2_coco')

set_weights = recorded_backbones.set_weights
assert_close = recorded_backbones.assert_close


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A recorded case; `../shared/golden/README.md` explains the arrays' names.

    Attributes:
        name: of its files.
        config: the detector.
        arrays: what was recorded.
    """

    name: str
    config: ssd_pb2.Ssd
    arrays: Dict[str, np.ndarray]

    @property
    def images(self) -> np.ndarray:
        """uint8 [batch, height, width, 3], before resizing."""
        return self.arrays['input_image_uint8']

    def groundtruth(self) -> List[Tuple[np.ndarray, np.ndarray]]:
        """Return boxes [n, 4] and classes [n], from 0, of each image."""
        return [
            (self.arrays[f'train/boxes{index}'], self.arrays[f'train/classes{index}'])
            for index in range(len(self.images))
        ]

    def check(self, key: str, value: Any, tolerance: float) -> None:
        """Compare with an array that was recorded completely, or as every n-th element.

        Args:
            key: its name.
            value: ours.
            tolerance: of each element, relative to the largest recorded magnitude.
        """
        assert_close(*self.recorded(key, value), tolerance, key)

    def recorded(self, key: str, value: Any) -> Tuple[np.ndarray, np.ndarray]:
        """Return what was recorded of an array: the elements of ours, and the recorded ones."""
        value = np.asarray(value)
        if key in self.arrays:
            return value, self.arrays[key]
        assert value.shape == tuple(self.arrays[f'{key}__shape']), key
        return value.ravel()[:: int(self.arrays[f'{key}__stride'])], self.arrays[f'{key}__sub']


@dataclasses.dataclass(frozen=True)
class Network:
    """A detector's raw outputs: tensors from `build`, arrays from `run`.

    Attributes:
        preprocessed: float32 [B, height, width, 3].
        feature_maps: float32 [B, height, width, channels] each.
        anchors: float32 [A, 4], always an array.
        box_encodings: float32 [B, A, K].
        class_logits: float32 [B, A, C'].
        regularization_loss: sum of all regularization losses; None if there are none.
    """

    preprocessed: Any
    feature_maps: Any
    anchors: np.ndarray
    box_encodings: Any
    class_logits: Any
    regularization_loss: Optional[Any] = None


@functools.cache
def load(name: str) -> Case:
    """Load the recorded case of that name, or skip the test without it."""
    folder = shared_folder() / 'golden'
    path = folder / f'{name}.npz'
    if not path.is_file():
        pytest.skip(f'the recorded case {path.name} is not in ../shared/golden')
    with np.load(path) as recorded:
        arrays = {key: recorded[key] for key in recorded.files}
    return Case(name, read_model(folder / f'{name}.config'), arrays)


def read_model(path: pathlib.Path) -> ssd_pb2.Ssd:
    """Read the single-shot detector of a file with a `model { ... }` text, or its content."""
    text = path.read_text()
    if text.startswith('model'):
        return text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig()).model.ssd
    return text_format.Parse(text, model_pb2.DetectionModel()).ssd


def build(config: ssd_pb2.Ssd, images: tf.Tensor, is_training: bool) -> Network:
    """Build extractor and head in the current graph.

    Args:
        config: the detector.
        images: float32 [B, height, width, 3] in [0, 255], of the network's input size.
        is_training: batch statistics.
    """
    made = extractor.build_feature_extractor(
        Section(config.feature_extractor),
        is_training,
        config.freeze_batchnorm,
        config.inplace_batchnorm_update,
    )
    preprocessed = made.preprocess(images)
    maps = made.extract(preprocessed)
    generator = anchors.build_anchor_generator(Section(config.anchor_generator))
    predictor = box_predictors.build_box_predictor(
        Section(config.box_predictor),
        box_coders.build_box_coder(Section(config.box_coder)).code_size,
        config.num_classes + int(config.add_background_class),
        is_training,
        config.inplace_batchnorm_update,
        config.freeze_batchnorm,
    )
    codes, logits = predictor.predict(maps, generator.anchors_per_location())
    grids = [tuple(one.shape.as_list()[1:3]) for one in maps]
    boxes = generator.generate(grids, tuple(images.shape.as_list()[1:3]))
    penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    return Network(
        preprocessed,
        maps,
        boxes,
        codes,
        logits,
        tf.add_n(penalties) if penalties else None,
    )


def resized(config: ssd_pb2.Ssd, images: np.ndarray) -> tf.Tensor:
    """Resize images to the network's input size, float32 in [0, 255], in the current graph."""
    resizer = image_resizers.build_image_resizer(
        Section(config.image_resizer, 'model.ssd.image_resizer')
    )
    return tf.stack([resizer.resize(tf.constant(image)).image for image in images])
