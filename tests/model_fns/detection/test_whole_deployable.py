"""Detectors in files that compute what a SavedModel does: what a program does before and after."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import samples
from estimator_lib.task_interfaces.deployable import NO_CHANGES, DeploymentOptions, Ops
from model_fns.detection import fields
from model_fns.detection.deployment import forms, whole
from model_fns.detection.detections.suppression import Rules
from tests import tiny_center_net, tiny_deployed, tiny_rotated, tiny_two_stage
from tests.model_fns.detection import test_deployable
from tests.model_fns.detection.test_file_forms import task_of


def test_an_image_comes_resized_and_without_padding():
    """The CenterNet pads 40 x 80 pixels, resized to 32 x 64, to 64 x 64."""
    task = task_of(tiny_center_net.MODEL)
    form = task.deployable(Ops.CORE)
    assert form.input_shape == (None, None, 3)
    (image,) = tiny_deployed.images(1, 40, 80)
    (pixels,) = samples.pixels(task, form, [image])
    assert pixels.shape == (1, 32, 64, 3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        served = task.serving_features(tf.constant(image[np.newaxis]))
        padded, shapes = form._padded(tf.constant(pixels))
        assert padded.shape == [1, 64, 64, 3]
        expected, true_shapes, found, shapes = session.run(
            [served[fields.IMAGE], served[fields.TRUE_IMAGE_SHAPE], padded, shapes]
        )
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(shapes, true_shapes)


def test_an_image_of_one_size_has_no_padding():
    form = task_of(tiny_two_stage.MODEL).deployable(Ops.CORE)
    assert form.input_shape == (64, 64, 3)
    pixels = tf.zeros([1, 64, 64, 3])
    assert form._padded(pixels) == (pixels, None)
    assert form.content_sizes({}) is None


def test_options_change_the_rules():
    assert forms.change_rules(Rules(), NO_CHANGES) == Rules(portable=True)
    changed = forms.change_rules(Rules(), DeploymentOptions(max_detections=3, fast_nms=True))
    assert changed == Rules(portable=True, max_total=3, class_agnostic=True)
    text = tiny_center_net.MODEL[: tiny_center_net.MODEL.index('post_processing')] + '}}'
    with pytest.raises(errors.UserError, match='--fast_nms: model.center_net has no post_proc'):
        task_of(text).deployable(Ops.CORE, DeploymentOptions(fast_nms=True))


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        (tiny_two_stage.CONTEXT, 'model.faster_rcnn.context_config: a file takes an image'),
        (
            tiny_two_stage.MODEL.replace('iou_threshold', 'soft_nms_sigma: 0.5 iou_threshold'),
            'model.faster_rcnn: soft_nms_sigma: 0.5',
        ),
    ],
)
def test_what_has_no_place_in_a_file_is_refused_by_name(text, said):
    with pytest.raises(errors.ConfigError) as caught:
        task_of(text).deployable(Ops.CORE)
    assert str(caught.value).startswith(said)


def test_single_shot_detectors_that_the_op_of_a_file_has_no_place_for():
    """In core ops there is a form for images of any size, and for other codes of boxes."""
    resizer = 'keep_aspect_ratio_resizer { min_dimension: 64 max_dimension: 64 }'
    task = test_deployable.build_task(test_deployable.config_of(resizer=resizer))
    form = task.deployable(Ops.CORE)
    assert type(form) is whole.DetectorDeployable
    assert form.input_shape == (None, None, 3)


def test_rotated_boxes_are_corners_in_the_file_and_numbers_of_a_record_after_it():
    form = task_of(tiny_rotated.MODEL).deployable(Ops.CORE)
    assert fields.DETECTION_CORNERS in form.meanings
    # In an image of 100 x 200 pixels: 20 high and 60 wide, around (50, 100).
    corners = [0.4, 0.35, 0.4, 0.65, 0.6, 0.65, 0.6, 0.35]
    found = {
        fields.DETECTION_CORNERS: tf.constant([[corners]]),
        fields.DETECTION_CLASSES: tf.constant([[1.0]]),
        fields.DETECTION_SCORES: tf.constant([[0.5]]),
        fields.NUM_DETECTIONS: tf.constant([1.0]),
    }
    outputs = form.outputs(found, {fields.ORIGINAL_SHAPE: tf.constant([[100, 200]])})
    np.testing.assert_allclose(
        outputs[fields.DETECTION_BOXES][0, 0], [0.5, 0.5, 0.2, 0.3, 0.0], atol=1e-6
    )
    np.testing.assert_allclose(outputs[fields.DETECTION_CORNERS][0, 0], corners)
    assert outputs[fields.DETECTION_CLASSES] == [[2.0]]
