"""What the engine asks of segmentation, on a backbone of two layers."""

import dataclasses

import numpy as np
import pycocotools.mask
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator, training
from estimator_lib import model_fn as model_fn_lib
from estimator_lib.data import inputs, records, repeat_factors
from estimator_lib.data.record_sources import Source
from estimator_lib.export import exporting, serving
from estimator_lib.export.saved_model import SavedModelWriter
from estimator_lib.task import Shown
from model_fns import build_task, validate
from model_fns.datasets import codecs
from model_fns.segmentation import fields
from model_fns.segmentation.networks import backbones
from model_fns.structures import id_images
from protos import pipeline_pb2
from tests import tiny_segmentation
from tests.model_fns.segmentation import segmentation_records, tiny_networks

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys

CROP = (33, 41)
HEADS = 'instance_center { sigma: 2 } offset {} edge {}'
MODEL = """
  num_classes: 4
  crop_height: 33
  crop_width: 41
  backbone { name: "tiny" output_stride: 8 }
  aspp { num_filters: 4 }
"""
OF_HEADS = {
    fields.SEMANTIC_PREDICTIONS: np.int64,
    fields.SEMANTIC_PROBABILITIES: np.float32,
    fields.INSTANCE_CENTERS: np.float32,
    fields.CENTER_OFFSETS: np.float32,
    fields.EDGE_PREDICTIONS: np.int64,
}
OF_INSTANCES = {fields.INSTANCE_PREDICTIONS: np.int32, fields.PANOPTIC_PREDICTIONS: np.int32}


@pytest.fixture(autouse=True, scope='module')
def tiny_backbone():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, 'get_backbone', lambda *_: tiny_networks.BACKBONE)
        yield


def pipeline(model='', rest=''):
    text = 'model { segmentation { %s } } %s'
    config = text_format.Parse(text % (MODEL, rest), pipeline_pb2.TrainEvalPipelineConfig())
    config.MergeFrom(text_format.Parse(text % (model, ''), pipeline_pb2.TrainEvalPipelineConfig()))
    return config


def scene(height=30, width=36, classes=4):
    """An image, and the classes and instances of its pixels."""
    random = np.random.RandomState(height * width)
    ids = np.zeros([height, width], int)
    instances = np.zeros([height, width], int)
    for number, top in enumerate((2, 14), 1):
        ids[top : top + 9, 3:15] = number % classes
        instances[top : top + 9, 3:15] = number
    ids[-3:] = 255
    return random.randint(0, 256, [height, width, 3]).astype(np.uint8), ids, instances


def serialized(**size):
    image, ids, instances = scene(**size)
    return segmentation_records.record(image, ids, instances, source_id='a', filename='a.png')


@dataclasses.dataclass
class Built:
    task: object
    features: dict
    labels: dict
    predictions: dict


def build(mode, model=HEADS, rest='', batch=2):
    """A batch of a record through the task, in the current graph."""
    tf1.train.create_global_step()
    task = build_task(pipeline(model, rest))
    example = task.decode(tf.constant(serialized()))
    if mode == ModeKeys.TRAIN:
        example = task.augment(example, tf.constant([3, 4], tf.int64))
    features, labels = tf.nest.map_structure(
        lambda value: tf.stack([value] * batch), task.prepare(example, mode)
    )
    return Built(task, features, labels, task.predict(features, mode))


# Examples.


def test_images_of_rare_classes_are_repeated(tmp_path):
    text = tiny_segmentation.CONFIG.format(folder=tmp_path, heads='')
    config = config_lib.parse_pipeline_config(text, 'text')
    config.train_config.repeat_factor_threshold = 0.5
    validate(config, 'train')
    # Of eight images four have class 1, one has class 2, and two have class 3; one is corrupt.
    masks = [[0, 1], [0, 1], [0, 1], [0, 1], [2, 3], [0, 3], [0, 255]]
    content = [segmentation_records.record(classes=np.array([mask])) for mask in masks]
    content.append(segmentation_records.record(np.zeros([3, 4, 3], np.uint8), b'no PNG'))
    path = segmentation_records.write_records(tmp_path / 'train.tfrecord', content)
    source = Source(0, tuple(records.find_files([path], 'field')))
    (repeated,) = repeat_factors.add_factors(build_task(pipeline()), [source], 0.5)
    # sqrt(0.5 / (1 / 8)) and sqrt(0.5 / (2 / 8)).
    assert repeated.repeats == ((4, pytest.approx(2.0)), (5, pytest.approx(2.0**0.5)))


