"""ONNX files of one model of each task and family, in onnxruntime, beside TensorFlow: to 1e-4."""

import importlib.util
import re

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.export import formats
from estimator_lib.export.writers import Source
from model_fns import build_task
from model_fns.detection import fields
from model_fns.detection.boxes import parallelograms
from tests import tiny_center_net, tiny_deployed, tiny_detection, tiny_rotated, tiny_two_stage
from tests.estimator_lib.export.devices.test_onnx_files import Graph
from tests.model_fns.classification import test_deployable as of_classification
from tests.model_fns.detection import test_deployable as of_detection
from tests.model_fns.detection.architectures.center_net.test_build import LABEL_MAP, TASK
from tests.model_fns.segmentation import test_deployable as of_segmentation
from tests.model_fns.segmentation.test_deployable import tiny_backbone  # noqa: F401

PACKAGES = ('tf2onnx', 'onnx', 'onnxruntime')
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.usefixtures('shallow_networks', 'uncopied_onnx_graphs')
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
        rows = int(found[fields.NUM_DETECTIONS][0])
        assert expected[fields.NUM_DETECTIONS][0] == rows >= 2
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
    assert nodes.count('QuantizeLinear') == nodes.count('DequantizeLinear') > 9


@writes
@pytest.mark.parametrize('step', [0.3, 5.0])
def test_intersections_of_rotated_boxes_none_of_which_may_touch(step, tmp_path):
    """Boxes of 1 x 1 in a row: with a step of 0.3 the next three overlap by 0.7, 0.4 and 0.1."""

    def overlaps(pixels):
        place = tf.reshape(tf.reduce_max(pixels, axis=[0, 2, 3]), [8, 1]) * step
        edges = tf.constant([[0.5, 0.0, 0.0, 0.5]])
        shapes = tf.concat([tf.zeros_like(place), place, tf.tile(edges, [8, 1])], 1)
        half = tf.split(shapes[tf.newaxis], 2, axis=1)
        return {'areas': parallelograms.pairwise_intersection(*half, at_once=True)}

    graph, path = Graph(overlaps, 'areas').static(), str(tmp_path / 'model.onnx')
    writer = formats.create_writer('onnx')
    writer.convert(graph, path, 'none')
    image = np.tile(np.arange(8, dtype=np.float32)[:, np.newaxis, np.newaxis], [1, 1, 8, 4])
    image = image.reshape(1, 8, 8, 4)
    found = writer.load(path).run(image)['areas']
    apart = step * np.abs(np.arange(4)[:, np.newaxis] - np.arange(4, 8))
    np.testing.assert_allclose(found, [np.maximum(1.0 - apart, 0.0)], atol=1e-5)


KEPT = 'keep_aspect_ratio_resizer { min_dimension: 48 max_dimension: 64 }'
PADDED = KEPT.replace('48', '64').replace('64 }', '64 pad_to_max_dimension: true }')
HEAD = '%s_head_params { num_filters: 8 }'
HEADS = ' '.join(HEAD % name for name in ('heatmap', 'offset', 'regress'))


def two_stage(text, stages=2, resizer=None):
    text = text.format(stages=stages, hyperparams=tiny_detection.HYPERPARAMS)
    if resizer:
        text = re.sub(r'fixed_shape_resizer \{.*?\}', resizer, text)
    return text


def center_net(folder):
    (folder / 'map.pbtxt').write_text(LABEL_MAP)
    blue = f'rescore_instances: true per_keypoint_offset: true {HEADS}'
    tasks = TASK % ('a', 'blue', blue) + TASK % ('b', 'green', HEADS)
    return tiny_center_net.MODEL.replace(
        'center_net {', f'center_net {{ keypoint_label_map_path: "{folder}/map.pbtxt" {tasks}', 1
    )


# Boxes of the CenterNet are 6 cells wide: at first they have no area.
SIZES = {f'PredictionHeads/box/scale/output_0/conv_2/{name}': value
         for name, value in (('bias', 6.0), ('weights', 0.0))}  # fmt: skip
FAMILIES = {
    'masks, padded images': lambda _: two_stage(tiny_two_stage.MASKS, 3, PADDED),
    'position-sensitive, images of any size': lambda _: two_stage(
        tiny_two_stage.POSITION_SENSITIVE, 2, KEPT
    ),
    'keypoints': center_net,
    'rotated, two stages': lambda _: two_stage(tiny_rotated.TWO_STAGES),
}
OUTPUTS = (fields.DETECTION_MASKS, fields.DETECTION_KEYPOINTS, fields.DETECTION_CORNERS)


