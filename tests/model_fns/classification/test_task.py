"""The task's answers, on a tiny network."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors, model_fn, tf_estimator
from estimator_lib.drawing import visualization
from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns import build_task
from model_fns.classification import task as task_lib
from protos import pipeline_pb2

pytestmark = pytest.mark.usefixtures('no_initial_values', 'shallow_networks')

ModeKeys = tf_estimator.ModeKeys


def task_of(text):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'model {{ classification {{ {text} }} }}', config)
    return build_task(config)


TINY = (
    'num_classes: 4 labels_offset: 1 image_height: 32 image_width: 40 '
    "backbone { name: 'mobilenet_v1' depth_multiplier: 0.1 }"
)


def built(task, mode, batch=2):
    features = {IMAGE: tf.zeros([batch, 32, 40, 3])}
    return features, task.predict(features, mode)


@pytest.mark.usefixtures('initial_values')
def test_outputs_have_the_shapes_and_ids_of_the_contract():
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        task = task_of(TINY)
        features, predictions = built(task, ModeKeys.PREDICT)
        outputs = task.export_outputs(task.postprocess(predictions, features))
        assert sorted(outputs) == ['classes', 'logits', 'probabilities']
        assert outputs['logits'].shape == outputs['probabilities'].shape == [2, 4]
        assert outputs['classes'].dtype == tf.int64
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            classes, logits = session.run([outputs['classes'], outputs['logits']])
        np.testing.assert_array_equal(classes, logits.argmax(-1) + 1)


@pytest.mark.parametrize('mode', [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_losses_are_named_as_said(mode):
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        task = task_of(TINY)
        features, predictions = built(task, mode)
        losses = task.losses(predictions, features, {'label': tf.constant([0, 3], tf.int64)})
        assert set(losses) <= set(task.loss_names())
        assert all(loss.shape == [] for loss in losses.values())


def test_the_auxiliary_head_counts_in_training_only():
    config = TINY.replace('mobilenet_v1', 'inception_v3').replace('depth_multiplier: 0.1', '')
    config = config.replace('image_height: 32 image_width: 40', 'image_height: 75 image_width: 75')
    task = task_of(config + ' auxiliary_loss_weight: 0.4')
    for mode, heads in ((ModeKeys.TRAIN, 2), (ModeKeys.EVAL, 1)):
        with tf.Graph().as_default():
            tf.compat.v1.train.create_global_step()
            predictions = task.predict({IMAGE: tf.zeros([2, 75, 75, 3])}, mode)
            assert len(predictions) == heads
            losses = task.losses(predictions, {}, {'label': tf.constant([0, 1], tf.int64)})
            assert len(losses) == heads


def test_training_varies_images_and_evaluation_does_not():
    task = task_of(TINY)
    image = np.random.RandomState(0).randint(0, 255, [50, 60, 3]).astype(np.uint8)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        example = {IMAGE: tf.constant(image), 'label': tf.constant(0), 'source_id': tf.constant('')}
        seed = tf.compat.v1.placeholder(tf.int64, [2])
        varied, _ = task.prepare(task.augment(example, seed), ModeKeys.TRAIN)
        plain, _ = task.prepare(example, ModeKeys.EVAL)
        assert varied[IMAGE].shape == plain[IMAGE].shape == [32, 40, 3]
        first, again, other = (
            session.run(varied[IMAGE], {seed: value}) for value in ([1, 1], [1, 1], [1, 2])
        )
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - other).max() > 0.1
        served = task.serving_features(tf.constant(image[np.newaxis]))[IMAGE]
        np.testing.assert_array_equal(*session.run([served[0], plain[IMAGE]]))


def test_steps_of_the_config_follow_the_preprocessing():
    steps = """train_config { data_augmentation_options { rgb_to_gray {} }
        data_augmentation_options { mixup { alpha: 5 } } }"""
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(
        f'model {{ classification {{ {TINY} mirror_images: false }} }} {steps}', config
    )
    task = build_task(config)
    assert list(task.augmentations()) == [
        'crops of any size and shape',
        'brightness',
        'saturation',
        'rgb_to_gray',
        'mixup',
    ]
    (mixing,) = task.mixings()
    seed, group = tf.constant([1, 2], tf.int64), []
    for label in (1, 3):
        image = np.random.RandomState(label).randint(0, 255, [50, 60 + label, 3])
        example = {IMAGE: tf.constant(image, tf.uint8), 'label': tf.constant(label, tf.int64)}
        group.append(mixing.vary({**example, SOURCE_ID: tf.constant('a')}, seed + label))
        assert group[-1][IMAGE].shape == [32, 40, 3]
    features, labels = task.prepare(task.augment(mixing.combine(group, seed), seed), ModeKeys.TRAIN)
    image, shares = features[IMAGE].numpy(), labels['label_shares'].numpy()
    assert np.ptp(image, axis=2).max() < 1e-5 and -1 <= image.min() < image.max() <= 1
    assert shares[1] + shares[3] == pytest.approx(1) and 0.05 < shares[1] < 0.95
    with tf.Graph().as_default():
        # The loss is that of the shares, not that of the first image's label.
        logits = {'logits': tf.constant([[0.0, 3.0, 0.0, 1.0]])}
        of_label = task.losses(logits, {}, {'label': tf.constant([1], tf.int64)})
        of_shares = task.losses(
            logits, {}, {'label': tf.constant([1], tf.int64), 'label_shares': shares[np.newaxis]}
        )
        with tf.compat.v1.Session() as session:
            (low,), (high,) = session.run([list(of_label.values()), list(of_shares.values())])
    assert high - low == pytest.approx(2 * shares[3], rel=1e-4)
    picture = task.presentation.draw({IMAGE: image}, {}, {'label': 1, 'label_shares': shares})
    assert picture.shape[0] > task.presentation.draw({IMAGE: image}, {}, {'label': 1}).shape[0]


def test_one_channel():
    task = task_of(TINY + ' use_grayscale: true')
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        features = task.serving_features(tf.zeros([2, 50, 50, 3], tf.uint8))
        assert features[IMAGE].shape.as_list()[1:] == [32, 40, 1]
        task.predict(features, ModeKeys.PREDICT)


def test_checkpoints_of_detectors_have_the_backbone_under_another_scope():
    task = task_of(TINY)
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        built(task, ModeKeys.TRAIN)
        variables = tf.compat.v1.get_collection('model_variables')
        same = task.checkpoints.restore_map(variables, 'classification')
        detection = task.checkpoints.restore_map(variables, 'detection')
    assert 'MobilenetV1/Conv2d_0/weights' in same
    assert 'FeatureExtractor/MobilenetV1/Conv2d_0/weights' in detection
    with pytest.raises(errors.ConfigError, match="'detecton' is unknown; did you mean 'detection'"):
        task.checkpoints.restore_map(variables, 'detecton')


def test_the_graph_does_not_grow_with_classes_or_batch():
    def nodes(classes, batch):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.train.create_global_step()
            task = task_of(TINY.replace('num_classes: 4', f'num_classes: {classes}'))
            features, predictions = built(task, ModeKeys.EVAL, batch)
            labels = {'label': tf.zeros([batch], tf.int64)}
            task.metrics(task.postprocess(predictions, features), features, labels)
            return len(graph.get_operations())

    assert nodes(40, 1) == nodes(600, 16)


def test_pictures():
    task = task_of(TINY)
    outputs = {task_lib.CLASSES: 2, task_lib.PROBABILITIES: np.array([0.1, 0.7, 0.1, 0.1])}
    picture = task.presentation.draw(
        {IMAGE: np.zeros([64, 64, 3], np.uint8)}, outputs, {'label': 0}
    )
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    image = {IMAGE: np.full([64, 64, 3], 9, np.uint8)}
    target = task.presentation.draw(image, {}, {'label': 0})
    assert (target[:64, :64] == 9).all() and len(target) > 64
    assert (target != task.presentation.draw(image, {}, {'label': 1})).any()
    matrix = task.presentation.draw_metrics({'confusion_matrix': np.eye(4)})['confusion_matrix']
    assert matrix.dtype == np.uint8 and matrix.ndim == 3


def test_a_label_map_of_classes_from_0_names_them(tmp_path):
    (tmp_path / 'labels.txt').write_text('0:daisy\n1:rose\n2:tulip\n3:lily\n')
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'model {{ classification {{ {TINY} }} }}', config)
    config.model.classification.labels_offset = 0
    config.train_input_reader.label_map_path = str(tmp_path / 'labels.txt')
    task = build_task(config)
    outputs = {'classes': 1, 'probabilities': np.array([0, 1, 0, 0])}
    picture = task.presentation.draw({IMAGE: np.zeros([32, 40, 3], np.uint8)}, outputs)
    expected = visualization.captioned(np.zeros([32, 40, 3], np.uint8), ['rose 100%'])
    np.testing.assert_array_equal(picture, expected)


@pytest.mark.usefixtures('initial_values')
def test_moving_averages_are_of_batch_norm_too_and_soon_follow(tmp_path):
    """The first step's decay is 2 / 11, whatever the config's is."""
    config = text_format.Parse(
        f'model {{ classification {{ {TINY} }} }} train_config {{ batch_size: 2 '
        'optimizer { sgd_optimizer { learning_rate { constant_learning_rate {} } } } '
        '} train_input_reader { drop_remainder: true }',
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    average = 'ExponentialMovingAverage'
    with tf.Graph().as_default():
        images = tf.random.stateless_uniform([2, 32, 40, 3], [1, 2])
        spec = model_fn.create_model_fn(build_task(config), config)(
            {IMAGE: images, SOURCE_ID: tf.constant(['a', 'b'])},
            {'label': tf.constant([0, 3], tf.int64)},
            ModeKeys.TRAIN,
            config=tf_estimator.RunConfig(model_dir=str(tmp_path)),
        )
        kept = {v.op.name: v for v in tf.compat.v1.global_variables()}
        model = [v.op.name for v in tf.compat.v1.get_collection('model_variables')]
        statistics = [name for name in model if name.endswith('moving_mean')]
        assert statistics and {name for name in kept if name.endswith(average)} == {
            f'{name}/{average}' for name in model
        }
        mean = kept[statistics[0]]
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(spec.train_op)
            moved, followed = session.run([mean, kept[f'{statistics[0]}/{average}']])
        assert np.abs(moved).max() > 0  # from 0
        np.testing.assert_allclose(followed, moved * 9 / 11, rtol=1e-5)


def test_drop_path_falls_over_the_training_unless_the_config_says():
    def options(backbone, num_steps=40):
        text = f'num_classes: 4 backbone {{ name: "nasnet_mobile" {backbone} }}'
        config = pipeline_pb2.TrainEvalPipelineConfig()
        text_format.Parse(f'model {{ classification {{ {text} }} }}', config)
        config.train_config.num_steps = num_steps
        return build_task(config)._options

    found = options('drop_path_keep_prob: 0.5')
    assert (found.drop_path_keep_prob, found.drop_path_steps) == (0.5, 40)
    assert options('drop_path_keep_prob: 0.5 drop_path_steps: 7').drop_path_steps == 7
    assert options('').changed() == ()
    with pytest.raises(
        errors.ConfigError, match='backbone.stem_filters: nasnet_mobile has no such'
    ):
        options('stem_filters: 8')
    with pytest.raises(errors.ConfigError, match='drop_path_keep_prob'):
        options('drop_path_keep_prob: 0')


def test_the_class_of_a_record():
    example = tf.train.Example()
    example.features.feature['image/class/label'].int64_list.value.append(3)
    assert list(task_of(TINY).checks.list_classes(example.SerializeToString())) == [3]


def labeled(*labels):
    example = tf.train.Example()
    # Images of one content would be a finding of their own.
    example.features.feature['image/encoded'].bytes_list.value.append(b'image %d' % labels[0])
    example.features.feature['image/class/label'].int64_list.value.extend(labels)
    return example.SerializeToString()


@pytest.mark.parametrize('more', ['', 'multi_label: true'])
def test_labels_from_0_end_a_run_at_its_start(more):
    task = task_of(f'{TINY} {more}')
    assert task.checks.check_first_examples([labeled(1), labeled(4), b'no example'], True) == []
    with pytest.raises(errors.DataError, match=r'labels start at 0.*labels_offset: 0'):
        task.checks.check_first_examples([labeled(0), labeled(3)], False)


def test_a_report_tells_labels_from_1():
    task = task_of(TINY.replace('labels_offset: 1', 'labels_offset: 0'))
    task_report = task.checks.data_report(
        {'train_input_reader': [task.checks.examine(labeled(label)) for label in (1, 2, 3)]}
    )
    assert task_report.problems == []
    assert any('there is no example of 1 of 4' in warning for warning in task_report.warnings)
    first = [labeled(label) for label in (1, 2, 4)]
    assert 'labels start at 1, it seems' in task.checks.check_first_examples(first, False)[0]
    with pytest.raises(errors.DataError, match='labels start at 1, it seems'):
        task.checks.check_first_examples(first, True)