@pytest.mark.parametrize('mode, size', [(ModeKeys.TRAIN, CROP), (ModeKeys.EVAL, (None, None))])
def test_examples_have_the_targets_of_the_heads(mode, size, tmp_path):
    records = segmentation_records.write_records(tmp_path / 'r', [serialized()])
    rest = f'eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    with tf.Graph().as_default(), tf1.Session() as session:
        task = build_task(pipeline(HEADS, rest))
        example = task.decode(tf.constant(serialized()))
        if mode == ModeKeys.TRAIN:
            example = task.augment(example, tf.constant([3, 4], tf.int64))
        features, labels = task.prepare(example, mode)
        shapes = {name: (*value.shape,) for name, value in {**features, **labels}.items()}
        _, labels = session.run([features, labels])
    assert shapes == {
        fields.IMAGE: (*size, 3),
        fields.TRUE_IMAGE_SHAPE: (3,),
        fields.SOURCE_ID: (),
        fields.SEMANTIC: size,
        fields.INSTANCES: size,
        fields.CENTER: size,
        fields.OFFSET: (*size, 2),
        fields.OFFSET_WEIGHTS: size,
        fields.EDGE: size,
    }
    if mode == ModeKeys.EVAL:
        assert np.argwhere(labels[fields.CENTER] == 1.0).tolist() == [[6, 8], [18, 8]]
        assert (labels[fields.SEMANTIC][27:] == 255).all()
        # The upper edges of both squares, and nothing within them.
        assert labels[fields.EDGE][2, 5] == 1 and labels[fields.EDGE][6, 8] == 0


def test_without_heads_instances_are_not_read():
    record = segmentation_records.record(*scene()[:2], None)
    with tf.Graph().as_default():
        task = build_task(pipeline())
        assert fields.INSTANCES not in task.decode(tf.constant(record))
    assert task.checks.check_example(record) is None
    assert 'image/segmentation/instance/encoded' in build_task(
        pipeline(HEADS)
    ).checks.check_example(record)


@pytest.mark.parametrize(
    'evaluation, size',
    [
        ('', (50, 41)),
        ('crop_width: 49', (50, 49)),
        ('crop_height: 57 crop_width: 65', (57, 65)),
    ],
)
def test_evaluated_and_served_images_have_one_size(evaluation, size, tmp_path):
    """An image of 50 x 36 pixels: its own size, and at least that of training or of evaluation."""
    records = segmentation_records.write_records(tmp_path / 'r', [serialized(height=50)])
    rest = f'eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    with tf.Graph().as_default(), tf1.Session() as session:
        task = build_task(pipeline(f'evaluation {{ {evaluation} }}', rest))
        features, _ = task.prepare(task.decode(tf.constant(serialized(height=50))), ModeKeys.EVAL)
        served = task.serving_features(tf.zeros([1, 50, 36, 3], tf.uint8))
        images = session.run([features[fields.IMAGE], served[fields.IMAGE][0]])
    assert [image.shape for image in images] == [(*size, 3)] * 2


def test_an_evaluation_that_asks_for_too_small_a_size_is_refused(tmp_path):
    records = segmentation_records.write_records(tmp_path / 'r', [serialized(height=50)])
    rest = f'eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    task = build_task(pipeline('evaluation { crop_height: 49 }', rest))
    with pytest.raises(errors.DataError, match='the image has 50 x 36 pixels'):
        task.checks.check_evaluation()
    with tf.Graph().as_default(), pytest.raises(errors.DataError, match='50 x 36'):
        task.prepare(task.decode(tf.constant(serialized())), ModeKeys.EVAL)


# Training and evaluation.


def test_training_has_logits_only_and_losses_are_those_that_are_named():
    with tf.Graph().as_default():
        more = 'image_pyramid: 0.5 image_pyramid: 1.0 loss { dice_weight: 2 }'
        built = build(ModeKeys.TRAIN, f'{HEADS} {more}')
        losses = built.task.losses(built.predictions, built.features, built.labels)
        heads = ('semantic', 'instance_center', 'offset', 'edge')
        scales = ('logits_0.50', 'logits_1.00', 'merged_logits')
        assert set(built.predictions) == {f'{head}/{scale}' for head in heads for scale in scales}
        assert set(losses) == set(built.task.loss_names())
        assert {'semantic_dice_loss', 'semantic_dice_loss_0.50'} < set(losses)
        assert all(loss.shape.rank == 0 for loss in losses.values())
        values = tiny_networks.run(losses)
    assert all(np.isfinite(value) and value >= 0 for value in values.values())


