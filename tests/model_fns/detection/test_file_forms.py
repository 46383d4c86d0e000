"""Forms of detectors in files: without suppression, and with the node of a plugin."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.export import formats
from estimator_lib.export.writers import Source
from estimator_lib.task_interfaces.deployable import DeploymentOptions, Ops
from model_fns import build_task
from model_fns.detection import fields
from model_fns.detection.deployment import forms
from tests import tiny_center_net, tiny_deployed, tiny_detection, tiny_rotated, tiny_two_stage
from tests.model_fns.detection import test_deployable

pytestmark = pytest.mark.usefixtures('shallow_networks')

PACKAGES = ('tf2onnx', 'onnx', 'onnxruntime')
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]

writes = pytest.mark.skipif(bool(MISSING), reason=f'{MISSING} are not installed: [onnx]')
CLOSE = {'rtol': 1e-4, 'atol': 1e-4}


def task_of(text, stages=2):
    if '{{' in text:
        text = text.format(stages=stages, hyperparams=tiny_detection.HYPERPARAMS)
    return build_task(config_lib.parse_pipeline_config(text, 'text'))


@pytest.mark.parametrize(
    ('text', 'stages', 'kind', 'said'),
    [
        (tiny_two_stage.MASKS, 3, 'none', 'masks, keypoints and proposals of model.faster_rcnn'),
        (tiny_two_stage.MODEL, 1, 'none', 'masks, keypoints and proposals of model.faster_rcnn'),
        (tiny_rotated.MODEL, 2, 'efficient_nms', 'the plugin has no rotated boxes'),
        (
            tiny_center_net.MODEL[: tiny_center_net.MODEL.index('post_processing')] + '}}',
            2,
            'none',
            'model.center_net has no post_processing',
        ),
    ],
)
def test_what_has_no_such_form_is_refused_in_a_sentence(text, stages, kind, said):
    task = task_of(text, stages)
    with pytest.raises(errors.UserError) as caught:
        task.deployable(Ops.CORE, DeploymentOptions(suppression=kind))
    assert str(caught.value).startswith(f'--suppression={kind}: {said}')


def test_a_tflite_file_has_its_suppression():
    with pytest.raises(
        errors.UserError, match='--suppression=.* is of --format=onnx; leave it out'
    ):
        task_of(tiny_detection.MODEL).deployable(Ops.TFLITE, DeploymentOptions(suppression='none'))


@pytest.mark.parametrize(
    ('text', 'ops', 'kind', 'has_note'),
    [
        (tiny_detection.MODEL, Ops.CORE, 'standard', True),
        (tiny_detection.MODEL, Ops.CORE, 'none', False),
        (tiny_detection.MODEL, Ops.TFLITE, 'standard', False),
        (tiny_two_stage.MODEL, Ops.CORE, 'standard', True),
        (tiny_two_stage.MASKS, Ops.CORE, 'standard', False),  # it has no other form
        (tiny_rotated.MODEL, Ops.CORE, 'standard', False),
    ],
)
def test_a_suppression_that_is_slow_in_opencv_is_a_note(text, ops, kind, has_note):
    stages = 3 if text == tiny_two_stage.MASKS else 2
    form = task_of(text, stages).deployable(ops, DeploymentOptions(suppression=kind))
    assert any('cv2.dnn' in note for note in form.notes) == has_note


def test_a_file_without_suppression_gives_no_detections():
    form = task_of(tiny_rotated.MODEL).deployable(Ops.CORE, DeploymentOptions(suppression='none'))
    assert isinstance(form, forms.UnsuppressedDeployable) and form.plugin_node() is None
    with pytest.raises(errors.UserError, match='expected one of --suppression=standard'):
        form.outputs({}, {})


def test_boxes_and_scores_of_proposals(tmp_path):
    """Rows are proposals, and boxes are by class; suppressed, they are the detections."""
    task = task_of(tiny_two_stage.MODEL)
    checkpoint = tiny_deployed.save(task, tmp_path / 'model.ckpt')
    (image,) = tiny_deployed.images(1, 64, 64)
    expected = tiny_deployed.Served(task, checkpoint)(image)
    form = task.deployable(Ops.CORE, DeploymentOptions(suppression='none'))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs = form.network(tf.constant(image[np.newaxis], tf.float32))
        tf.compat.v1.train.Saver().restore(session, checkpoint)
        found = session.run(outputs)
    boxes, scores = (found[name][0] for name in form.meanings)
    assert boxes.shape == (8, 2, 4) and scores.shape == (8, 2)
    proposals = expected[fields.RAW_DETECTION_SCORES][0].any(axis=-1)
    np.testing.assert_allclose(scores[~proposals], 0.0)
    for score, label, box in zip(
        expected[fields.DETECTION_SCORES][0],
        expected[fields.DETECTION_CLASSES][0].astype(int) - 1,
        expected[fields.DETECTION_BOXES][0],
    ):
        if score:
            row = np.argmin(np.abs(scores[:, label] - score))
            assert scores[row, label] == pytest.approx(score, abs=1e-5)
            np.testing.assert_allclose(np.clip(boxes[row, label], 0, 1), box, atol=1e-4)


@writes
def test_boxes_and_scores_without_suppression(tmp_path):
    trained = test_deployable.model(
        test_deployable.config_of(resizer=test_deployable.PADDED), tmp_path
    )
    served, deployed = tiny_deployed.Served(trained[0], trained[2]), tiny_deployed.Deployed(
        *trained, tmp_path, format_name='onnx', suppression='none'
    )  # fmt: skip
    (image,) = tiny_deployed.images(1, 40, 64)
    expected, found = served(image), deployed.file.run(deployed.pixels(image))
    raw = expected[fields.RAW_DETECTION_BOXES] * [64 / 40, 1, 64 / 40, 1]  # of the padded input
    np.testing.assert_allclose(found[fields.RAW_DETECTION_BOXES][:, :, 0], raw, **CLOSE)
    scores = expected[fields.RAW_DETECTION_SCORES]
    np.testing.assert_allclose(found[fields.RAW_DETECTION_SCORES], scores[..., -2:], **CLOSE)


@writes
def test_the_node_of_a_plugin_follows_boxes_and_scores(tmp_path):
    task, config, checkpoint = test_deployable.model(test_deployable.config_of(), tmp_path)
    writer = formats.create_writer('onnx', {}, DeploymentOptions(suppression='efficient_nms'))
    source = Source(task, config, checkpoint)
    model = writer.build(source)
    writer.write(model, source, str(tmp_path))
    about = writer.verify(model, source, str(tmp_path))
    assert about['agreement']['outputs'] == {
        fields.RAW_DETECTION_BOXES: 1.0,
        fields.RAW_DETECTION_SCORES: 1.0,
        fields.BOX_ENCODINGS: 1.0,
        fields.CLASS_LOGITS: 1.0,
    }
    assert about['outputs'][fields.DETECTION_BOXES]['shape'] == [1, 10, 4]

    import onnx

    written = onnx.load(str(tmp_path / 'model.onnx'))
    onnx.checker.check_model(written)
    node = written.graph.node[-1]
    assert (node.op_type, node.domain) == ('EfficientNMS_TRT', 'TRT')
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    assert values['score_threshold'] == pytest.approx(0.01)
    assert values['iou_threshold'] == 0.5
    assert (values['max_output_boxes'], values['background_class']) == (10, -1)
    with pytest.raises(errors.UserError, match='cannot be run by onnxruntime'):
        writer.load(str(tmp_path / 'model.onnx'))
