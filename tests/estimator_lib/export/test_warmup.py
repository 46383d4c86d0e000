"""Warm-up requests, as TensorFlow Serving reads them."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from estimator_lib import errors
from estimator_lib.export import serving, warmup


def requests_in(path):
    for record in tf.compat.v1.io.tf_record_iterator(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof('log_type') == 'predict_log'
        yield log.predict_log.request


@pytest.mark.parametrize(
    'kind', [serving.IMAGE_TENSOR, serving.ENCODED_IMAGE_STRING_TENSOR, serving.TF_EXAMPLE]
)
def test_requests_are_of_the_kind_that_the_model_takes(tmp_path, kind):
    warmup.write(str(tmp_path / 'requests'), kind, 3)
    requests = list(requests_in(tmp_path / 'requests'))
    assert len(requests) == 3
    for request in requests:
        assert request.model_spec.signature_name == 'serving_default'
        assert list(request.inputs) == ['inputs']
        value = tf.make_ndarray(request.inputs['inputs'])
        if kind == serving.IMAGE_TENSOR:
            assert value.dtype == np.uint8 and value.shape == (1, 480, 640, 3)
            continue
        assert value.shape == (1,)
        content = value[0]
        if kind == serving.TF_EXAMPLE:
            feature = tf.train.Example.FromString(content).features.feature
            (content,) = feature['image/encoded'].bytes_list.value
        assert tf.io.decode_image(content).shape == (480, 640, 3)


def test_what_cannot_be_is_said(monkeypatch):
    warmup.check(1000)
    with pytest.raises(errors.UserError, match='1001; expected at most 1000'):
        warmup.check(1001)
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(errors.UserError, match='tensorflow-serving-api is not installed; pip'):
        warmup.check(1)