@pytest.mark.parametrize(
    'views', ['', 'evaluation { scales: [0.5, 1.0] add_flipped_images: true }']
)
def test_evaluation_gives_all_outputs_and_metrics(views, tmp_path):
    records = segmentation_records.write_records(tmp_path / 'r', [serialized()])
    rest = f'eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    with tf.Graph().as_default(), tf1.Session() as session:
        built = build(ModeKeys.EVAL, HEADS + views, rest)
        task = built.task
        outputs = task.postprocess(built.predictions, built.features)
        metrics = task.metrics(outputs, built.features, built.labels)
        tiny_networks.lively(session)
        session.run(tf1.local_variables_initializer())
        outputs, _ = session.run([outputs, [update for _, update in metrics.values()]])
        values = task.finish_metrics(session.run({name: one for name, (one, _) in metrics.items()}))
    assert {name: value.dtype for name, value in outputs.items()} == {**OF_HEADS, **OF_INSTANCES}
    assert {value.shape[:3] for value in outputs.values()} == {(2, *CROP)}
    assert set(values) <= set(task.metric_names())
    name = 'miou_0.5_1.0_flipped_overall' if views else 'miou_1.0_overall'
    assert {name, 'pixel_accuracy', 'panoptic_quality', 'offset_error'} <= set(values)
    picture = task.presentation.draw(
        {fields.IMAGE: np.zeros((*CROP, 3))}, {k: v[0] for k, v in outputs.items()}
    )
    assert picture.dtype == np.uint8


@pytest.mark.parametrize('row, found', [(5, True), (32, False)])
def test_no_instance_has_its_center_in_the_padding(row, found):
    heat = np.zeros([1, *CROP], np.float32)
    heat[0, row, 10] = 0.9
    predictions = {
        fields.SEMANTIC_PREDICTIONS: np.ones([1, *CROP], np.int64),
        fields.INSTANCE_CENTERS: heat,
        fields.CENTER_OFFSETS: np.zeros([1, *CROP, 2], np.float32),
    }
    with tf.Graph().as_default(), tf1.Session() as session:
        features = {fields.TRUE_IMAGE_SHAPE: tf.constant([[30, 36, 3]])}
        predictions = {name: tf.constant(value) for name, value in predictions.items()}
        outputs = build_task(pipeline(HEADS)).postprocess(predictions, features)
        assert session.run(outputs[fields.INSTANCE_PREDICTIONS]).any() == found


def test_training_metrics_are_there_when_asked_for():
    with tf.Graph().as_default(), tf1.Session() as session:
        built = build(ModeKeys.TRAIN, 'evaluation { training_metrics_window: 5 }')
        metrics = built.task.training_metrics(built.predictions, built.features, built.labels)
        assert set(metrics) == {'miou', 'pixel_accuracy'}
        tiny_networks.lively(session)
        session.run(tf1.local_variables_initializer())
        session.run([update for _, update in metrics.values()])
        assert 0.0 <= session.run(metrics['miou'][0]) <= 1.0
    with tf.Graph().as_default():
        built = build(ModeKeys.TRAIN, '')
        assert not built.task.training_metrics(built.predictions, built.features, built.labels)


def test_training_metrics_are_left_out_of_distribution_strategies(caplog):
    with tf.Graph().as_default():
        built = build(ModeKeys.TRAIN, 'evaluation { training_metrics_window: 5 }')
        with tf.distribute.OneDeviceStrategy('/cpu:0').scope(), caplog.at_level('WARNING'):
            metrics = built.task.training_metrics(built.predictions, built.features, built.labels)
    assert metrics == {}
    assert 'training_metrics_window has no effect' in caplog.text


