"""Answers of exported SavedModels, beside what Estimators predict."""

import contextlib
import io
import runpy
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

from estimator_lib.export import serving
from tests import conftest

# The first lines of most programs for the Object Detection API of TensorFlow 2: four ways to call
# an export, and a printed line for each.
PROGRAM = conftest.shared_folder() / 'cases' / 'tf2_client' / 'client.py'


def answers(path, images, input_type='image_tensor', is_ours=True):
    """Return what a SavedModel answers to programs that know the names of its tensors.

    Args:
        path: of the SavedModel.
        images: uint8 [batch, height, width, channels].
        input_type: the form in which the model takes images.
        is_ours: whether its tensors have the published names; else only the signature has names.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ['serve'], str(path))
        signature = loaded.signature_def['serving_default']
        received = {name: info.name for name, info in signature.inputs.items()}
        outputs = {name: info.name for name, info in signature.outputs.items()}
        if is_ours:
            assert received == {'inputs': f'{input_type}:0'}
            assert outputs == {name: f'{name}:0' for name in outputs}
        return session.run(outputs, {received['inputs']: serving.as_requests(images, input_type)})


def require_close(found, expected, tolerance=1e-5):
    """Require that answers are among the predictions of an Estimator."""
    for name, values in found.items():
        np.testing.assert_allclose(
            values, expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


def require_clients(path, images, expected):
    """Require that programs for the Object Detection API of TensorFlow 2 get the same answers.

    Args:
        path: of the SavedModel.
        images: uint8 [batch, height, width, channels].
        expected: `answers` to them.
    """
    loaded = tf.saved_model.load(str(path))
    found = {name: value.numpy() for name, value in loaded(tf.constant(images)).items()}
    assert sorted(found) == sorted(expected)
    require_close(found, expected, 1e-4)
    if 'detection_boxes' in found:
        assert {value.dtype for value in found.values()} == {np.dtype(np.float32)}
    if PROGRAM.exists():
        arguments = mock.patch.object(sys, 'argv', [str(PROGRAM), str(path)])
        as_loaded = mock.patch.object(tf.saved_model, 'load', return_value=loaded)
        with arguments, as_loaded, contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(PROGRAM))
        calls = printed.getvalue().splitlines()
        assert [line.split()[0] for line in calls] == ['works'] * 4, calls