def made(text, folder):
    config = config_lib.parse_pipeline_config(text, 'text')
    task = build_task(config)
    is_center_net = 'center_net' in text
    checkpoint = tiny_deployed.save(
        task, folder / 'model.ckpt', not is_center_net, filled=SIZES if is_center_net else None
    )
    return task, config, checkpoint


@writes
@pytest.mark.parametrize('family', FAMILIES)
def test_detectors_whose_files_take_any_number_of_images(family, tmp_path, monkeypatch):
    """What an export answers to each image, a file answers to all of them at once, or to none."""
    import onnx
    import tf2onnx.optimizer

    if 'rotated' in family:  # a pass fails on their loops: users have the graph without it
        monkeypatch.delitem(tf2onnx.optimizer._optimizers, 'remove_identity')
    task, config, checkpoint = made(FAMILIES[family](tmp_path), tmp_path)
    served = tiny_deployed.Served(task, checkpoint)
    deployed = tiny_deployed.Deployed(
        task, config, checkpoint, tmp_path, format_name='onnx', batch=None
    )
    images = tiny_deployed.images(3, 50, 64)
    expected = [served(image) for image in images]
    assert sum(one[fields.NUM_DETECTIONS][0] for one in expected) >= 4
    pixels = np.concatenate([deployed.pixels(image) for image in images])
    found = deployed.file.run(pixels)
    none = deployed.file.run(pixels[:0])
    assert {name: one.shape for name, one in none.items()} == {
        name: (0, *one.shape[1:]) for name, one in found.items()
    }
    kept = [name for name in OUTPUTS if name in found]
    for index, (image, wanted) in enumerate(zip(images, expected)):
        row = {name: value[index : index + 1] for name, value in found.items()}
        outputs = deployed.finished(row, image)
        names = (*of_detection.DETECTIONS, *kept)
        assert_alike(
            {name: outputs[name] for name in names}, {name: wanted[name] for name in names}
        )

    model = onnx.load(str(tmp_path / 'model.onnx'))
    onnx.checker.check_model(model)
    assert {entry.domain for entry in model.opset_import} <= {'', 'ai.onnx.ml'}
    loops = {'Loop', 'If', 'Scan'} & {node.op_type for node in model.graph.node}
    assert loops == ({'Loop'} if 'rotated' in family else set())


def change_weights(path):
    """Make the largest weights of a file a fiftieth larger."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(path))
    weights = max(
        (each for each in model.graph.initializer if len(each.dims) == 4),
        key=lambda each: np.prod(each.dims),
    )
    changed = numpy_helper.to_array(weights) * np.float32(1.02)
    weights.CopyFrom(numpy_helper.from_array(changed, weights.name))
    onnx.save(model, str(path))


SILENT = {
    'single shot': lambda: of_detection.config_of(
        of_detection.OF_SUPPRESSION % 'score_threshold: 1.0'
    ),
    'two stages': lambda: config_lib.parse_pipeline_config(
        two_stage(tiny_two_stage.MODEL.replace('score_threshold: 0.01', 'score_threshold: 1.0')),
        'text',
    ),
}
COMPARED = {
    'single shot': ['box_encodings', 'class_predictions'],
    'two stages': [
        'proposals',
        'rpn_box_encodings',
        'rpn_objectness_predictions_with_background',
    ],
}


@writes
@pytest.mark.parametrize('family', SILENT)
def test_a_changed_file_is_refused_though_the_model_finds_nothing(family, tmp_path):
    """Raw predictions are compared to 1e-4, and are no outputs of the file."""
    task, config, checkpoint = of_detection.model(SILENT[family](), tmp_path)
    source, writer = Source(task, config, checkpoint), formats.create_writer('onnx')
    model = writer.build(source)
    writer.write(model, source, str(tmp_path))
    about = writer.verify(model, source, str(tmp_path))
    assert list(about['outputs']) == list(model.graph.deployable.meanings)
    parts = about['agreement']['outputs']
    assert sorted(parts) == sorted(['scores in order', *COMPARED[family]])
    assert set(parts.values()) == {1.0}
    change_weights(tmp_path / 'model.onnx')
    with pytest.raises(errors.UserError, match='computes something else than the model'):
        writer.verify(model, source, str(tmp_path))