def graph_size(batch, classes):
    """How many nodes the whole graph of a training step has, and how many bytes."""
    # Fields that grow with the classes are set.
    edge = f'edge {{ num_classes: {classes} }}'
    weights = f'loss {{ class_weights: {list(range(1, classes + 1))} top_k_percent_pixels: 0.5 }}'
    config = pipeline(
        f'instance_center {{}} offset {{}} {edge} {weights} decoder {{}} '
        'evaluation { training_metrics_window: 5 }',
        'train_config { optimizer { momentum_optimizer { learning_rate { constant_learning_rate '
        '{ learning_rate: 0.1 } } } } }',
    )
    config.model.segmentation.num_classes = classes
    features = {
        fields.IMAGE: tf1.placeholder(tf.float32, [batch, *CROP, 3]),
        fields.TRUE_IMAGE_SHAPE: tf1.placeholder(tf.int32, [batch, 3]),
        fields.SOURCE_ID: tf1.placeholder(tf.string, [batch]),
    }
    floats = {fields.CENTER: (), fields.OFFSET: (2,), fields.OFFSET_WEIGHTS: ()}
    labels = {
        name: tf1.placeholder(tf.float32, [batch, *CROP, *end]) for name, end in floats.items()
    }
    for name in (fields.SEMANTIC, fields.INSTANCES, fields.EDGE):
        labels[name] = tf1.placeholder(tf.int32, [batch, *CROP])
    tf1.train.create_global_step()
    model_fn = model_fn_lib.create_model_fn(build_task(config), config)
    run_config = training.create_run_config(config, 'unused')
    model_fn(features, labels, ModeKeys.TRAIN, {}, run_config)
    return len(tf1.get_default_graph().get_operations())


def test_the_graph_of_training_grows_with_neither_batch_nor_classes():
    counts = set()
    # TensorFlow's zeros of more than 1000 numbers are other nodes than those of fewer.
    for batch, classes in ((2, 70), (7, 90)):
        with tf.Graph().as_default():
            counts.add(graph_size(batch, classes))
    assert len(counts) == 1


# Serving.


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """Weights of the network with all heads, by their names."""
    prefix = str(tmp_path_factory.mktemp('weights') / 'model.ckpt')
    with tf.Graph().as_default(), tf1.Session() as session:
        serve(build_task(pipeline(HEADS)), tf.zeros([1, 5, 5, 3], tf.uint8))
        tiny_networks.lively(session)
        return tf1.train.Saver().save(session, prefix)


def serve(task, images):
    tf1.train.create_global_step()
    features = task.serving_features(images)
    predictions = task.predict(features, ModeKeys.PREDICT)
    return task.export_outputs(task.postprocess(predictions, features))


class Predicted:
    """The task, as a function of images, without an export."""

    def __init__(self, task, checkpoint):
        self._session = tf1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            self._images = tf1.placeholder(tf.uint8, [None, None, None, 3])
            self._outputs = serve(task, self._images)
            tf1.train.Saver(tf1.global_variables()).restore(self._session, checkpoint)

    def __call__(self, images):
        return self._session.run(self._outputs, {self._images: images})


class Exported:
    """A SavedModel that is called as a function."""

    def __init__(self, path):
        self._session = tf1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            loaded = tf1.saved_model.load(self._session, ['serve'], path)
        signature = loaded.signature_def['serving_default']
        self._input = signature.inputs['inputs'].name
        self._outputs = {name: info.name for name, info in signature.outputs.items()}

    def __call__(self, sent):
        return self._session.run(self._outputs, {self._input: sent})


RESIZED = 'preprocessing { min_resize_value: 40 max_resize_value: 60 resize_factor: 8 }'
VARIANTS = {
    'resized': HEADS + RESIZED,
    'views': HEADS + 'export { scales: [0.75, 1.0] add_flipped_images: true output_stride: 4 }',
}


@pytest.fixture(scope='module', params=sorted(VARIANTS))
def served(request, checkpoint, tmp_path_factory):
    """A task as a function, and its exports for images and for files of images."""
    config = pipeline(VARIANTS[request.param])
    task = build_task(config)
    exports = [
        Exported(
            exporting.export(
                task,
                config,
                checkpoint,
                str(tmp_path_factory.mktemp('export')),
                SavedModelWriter(input_type),
            )
        )
        for input_type in (serving.IMAGE_TENSOR, serving.ENCODED_IMAGE_STRING_TENSOR)
    ]
    return Predicted(task, checkpoint), exports


