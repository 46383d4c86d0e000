"""Activations and predictions of training steps, in TensorBoard."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import distribution, errors
from estimator_lib.data import inputs
from estimator_lib.graphs import losses
from estimator_lib.training import train_input_fn
from model_fns import build_task, create_model_fn
from model_fns.segmentation import fields
from tests import tiny_data, tiny_segmentation, tiny_two_stage

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1

OPTIONS = 'train_config { batch_size: 2 progress { %s } }'


def create_config(make, folder, options):
    path = make.write_all(folder)
    if make is tiny_data:
        path.write_text(tiny_data.LENET_CONFIG.format(folder=folder))
    return config_lib.load_pipeline_config(str(path), overrides=[OPTIONS % options])


ACTIVATIONS = 'summarize_activations: true'


@pytest.mark.parametrize(
    ('make', 'end_point', 'option'),
    [
        (tiny_data, 'conv1', ACTIVATIONS),
        (tiny_data, 'conv1', ''),
        (tiny_segmentation, 'early', ACTIVATIONS),
    ],
)
def test_end_points_are_summarized_where_the_config_asks(make, end_point, option, tmp_path):
    config = create_config(make, tmp_path, option)
    task = build_task(config)
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        features, labels = train_input_fn(task, config)()
        create_model_fn(config)(features, labels, 'train')
        names = {tensor.op.name for tensor in tf1.get_collection(tf1.GraphKeys.SUMMARIES)}
        assert not tf1.get_collection('end_points')  # a checkpoint's graph could not hold them
    summarized = {f'activations/{end_point}', f'sparsity/{end_point}'} & names
    assert len(summarized) == (2 if option else 0)


def test_pictures_show_the_predicted_classes(tmp_path):
    config = create_config(
        tiny_segmentation, tmp_path, 'pictures_every_n_steps: 1 draw_predictions: true'
    )
    task = build_task(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        features, labels = train_input_fn(task, config)()
        features, _ = inputs.pop_reader_state(features)
        examples = losses.compute_training_losses(
            task, config, distribution.alone(config), features, labels
        ).examples
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        session.run(tf1.tables_initializer())
        features, outputs, labels = session.run(examples)
    classes = outputs[fields.SEMANTIC_PREDICTIONS]
    assert classes.shape == labels[fields.SEMANTIC].shape and set(np.unique(classes)) <= {0, 1, 2}
    one = [
        {name: values[0] for name, values in each.items()} for each in (features, outputs, labels)
    ]
    with_prediction, without = (
        task.presentation.draw(*one),
        task.presentation.draw(one[0], {}, one[2]),
    )
    assert with_prediction.shape[1] > without.shape[1]  # a third picture in the row


def test_predictions_of_a_second_stage_are_not_drawn(tmp_path):
    with pytest.raises(errors.ConfigError, match='draw_predictions.*groundtruth'):
        config = create_config(
            tiny_two_stage, tmp_path, 'pictures_every_n_steps: 1 draw_predictions: true'
        )
        build_task(config)
