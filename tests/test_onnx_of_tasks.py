"""ONNX files of one model of each task, in onnxruntime, beside TensorFlow: to 1e-4."""

import importlib.util

import numpy as np
import pytest

from model_fns import build_task
from model_fns.detection import fields
from tests import tiny_deployed
from tests.model_fns.classification import test_deployable as of_classification
from tests.model_fns.detection import test_deployable as of_detection
from tests.model_fns.segmentation import test_deployable as of_segmentation
from tests.model_fns.segmentation.test_deployable import tiny_backbone  # noqa: F401

PACKAGES = ('tf2onnx', 'onnx', 'onnxruntime')
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]

writes = pytest.mark.skipif(bool(MISSING), reason=f'{MISSING} are not installed: [onnx]')
CLOSE = {'rtol': 1e-4, 'atol': 1e-4}


def functions_of(task, config, checkpoint, folder):
    """What an export and a file answer, as functions of an image."""
    deployed = tiny_deployed.Deployed(task, config, checkpoint, folder, format_name='onnx')
    return tiny_deployed.Served(task, checkpoint), deployed


def assert_alike(found, expected):
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        np.testing.assert_allclose(found[name], value, err_msg=name, **CLOSE)


@writes
def test_a_classifier(tmp_path):
    trained = of_classification.model(of_classification.TINY, '', tmp_path)
    served, deployed = functions_of(*trained, tmp_path)
    for image in tiny_deployed.images(3):
        assert_alike(deployed(image), served(image))


@writes
def test_a_segmentation_network_with_all_its_heads(tmp_path):
    config = of_segmentation.config_of()
    task = build_task(config)
    checkpoint = tiny_deployed.save(task, tmp_path / 'model.ckpt')
    served, deployed = functions_of(task, config, checkpoint, tmp_path)
    for height, width in ((20, 30), (33, 41)):
        (image,) = tiny_deployed.images(1, height, width)
        assert_alike(deployed(image), served(image))


@writes
def test_a_detector_with_its_suppression(tmp_path):
    trained = of_detection.model(of_detection.config_of(), tmp_path)
    served, deployed = functions_of(*trained, tmp_path)
    images = tiny_deployed.images(3, 50, 64)
    for image in images:
        expected, found = served(image), deployed(image)
        # Of an image that has as many as there is room for, a box without area took a place.
        rows = int(found[fields.NUM_DETECTIONS][0])
        assert expected[fields.NUM_DETECTIONS][0] - 2 <= rows and rows >= 2
        assert_alike(
            {name: found[name][:, :rows] for name in of_detection.DETECTIONS[:3]},
            {name: expected[name][:, :rows] for name in of_detection.DETECTIONS[:3]},
        )
    # What the file itself answers, row by row, and what TensorFlow makes of the same graph.
    pixels = [deployed.pixels(image) for image in images]
    for one, expected in zip(pixels, deployed.graph.run(pixels)):
        assert_alike(deployed.file.run(one), expected)


@writes
def test_a_detector_whose_classes_suppress_each_other(tmp_path):
    task, config, checkpoint = of_detection.model(of_detection.config_of(), tmp_path)
    deployed = tiny_deployed.Deployed(
        task, config, checkpoint, tmp_path, format_name='onnx', fast_nms=True, max_detections=4
    )
    pixels = [deployed.pixels(image) for image in tiny_deployed.images(2, 50, 64)]
    for one, expected in zip(pixels, deployed.graph.run(pixels)):
        assert expected[fields.DETECTION_SCORES].shape == (1, 4)
        assert_alike(deployed.file.run(one), expected)


@writes
def test_a_network_that_was_trained_to_be_quantized_computes_its_evaluation(tmp_path):
    rest = 'graph_rewriter { quantization { delay: 0 } }'
    trained = of_classification.model(of_classification.TINY, rest, tmp_path, lively=False, steps=3)
    deployed = tiny_deployed.Deployed(*trained, tmp_path, format_name='onnx')
    assert deployed.graph.is_quantized
    pixels = [deployed.pixels(image) for image in tiny_deployed.images(4)]
    expected = [one['logits'][0] for one in deployed.graph.run(pixels)]
    found = [deployed.file.run(one)['logits'][0] for one in pixels]
    # An activation that lies between two numbers may be rounded to either.
    step = np.ptp(expected) / 255.0
    np.testing.assert_allclose(found, expected, atol=3 * step)

    import onnx

    nodes = [node.op_type for node in onnx.load(str(tmp_path / 'model.onnx')).graph.node]
    assert nodes.count('QuantizeLinear') == nodes.count('DequantizeLinear') > 20
