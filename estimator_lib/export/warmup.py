"""Warm-up: requests that TensorFlow Serving makes to a model before it takes those of clients.

The first requests are slow: kernels are chosen and memory is laid out. A server makes those that it
finds in the export first.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.export import serving

MOST_REQUESTS = 1000  # a server refuses a model with more
_SHAPE = (1, 480, 640, 3)


def check(count: int) -> None:
    """Looks for the package that has the messages.

    Raises:
        errors.UserError: it is not there, or the requests are more than `MOST_REQUESTS`.
    """
    if count > MOST_REQUESTS:
        raise errors.UserError(
            f'--warmup_requests: {count}; expected at most {MOST_REQUESTS}, as servers do.'
        )
    if importlib.util.find_spec('tensorflow_serving') is None:
        raise errors.UserError(
            '--warmup_requests: the package tensorflow-serving-api is not installed; '
            "pip install 'tensorflow-serving-api==2.15.*'"
        )


def write(path: str, kind: str, count: int) -> None:
    """Writes requests with an image of noise each.

    Args:
        path: of the TFRecord file.
        kind: see `serving.as_requests`.
        count: how many; see `check`.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    images = np.random.RandomState(0).randint(0, 256, _SHAPE).astype(np.uint8)
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = serving.DEFAULT_SIGNATURE
    inputs = tf.make_tensor_proto(serving.as_requests(images, kind))
    request.inputs[serving.INPUT_KEY].CopyFrom(inputs)
    log = prediction_log_pb2.PredictionLog(
        predict_log=prediction_log_pb2.PredictLog(request=request)
    )
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(count):
            writer.write(log.SerializeToString())
