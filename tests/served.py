"""Answers of exported SavedModels, beside what Estimators predict."""

import numpy as np
import tensorflow as tf

from estimator_lib.export import serving


def answers(path, images, input_type='image_tensor'):
    """Return what the serving signature of a SavedModel answers.

    Args:
        path: of the SavedModel.
        images: uint8 [batch, height, width, channels].
        input_type: the form in which the model takes images.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ['serve'], str(path))
        signature = loaded.signature_def['serving_default']
        outputs = {name: info.name for name, info in signature.outputs.items()}
        requests = serving.as_requests(images, input_type)
        return session.run(outputs, {signature.inputs['inputs'].name: requests})


def require_close(found, expected, tolerance=1e-5):
    """Require that answers are among the predictions of an Estimator."""
    for name, values in found.items():
        np.testing.assert_allclose(
            values, expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )
