"""Declared features and labels of the tasks: the page about Python, what tasks prepare, errors."""

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from estimator_lib import errors, tf_estimator
from estimator_lib.data import batches
from model_fns import build_task, create_model_fn
from model_fns.classification import inputs
from model_fns.detection import batch_spec
from model_fns.segmentation import batch_spec as segmentation_spec
from tests import documents, tiny_data, tiny_detection, tiny_segmentation

pytestmark = pytest.mark.usefixtures('shallow_networks')

ModeKeys = tf_estimator.ModeKeys

TABLES = {
    'Classification': inputs.BATCH,
    'Classification with several labels': inputs.MULTI_LABEL_BATCH,
    'Detection': batch_spec.BATCH,
    'Segmentation': segmentation_spec.BATCH,
}
CASES = {
    'classification': (tiny_data, 'label'),
    'segmentation': (tiny_segmentation, 'semantic_labels'),
    'detection': (tiny_detection, 'groundtruth_boxes'),
}


class Case:
    """A task, its model_fn, and one batch of it as placeholders of graphs."""

    def __init__(self, folder, make, label):
        config = config_lib.load_pipeline_config(str(make.write_all(folder)))
        self.label = label
        self.task = build_task(config)
        self.model_fn = create_model_fn(config)

    def batch(self, mode):
        """Prepare a record, and add a batch dimension."""
        example = self.task.decode(tf.compat.v1.placeholder(tf.string, []))
        parts = self.task.prepare(example, mode)
        return tf.nest.map_structure(lambda value: value[tf.newaxis], parts)


@pytest.fixture(scope='module', params=CASES)
def case(request, tmp_path_factory):
    make, label = CASES[request.param]
    return Case(tmp_path_factory.mktemp(request.param), make, label)


@pytest.mark.parametrize('title', TABLES)
def test_page_about_python_shows_what_is_declared(title):
    page = (documents.ROOT / 'docs' / 'python.md').read_text(encoding='utf-8')
    table = '\n'.join(TABLES[title].table())
    assert f'### {title}\n\n{table}\n' in page, table


@pytest.mark.parametrize('mode', [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_tasks_declare_all_that_they_prepare(case, mode):
    spec = case.task.batch_spec()
    with tf.Graph().as_default():
        batch = case.batch(mode)
        received = batches.receive(spec, *batch, mode)
    for prepared, kept, declared in zip(batch, received, (spec.features, spec.labels)):
        # Own batches are as declared: nothing is converted.
        assert kept == prepared
        assert set(prepared) <= {tensor.name for tensor in declared}


WRONG = {
    'a tensor as features': (
        lambda features, labels, label: (features['image'], labels),
        "features that are one tensor, .*; expected a dict of tensors by name, 'image': float32 "
        r'\[batch, height, width, 3\]',
    ),
    'no labels': (
        lambda features, labels, label: (features, None),
        "the input_fn returned no labels; expected a dict of tensors by name, '{label}': ",
    ),
    'other labels': (
        lambda features, labels, label: (features, {f'{label}s': labels[label]}),
        "the labels of the input_fn have no '{label}'; did you mean '{label}s'",
    ),
    'one channel': (
        lambda features, labels, label: (
            {**features, 'image': features['image'][..., :1]},
            labels,
        ),
        r"'image' is float32 \[.*, 1\]; expected float32 \[batch, height, width, 3\] \(",
    ),
    'another type': (
        lambda features, labels, label: (
            {**features, 'image': tf.cast(features['image'], tf.float64)},
            labels,
        ),
        "'image' is float64 .*; expected float32",
    ),
    'another type of label': (
        lambda features, labels, label: (
            features,
            {**labels, label: tf.cast(labels[label], tf.complex64)},
        ),
        "'{label}' is complex64 .*; expected ",
    ),
    'no batch': (
        lambda features, labels, label: (features, {**labels, label: labels[label][0]}),
        "the labels of the input_fn: '{label}' is .*; expected .*batch",
    ),
}


@pytest.fixture(scope='module')
def batch(case):
    with tf.Graph().as_default() as graph:
        return graph, case.batch(ModeKeys.TRAIN)


@pytest.mark.parametrize('what', WRONG)
def test_model_fn_refuses_other_batches_with_a_sentence(case, batch, what):
    change, message = WRONG[what]
    graph, tensors = batch
    with graph.as_default(), pytest.raises(errors.DataError) as error:
        case.model_fn(*change(*tensors, case.label), ModeKeys.TRAIN)
    error.match(message.replace('{label}', case.label))


def test_images_of_bytes_are_refused_or_converted(case):
    with tf.Graph().as_default():
        features, labels = case.batch(ModeKeys.EVAL)
        features['image'] = tf.cast(features['image'], tf.uint8)
        spec = case.task.batch_spec()
        if case.task.name == 'detection':  # the values are those of bytes
            received = batches.receive(spec, features, labels, ModeKeys.EVAL)
            assert received.features['image'].dtype == tf.float32
            return
        with pytest.raises(errors.DataError, match=r"'image' is uint8 \[.*; expected float32"):
            case.model_fn(features, labels, ModeKeys.EVAL)
        with pytest.raises(errors.DataError, match=r"'image' is uint8 \[.*; expected float32"):
            case.model_fn(features, None, ModeKeys.PREDICT)
