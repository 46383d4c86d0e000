"""Files of a classifier, run by TFLite's interpreter."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.task_interfaces.deployable import DeploymentOptions, Ops
from model_fns import build_task
from protos import pipeline_pb2
from tests import tiny_deployed

pytestmark = pytest.mark.usefixtures('shallow_networks')

IMAGES = tiny_deployed.images(8)
TINY = """
  num_classes: 4 labels_offset: 1 image_height: 32 image_width: 40
  backbone { name: 'mobilenet_v1' depth_multiplier: 0.1 }
"""


def config_of(text=TINY, rest=''):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'model {{ classification {{ {text} }} }} {rest}', config)
    return config


def model(text, rest, folder, **options):
    config = config_of(text, rest)
    task = build_task(config)
    return task, config, tiny_deployed.save(task, folder / 'model.ckpt', **options)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    # Means of colors are taken away in the file.
    return model(f'{TINY} preprocessing: "vgg"', '', tmp_path_factory.mktemp('model'))


def test_a_file_answers_as_the_export_does(trained, tmp_path):
    served, deployed = (
        tiny_deployed.Served(trained[0], trained[2]),
        tiny_deployed.Deployed(*trained, tmp_path),
    )
    for image in IMAGES[:3]:
        expected, found = served(image), deployed(image)
        assert sorted(expected) == sorted(found)
        for name, value in expected.items():
            assert found[name].dtype == value.dtype
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=name)
    assert set(deployed.file.about['outputs']) == set(deployed.deployable.meanings)
    # Programs that take one output take the first.
    assert list(deployed.deployable.contents) == ['probabilities', 'logits']


def test_a_network_that_was_trained_for_it_becomes_int8(tmp_path):
    rest = 'graph_rewriter { quantization { delay: 0 } }'
    task, config, checkpoint = model(TINY, rest, tmp_path, lively=False, steps=3)
    deployed = tiny_deployed.Deployed(task, config, checkpoint, tmp_path, 'int8', IMAGES)
    assert deployed.graph.is_quantized
    assert deployed.file.about['inputs']['image']['dtype'] == 'uint8'
    pixels = [deployed.pixels(image) for image in IMAGES]
    found = [deployed.file.run(one) for one in pixels]
    # Against the network with all its roundings, those of weights to one range a layer included.
    parts = deployed.deployable.agreement(deployed.graph.run(pixels), found, exact=False)
    assert set(parts) == {'classes', 'logits', 'probabilities'}
    assert min(parts.values()) > 0.7


def test_pixels_beyond_those_of_files_are_kept():
    """A bicubic resize makes some, which the network was trained on."""
    task = build_task(config_of(f'{TINY} preprocessing: "efficientnet"'))
    pixels = np.float32([[[[-9.0, 0.0, 264.0]]]])
    normalized = (pixels - [123.675, 116.28, 103.53]) / [58.395, 57.12, 57.375]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.constant(normalized, tf.float32)
        found = session.run(task.deployable(Ops.CORE).pixels({'image': image}))
    np.testing.assert_allclose(found, pixels, atol=1e-3)


@pytest.mark.parametrize('preprocessing', ['lenet', 'cifarnet'])
def test_pixels_are_those_that_the_network_saw(preprocessing, tmp_path):
    text = f'{TINY} preprocessing: "{preprocessing}"'
    task = build_task(config_of(text))
    deployable = task.deployable(Ops.CORE)
    assert deployable.input_shape == (32, 40, 3)
    (found,) = tiny_deployed.samples.pixels(task, deployable, IMAGES[:1])
    # The middle of the image: 40 x 44 to 32 x 40.
    expected = IMAGES[0][4:36, 2:42].astype(np.float32)
    if preprocessing == 'cifarnet':  # brightness and contrast are gone
        expected = (expected - expected.min()) * 255.0 / (expected.max() - expected.min())
    np.testing.assert_allclose(found[0], expected, atol=0.01)


def test_a_class_counts_as_the_same_where_both_are_as_probable():
    deployable = build_task(config_of()).deployable(Ops.CORE)
    expected = [{'logits': np.log([[0.6, 0.3, 0.1]]), 'probabilities': np.array([[0.6, 0.3, 0.1]])}]
    found = [{'logits': np.log([[0.3, 0.6, 0.1]]), 'probabilities': np.array([[0.3, 0.6, 0.1]])}]
    assert deployable.agreement(expected, found, exact=False)['classes'] == 0.0
    assert deployable.agreement(expected, expected, exact=True) == {
        'classes': 1.0,
        'logits': 1.0,
        'probabilities': 1.0,
    }


@pytest.mark.parametrize('name', ['fast_nms', 'confidence_masks'])
def test_options_of_other_tasks_are_refused(name):
    with pytest.raises(errors.UserError, match=f'--{name}: a classifier finds no objects'):
        build_task(config_of()).deployable(Ops.CORE, DeploymentOptions(**{name: True}))