# Smaller than the crop, one side larger, both, a single column; one image or two.
@pytest.mark.parametrize(
    'batch, height, width', [(1, 20, 30), (2, 20, 60), (2, 47, 70), (1, 33, 41), (1, 9, 1)]
)
def test_exports_give_what_the_task_predicts_at_any_size(served, batch, height, width):
    predict, (of_images, of_files) = served
    random = np.random.RandomState(height)
    images = random.randint(0, 256, [batch, height, width, 3]).astype(np.uint8)
    expected = predict(images)
    for got in (of_images(images), of_files([codecs.encode_png(image) for image in images])):
        assert {name: value.dtype for name, value in got.items()} == {**OF_HEADS, **OF_INSTANCES}
        for name, value in got.items():
            assert value.shape[:3] == (batch, height, width), name
            if value.dtype == np.float32:
                np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4)
            else:  # Equal but for pixels on the border of two classes.
                assert np.mean(value != expected[name]) < 0.01, name


def test_images_of_one_request_must_not_differ_in_size(served):
    _, (_, of_files) = served
    files = {
        size: codecs.encode_png(np.full([*size, 3], 90, np.uint8))
        for size in ((20, 30), (30, 20), (70, 90), (90, 70))
    }
    for sizes in (((20, 30), (30, 20)), ((70, 90), (90, 70)), ((20, 30), (70, 90))):
        with pytest.raises(tf.errors.InvalidArgumentError, match='expected images of one size'):
            of_files([files[size] for size in sizes])


def test_padding_does_not_show(checkpoint):
    """An image that is smaller than the crop is the network's on the padded image, cut."""
    image = np.random.RandomState(1).randint(0, 256, [1, 20, 30, 3]).astype(np.uint8)
    padded = np.full([1, *CROP, 3], 127.5, np.float32)
    padded[:, :20, :30] = image
    task = build_task(pipeline(HEADS))
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        expected = task.predict({fields.IMAGE: tf.constant(padded)}, ModeKeys.PREDICT)
        tf1.train.Saver(tf1.global_variables()).restore(session, checkpoint)
        expected = session.run(expected)
    got = Predicted(task, checkpoint)(image)
    for name in OF_HEADS:
        np.testing.assert_allclose(got[name], expected[name][:, :20, :30], rtol=1e-5, atol=1e-5)


SIZES = ((30, 36), (36, 30), (44, 52), (30, 36), (12, 20))


def sized_records(path, others=()):
    """A record for each of `SIZES`, and for others, whose pixels are all of the ignore label."""
    made = [serialized(height=height, width=width) for height, width in SIZES]
    for height, width in others:
        image, ids, _ = scene(height, width)
        ignored, none = np.full_like(ids, 255), np.zeros_like(ids)
        made.insert(1, segmentation_records.record(image, ignored, none, source_id='b'))
    return segmentation_records.write_records(path, made)


def evaluate(model, records, checkpoint, batch_size):
    """The metrics of an evaluation, and of each image its size and outputs without padding."""
    rest = f'eval_input_reader {{ tf_record_input_reader {{ input_path: "{records}" }} }}'
    config, outputs = pipeline(model, rest), []
    task = build_task(config)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.create_global_step()
        reader = config.eval_input_reader[0]
        features, labels = inputs.create_input_fn(task, reader, ModeKeys.EVAL, batch_size, 0)()
        features, _ = inputs.pop_reader_state(features)
        found = task.postprocess(task.predict(features, ModeKeys.EVAL, labels), features)
        metrics = task.metrics(found, features, labels)
        tf1.train.Saver(tf1.global_variables()).restore(session, checkpoint)
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        updates = [update for _, update in metrics.values()]
        while True:
            try:
                shapes, batch, _ = session.run([features[fields.TRUE_IMAGE_SHAPE], found, updates])
            except tf.errors.OutOfRangeError:
                break
            for index, (height, width, _) in enumerate(shapes):
                cut = {name: one[index, :height, :width] for name, one in batch.items()}
                outputs.append(((height, width), cut))
        values = session.run({name: value for name, (value, _) in metrics.items()})
    return task.finish_metrics(values), outputs


