"""Resizers by their behavior, in graphs of the resizers alone."""

import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib.config.section import Section
from model_fns.detection.data import image_resizers
from protos import image_resizer_pb2, pipeline_pb2
from tests.vision_extras.recover import recovered
from vision_extras.recover.artifacts import graphs, reading, running
from vision_extras.recover.detection import resizing
from vision_extras.recover.facts import Proposal

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    'text',
    [
        'fixed_shape_resizer { height: 40 width: 72 resize_method: BICUBIC }',
        'keep_aspect_ratio_resizer { min_dimension: 48 max_dimension: 90 }',
        'keep_aspect_ratio_resizer '
        '{ min_dimension: 48 max_dimension: 90 pad_to_max_dimension: true }',
        'identity_resizer { }',
    ],
)
def test_resizer_is_found_again(text):
    config = text_format.Parse(text, image_resizer_pb2.ImageResizer())
    resizer = image_resizers.build_image_resizer(Section(config, 'image_resizer'))
    with tf.Graph().as_default() as graph:
        images = tf1.placeholder(tf.uint8, [1, None, None, 3], name='images')
        tf.identity(resizer.resize(images[0]).image[tf.newaxis], name='resized')
    found = graphs.Graph(graph.as_graph_def())
    artifact = reading.Artifact('a', reading.FROZEN_GRAPH, {}, found)
    proposal = Proposal(pipeline_pb2.TrainEvalPipelineConfig(), '')
    with running.open_runner(artifact) as runner:
        where = 'model.ssd.image_resizer'
        resizing.read(runner, found, 'resized:0', where, proposal)
    told = proposal.at(where)
    assert told.WhichOneof('image_resizer_oneof') == config.WhichOneof('image_resizer_oneof')
    expected, actual = (
        recovered.flat(recovered.plain(recovered.with_defaults(each))) for each in (config, told)
    )
    assert actual == expected
    assert proposal.facts[0].evidence.startswith('behavior: an image of 64x64 becomes')
