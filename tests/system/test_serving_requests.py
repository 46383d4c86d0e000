"""Exports asked over the network as TensorFlow Serving is: names, types and shapes of its messages.

The server here is as small as can be, and knows nothing of the project: it loads a SavedModel and
answers `Predict`.
"""

import concurrent.futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from estimator_lib.export import serving
from tests import tiny_data, tiny_detection
from tests.estimator_lib.export import test_saved_model
from tests.test_run_train_eval import NO_EXPORT, front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1

KINDS = ('image_tensor', 'encoded_image_string_tensor', 'tf_example')
WARMUP_FILE = 'assets.extra/tf_serving_warmup_requests'


class Server(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Server that answers by the signatures of SavedModels, by name."""

    def __init__(self, models):
        self._models = {}
        for name, path in models.items():
            with tf.Graph().as_default() as graph:
                session = tf1.Session(graph=graph)
                loaded = tf1.saved_model.load(session, ['serve'], str(path))
            self._models[name] = session, loaded.signature_def

    def Predict(self, request, context):  # noqa: N802
        session, signatures = self._models[request.model_spec.name]
        if request.model_spec.signature_name not in signatures:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, 'signature is not in the model')
        signature = signatures[request.model_spec.signature_name]
        feeds = {
            signature.inputs[key].name: tf.make_ndarray(value)
            for key, value in request.inputs.items()
        }
        names = {key: one.name for key, one in signature.outputs.items()}
        response = predict_pb2.PredictResponse()
        for key, value in session.run(names, feeds).items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response


def export(model_dir, folder, *flags):
    assert (
        front_door('--mode=export', f'--model_dir={model_dir}', f'--export_dir={folder}', *flags)
        == 0
    )
    return latest(folder)


def train(folder, data, text=None):
    (folder / 'data').mkdir()
    config = data.write_all(folder / 'data')
    if text is not None:
        config.write_text(text.format(folder=folder / 'data'))
    flags = [f'--model_dir={folder / "run"}', f'--pipeline_config_path={config}']
    assert front_door('--mode=train', *flags, '--num_train_steps=1', NO_EXPORT) == 0
    return folder / 'run'


@pytest.fixture(scope='module')
def models(tmp_path_factory):
    """Exports: of a classifier for each kind of input, and of a detector."""
    folder = tmp_path_factory.mktemp('classifier')
    run = train(folder, tiny_data, tiny_data.LENET_CONFIG)
    paths = {
        kind: export(
            run,
            folder / kind,
            f'--input_type={kind}',
            '--signature_name=of_old',
            '--warmup_requests=2',
        )
        for kind in KINDS
    }
    folder = tmp_path_factory.mktemp('detector')
    paths['detector'] = export(train(folder, tiny_detection), folder / 'export')
    return paths


@pytest.fixture(scope='module')
def stub(models):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Server(models), server)
    port = server.add_insecure_port('localhost:0')
    server.start()
    with grpc.insecure_channel(f'localhost:{port}') as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)
    server.stop(None)


def ask(stub, model, inputs, signature_name='serving_default'):
    """The outputs that the server answers with, as NumPy arrays."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature_name
    request.inputs['inputs'].CopyFrom(tf.make_tensor_proto(inputs))
    response = stub.Predict(request, timeout=60)
    return {key: tf.make_ndarray(value) for key, value in response.outputs.items()}


@pytest.fixture(scope='module')
def images():
    return np.stack([image for _, image in tiny_data.colored_images(2)])


def sent(images, kind):
    if kind == 'image_tensor':
        return images
    encoded = [tiny_data.png(image) for image in images]
    return encoded if kind != 'tf_example' else [tiny_data.example(1, one, '') for one in encoded]


@pytest.mark.parametrize('kind', KINDS)
def test_each_kind_of_input_is_answered_alike(stub, images, kind):
    outputs = ask(stub, kind, sent(images, kind))
    described = {key: (value.dtype, value.shape) for key, value in outputs.items()}
    assert described == {
        'logits': (np.float32, (2, 3)),
        'probabilities': (np.float32, (2, 3)),
        'classes': (np.int64, (2,)),
    }
    reference = ask(stub, 'image_tensor', images)
    np.testing.assert_allclose(outputs['logits'], reference['logits'], rtol=1e-5, atol=1e-6)
    logits = np.exp(outputs['logits'] - outputs['logits'].max(axis=1, keepdims=True))
    expected = logits / logits.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(outputs['probabilities'], expected, rtol=1e-5)
    assert list(outputs['classes']) == list(outputs['logits'].argmax(axis=1) + 1)


@pytest.mark.parametrize('name', ['tensorflow/serving/predict', 'of_old'])
def test_other_names_answer_the_same(stub, images, name):
    expected = ask(stub, 'image_tensor', images)
    for key, value in ask(stub, 'image_tensor', images, name).items():
        np.testing.assert_array_equal(value, expected[key])


def test_a_name_that_was_not_asked_for_does_not_answer(stub, images):
    with pytest.raises(grpc.RpcError):
        ask(stub, 'detector', images, 'of_old')


def test_a_detector_answers_with_the_published_names(stub):
    images = np.zeros([2, 50, 80, 3], np.uint8)
    outputs = ask(stub, 'detector', images)
    most = outputs['detection_boxes'].shape[1]
    for name, shape in (
        ('detection_boxes', (2, most, 4)),
        ('detection_scores', (2, most)),
        ('detection_classes', (2, most)),
        ('num_detections', (2,)),
    ):
        assert outputs[name].dtype == np.float32 and outputs[name].shape == shape, name


@pytest.mark.parametrize('kind', KINDS)
def test_warm_up_requests_are_answered(stub, models, kind):
    requests = list(test_saved_model.requests_in(models[kind] / WARMUP_FILE))
    assert len(requests) == 2
    for request in requests:
        request.model_spec.name = kind
        response = stub.Predict(request, timeout=60)
        assert tf.make_ndarray(response.outputs['classes']).shape == (1,)


def test_warm_up_is_for_those_who_ask(models):
    assert not (models['detector'] / WARMUP_FILE).exists()
    assert serving.PREDICT_SIGNATURE == 'tensorflow/serving/predict'