def slow_mean_iou(predictions):
    """The mean IoU of predicted classes for `SIZES`, pixel by pixel."""
    confusion = np.zeros([4, 256])
    for (height, width), classes in zip(SIZES, predictions):
        _, ids, _ = scene(height, width)
        np.add.at(confusion, (classes.ravel(), ids.ravel()), 1)
    confusion = confusion[:, :4]
    right = np.diag(confusion)
    unions = confusion.sum(0) + confusion.sum(1) - right
    return (right / np.maximum(unions, 1))[unions > 0].mean()


AREAS = 'instance_grouping { min_instance_area: 20 min_stuff_area: 120 }'


def test_metrics_are_those_of_the_exported_model_whatever_else_is_evaluated(checkpoint, tmp_path):
    model = HEADS + AREAS
    alone, outputs = evaluate(model, sized_records(tmp_path / 'a'), checkpoint, batch_size=3)
    largest = sized_records(tmp_path / 'b', [(90, 130)])
    together, _ = evaluate(model, largest, checkpoint, batch_size=3)
    # Kernels may round batches otherwise than images: a pixel in ten thousand.
    tolerance = 5e-4
    for name in ('miou_1.0_overall', 'pixel_accuracy', 'boundary_f_score', 'panoptic_quality'):
        assert together[name] == pytest.approx(alone[name], abs=tolerance), name
    served = Predicted(build_task(pipeline(model)), checkpoint)
    exported = [served(scene(*size)[0][np.newaxis]) for size in SIZES]
    mean_iou = slow_mean_iou([one[fields.SEMANTIC_PREDICTIONS][0] for one in exported])
    assert alone['miou_1.0_overall'] == pytest.approx(mean_iou, abs=tolerance)
    assert sorted(size for size, _ in outputs) == sorted(SIZES)
    for size, found in outputs:
        expected = exported[SIZES.index(size)]
        for name in (fields.SEMANTIC_PREDICTIONS, *OF_INSTANCES):
            assert np.mean(found[name] != expected[name][0]) < 1e-3, (size, name)


# Files and descriptions.


def test_raw_classes_are_files_when_asked_for():
    features = {fields.IMAGE: np.zeros([4, 4, 3]), fields.TRUE_IMAGE_SHAPE: np.array([2, 3, 3])}
    outputs = {fields.SEMANTIC_PREDICTIONS: np.arange(16).reshape(4, 4) % 4}
    assert build_task(pipeline()).presentation.files(features, outputs) == {}
    task = build_task(
        pipeline(
            'evaluation { save_raw_predictions: true }',
            'eval_config { visualization_export_dir: "pictures" }',
        )
    )
    (name, content), *_ = task.presentation.files(features, outputs).items()
    assert name == '_raw.png'
    np.testing.assert_array_equal(id_images.read(content), [[0, 1, 2], [0, 1, 2]])


def test_an_image_is_described_by_numbers_and_files_of_ids():
    classes, instances = np.array([[0, 1, 1]]), np.array([[0, 300, 2]], np.int32)
    outputs = {fields.SEMANTIC_PREDICTIONS: classes, fields.INSTANCE_PREDICTIONS: instances}
    features = {fields.IMAGE: np.zeros([1, 3, 3], np.uint8)}
    task = build_task(pipeline(HEADS))
    values, rows, picture, files = task.presentation.describe(features, outputs)
    assert rows == [
        {'class': 'class 1', 'id': 1, 'pixels': 2},
        {'class': 'class 0', 'id': 0, 'pixels': 1},
    ]
    assert values == {'height': 1, 'width': 3, 'classes': rows, 'instances': 2}
    assert np.array_equal(picture, task.presentation.draw(features, outputs))
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, dtype, expected in (
            ('_classes.png', tf.uint8, classes),
            ('_instances.png', tf.uint16, instances),
        ):
            decoded = session.run(tf.io.decode_png(files[name], dtype=dtype))
            np.testing.assert_array_equal(decoded[..., 0], expected)


def test_files_of_ids_and_numbers_of_cityscapes_count_alike():
    """Only files for the data set's evaluation server have its ids: 7 for road."""
    config = pipeline('dataset: "cityscapes" evaluation { save_raw_predictions: true }',
                      'eval_config { visualization_export_dir: "pictures" }')  # fmt: skip
    config.model.segmentation.ClearField('num_classes')
    task = build_task(config)
    outputs = {fields.SEMANTIC_PREDICTIONS: np.array([[0, 18]])}
    features = {fields.IMAGE: np.zeros([1, 2, 3], np.uint8)}
    found = task.presentation.describe(features, outputs)
    assert sorted(row['id'] for row in found.rows) == [0, 18]
    assert id_images.read(found.files['_classes.png']).tolist() == [[0, 18]]
    assert id_images.read(task.presentation.files(features, outputs)['_raw.png']).tolist() == [
        [7, 33]
    ]


def test_what_is_shown_of_a_segmentation():
    outputs = {fields.SEMANTIC_PREDICTIONS: np.array([[0, 1, 1], [2, 1, 2]])}
    features = {fields.IMAGE: np.zeros([2, 3, 3], np.uint8)}
    task = build_task(pipeline(HEADS))
    assert [row['id'] for row in task.presentation.describe(features, outputs).rows] == [1, 2, 0]
    assert [
        row['id'] for row in task.presentation.describe(features, outputs, Shown(top_k=1)).rows
    ] == [1]
    with pytest.raises(errors.ConfigError, match='--score_threshold=.*: segmentation gives each'):
        task.presentation.describe(features, outputs, Shown(least_score=0.5))


def test_coco_results_are_instances_or_else_classes():
    classes = np.array([[0, 1, 1], [2, 1, 2]])
    features = {fields.IMAGE: np.zeros([2, 3, 3], np.uint8)}
    outputs = {fields.SEMANTIC_PREDICTIONS: classes}
    task = build_task(pipeline(HEADS))
    for shown, expected in ((Shown(), (1, 2, 0)), (Shown(top_k=2), (1, 2))):
        results = task.presentation.coco_results(features, outputs, shown)
        assert tuple(one['category_id'] for one in results) == expected
        for one in results:
            mask = pycocotools.mask.decode(one['segmentation'])
            np.testing.assert_array_equal(mask, classes == one['category_id'])
    # Instance 5 is mostly of class 1.
    outputs[fields.INSTANCE_PREDICTIONS] = np.array([[0, 5, 5], [7, 0, 5]], np.int32)
    results = task.presentation.coco_results(features, outputs)
    assert [one['category_id'] for one in results] == [1, 2]
    mask = pycocotools.mask.decode(results[0]['segmentation'])
    np.testing.assert_array_equal(mask, [[0, 1, 1], [0, 0, 1]])
    first, second = task.presentation.regions(features, outputs)
    assert (first.class_index, first.box) == (1, [0, 1, 2, 3])
    assert (second.class_index, second.box) == (2, [1, 0, 2, 1])
    np.testing.assert_array_equal(first.mask, [[1, 1], [0, 1]])
    assert (first.origin, second.origin) == ((0, 1), (1, 0))
    assert len(task.presentation.regions(features, outputs, Shown(top_k=1))) == 1


# Weights.


@pytest.fixture(scope='module')
def of_training():
    with tf.Graph().as_default():
        task = build(ModeKeys.TRAIN).task
        return task, tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)


@pytest.mark.parametrize(
    'kind, prefix, heads',
    [
        ('', '', True),
        ('segmentation', '', True),
        ('classification', '', False),
        ('detection', 'FeatureExtractor/', False),
    ],
)
def test_which_variables_a_checkpoint_gives(of_training, kind, prefix, heads):
    task, variables = of_training
    names = task.checkpoints.restore_map(variables, kind)
    assert names[f'{prefix}tiny/conv1/weights'].op.name == 'tiny/conv1/weights'
    assert ('logits/semantic/weights' in names) == heads
    assert len(names) == (len(variables) if heads else len(names))
    assert heads or all(name.startswith(f'{prefix}tiny/') for name in names)


def test_last_layers_and_biases_learn_faster():
    task = build_task(pipeline(HEADS))
    assert (
        'logits' in task.checkpoints.last_layer_scopes
        and 'aspp' in task.checkpoints.last_layer_scopes
    )
    task = build_task(pipeline('last_layers_contain_logits_only: true'))
    assert task.checkpoints.last_layer_scopes == ('logits',)
    assert task.bias_gradient_multiplier() == 2.0
    assert task.name == 'segmentation'


# Refusals.


def test_refuses_checkpoints_of_unknown_tasks():
    with pytest.raises(errors.ConfigError, match="'clasification' is unknown; did you mean"):
        build_task(pipeline()).checkpoints.restore_map([], 'clasification')
