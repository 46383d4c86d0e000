"""Classifiers of images with several labels, from records to exports."""

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

import model_fns
from estimator_lib import errors
from estimator_lib.data import corrupt_records, record_sources
from estimator_lib.drawing import visualization
from model_fns.classification import inputs, losses, multi_label_metrics
from model_fns.classification.multi_label import MultiLabelTask
from model_fns.classification.task import ClassificationTask
from model_fns.datasets import codecs, records
from model_fns.structures.label_map import LabelMap
from protos import pipeline_pb2
from tests import tiny_data
from tests.test_run_train_eval import front_door

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
NAMES = ['red', 'green', 'blue']


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """A table of images whose upper, middle and lower thirds may have a color each."""
    folder = tmp_path_factory.mktemp('labels')
    (folder / 'images').mkdir()
    lines = ['filename,class']
    random = np.random.RandomState(0)
    for index in range(24):
        image = random.randint(0, 60, [24, 24, 3]).astype(np.uint8)
        chosen = [place for place in range(3) if index >> place & 1]
        for place in chosen:
            image[8 * place : 8 * place + 8, :, place] += 190
            lines.append(f'{index}.png,{NAMES[place]}')
        if not chosen:
            lines.append(f'{index}.png,')
        (folder / 'images' / f'{index}.png').write_bytes(codecs.encode_png(image))
    (folder / 'labels.csv').write_text('\n'.join(lines))
    LabelMap.from_names(NAMES).write(str(folder / 'label_map.pbtxt'))
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(tiny_data.LENET_CONFIG.format(folder=folder), config)
    config.model.classification.multi_label = True
    for reader in (config.train_input_reader, config.eval_input_reader[0]):
        reader.label_map_path = str(folder / 'label_map.pbtxt')
        reader.csv_input_reader.image_path.append(str(folder / 'images'))
        reader.csv_input_reader.annotation_path.append(str(folder / 'labels.csv'))
    config.export_config.best.metric = 'mAP'
    config.export_config.ClearField('latest')
    config.export_config.final.enabled = False
    config.eval_config.num_visualizations = 1
    (folder / 'pipeline.config').write_text(text_format.MessageToString(config))
    return folder, config


def record(*labels, texts=()):
    features = {
        'image/encoded': codecs.encode_png(np.zeros([8, 8, 3], np.uint8)),
        'image/source_id': 'a',
        'image/class/label': np.array(labels, np.int64),
        'image/class/text': list(texts),
    }
    return records.serialize(features)


def test_the_config_chooses_the_task(data):
    _, config = data
    assert type(model_fns.make_task(config)) is MultiLabelTask
    single = pipeline_pb2.TrainEvalPipelineConfig()
    single.CopyFrom(config)
    single.model.classification.multi_label = False
    assert type(model_fns.make_task(single)) is ClassificationTask


@pytest.mark.parametrize(
    ('serialized', 'expected'),
    [
        (record(), [0, 0, 0]),
        (record(2), [0, 1, 0]),
        (record(3, 1, 3), [1, 0, 1]),
        (record(texts=['blue', 'green']), [0, 1, 1]),
    ],
    ids=['none', 'one', 'several', 'names'],
)
def test_labels_of_records(data, serialized, expected):
    task = model_fns.make_task(data[1])
    with tf.Graph().as_default(), tf1.Session() as session:
        decoded = task.decode(tf.constant(serialized))['label']
        session.run(tf1.tables_initializer())
        np.testing.assert_array_equal(session.run(decoded), expected)
    assert task.checks.check_example(serialized) is None
    assert task.checks.examine(serialized).counts == {
        i + 1: 1 for i, value in enumerate(expected) if value
    }


@pytest.mark.parametrize(
    ('serialized', 'said'),
    [
        (record(1, 4), 'image/class/label has 4; expected 1 to 3'),
        (record(texts=['red', 'pink']), "unknown class 'pink'"),
        (b'\xff', 'not a tf.train.Example'),
        (b'', 'no image/encoded'),
    ],
)
def test_bad_records_are_described(data, serialized, said):
    task = model_fns.make_task(data[1])
    assert task.checks.check_example(serialized) == said
    with tf.Graph().as_default(), tf1.Session() as session:
        decoded = task.decode(tf.constant(serialized))
        session.run(tf1.tables_initializer())
        with pytest.raises(corrupt_records.SESSION_ERRORS):
            session.run(decoded)


def test_an_unknown_label_does_not_cost_the_others(data):
    task = model_fns.make_task(data[1])
    repaired, problem = task.checks.repair_example(record(1, 4, 3))
    assert problem == 'image/class/label has 4; expected 1 to 3 (1 of 3 labels removed)'
    assert task.checks.examine(repaired).counts == {1: 1, 3: 1}
    repaired, _ = task.checks.repair_example(record(texts=['pink', 'red']))
    assert task.checks.examine(repaired).counts == {1: 1}
    for hopeless in (record(4), b'\xff', b'', record(texts=['pink'])):
        assert task.checks.repair_example(hopeless) is None


def test_a_run_learns_and_its_export_answers(data, tmp_path, capfd):
    folder, _ = data
    flags = [f'--pipeline_config_path={folder / "pipeline.config"}', f'--model_dir={tmp_path}']
    assert front_door('--mode=check', *flags[:1]) == 0
    assert front_door(*flags, '--num_train_steps=60') == 0, capfd.readouterr().err
    content = json.loads((tmp_path / 'metrics.json').read_text())
    (metrics,) = (value for value in content.values() if isinstance(value, dict))
    assert metrics['mAP'] > 0.7 and metrics['F1_micro'] > 0.5
    assert {f'{name}_class_{i}' for name in ('AP', 'F1') for i in range(3)} <= set(metrics)
    assert list((tmp_path / 'export' / 'best').iterdir())
    analysis = tmp_path / 'analysis' / '60'
    rows = (analysis / 'classes.csv').read_text().splitlines()
    assert [row.partition(',')[0] for row in rows] == ['class', *NAMES]
    assert float(rows[1].split(',')[7]) == pytest.approx(metrics['AP_class_0'], rel=1e-4)
    assert (analysis / 'report.html').exists() and (analysis / 'errors.csv').exists()
    predictions = tmp_path / 'predictions'
    status = front_door(
        '--mode=predict',
        f'--model_dir={tmp_path}',
        f'--images={folder / "images"}',
        f'--output_dir={predictions}',
    )
    assert status == 0, capfd.readouterr().err
    assert (predictions / 'predictions.json').exists()


def test_mixtures_have_the_shares_of_all_labels(data):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    config.CopyFrom(data[1])
    config.train_config.data_augmentation_options.add().mixup.SetInParent()
    task = model_fns.make_task(config)
    (mixing,) = task.mixings()
    with tf.Graph().as_default(), tf1.Session() as session:
        seed = tf.constant([1, 2], tf.int64)
        examples = [task.decode(tf.constant(record(*labels))) for labels in ((1, 2), (2, 3))]
        varied = [mixing.vary(example, seed) for example in examples]
        combined = mixing.combine(varied, seed)
        features, labels = task.prepare(task.augment(combined, seed), 'train')
        logits = tf.constant([[0.5, -1.0, 2.0]])
        batch = {name: value[tf.newaxis] for name, value in labels.items()}
        loss = task.losses({'logits': logits}, features, batch)['classification_loss']
        session.run(tf1.tables_initializer())
        shares, loss = session.run((labels['label_shares'], loss))
    assert shares[1] == pytest.approx(1) and shares[0] + shares[2] == pytest.approx(1)
    probability = 1 / (1 + np.exp([-0.5, 1.0, -2.0]))
    each = -(shares * np.log(probability) + (1 - shares) * np.log(1 - probability))
    assert loss == pytest.approx(each.mean(), rel=1e-5)


def test_postprocessing_and_files_for_devices(data):
    task = model_fns.make_task(data[1])
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = task.postprocess({'logits': tf.constant([[0.0, -2.0, 3.0]])}, {})
        values = session.run(outputs)
    np.testing.assert_allclose(values['probabilities'], [[0.5, 0.11920292, 0.95257413]], rtol=1e-6)
    np.testing.assert_array_equal(values['classes'], [[1, 0, 1]])
    device = task.deployable(None)
    logits = [{'logits': np.array([[1.0, -1.0]])}], [{'logits': np.array([[2.0, 1.0]])}]
    assert device.agreement(*logits, exact=False)['classes'] == 0.5


def test_classes_that_were_not_looked_for_cost_nothing_and_count_for_nothing(data):
    _, config = data
    task = model_fns.build_task(config)
    looked_for = tf.train.Example()
    looked_for.features.feature[record_sources.LABELED].bytes_list.value.append(b'green')
    with tf.Graph().as_default(), tf1.Session() as session:
        labels = task.decode(record(1) + looked_for.SerializeToString())[inputs.LABEL]
        session.run(tf1.tables_initializer())
        labels = session.run(labels)
    # Red is a label of the image, green was looked for, blue may be there.
    np.testing.assert_array_equal(labels, [1, 0, np.nan])
    logits = tf.constant([[0.0, 0.0, 30.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.sigmoid_cross_entropy(logits, labels[np.newaxis])
    assert float(loss) == pytest.approx(2 * np.log(2) / 3)
    np.testing.assert_allclose(tape.gradient(loss, logits), [[-0.5 / 3, 0.5 / 3, 0]], atol=1e-6)
    with tf.Graph().as_default(), tf1.Session() as session:
        metric = multi_label_metrics.create_metrics(
            tf.zeros([1, 3]), tf.constant(labels[np.newaxis])
        )[multi_label_metrics.SCORES]
        session.run(tf1.local_variables_initializer())
        session.run(metric[1])
        counts = session.run(metric[0]).sum(axis=2)
    assert counts.tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize('labels, alarms', [([1, 0, np.nan], False), ([1, 0, 0], True)])
def test_no_alarm_for_a_class_that_was_not_looked_for(data, monkeypatch, labels, alarms):
    task = model_fns.build_task(data[1])
    drawn = []
    monkeypatch.setattr(
        visualization, 'captioned', lambda *args, alarming=False: drawn.append(alarming)
    )
    outputs = {'probabilities': np.array([0.75, 0.25, 0.75], np.float32)}
    task.presentation.draw(
        {'image': np.zeros([8, 8, 3], np.uint8)}, outputs, {'label': np.array(labels, np.float32)}
    )
    assert drawn == [alarms]


def test_the_check_says_what_was_looked_for(data):
    task = model_fns.build_task(data[1])
    looked_for = tf.train.Example()
    looked_for.features.feature[record_sources.LABELED].bytes_list.value.append(b'green')
    examined = [task.checks.examine(record(1) + looked_for.SerializeToString())]
    report = task.checks.data_report({'train_input_reader': examined})
    start = report.lines.index('train_input_reader: 1 image, looked for: green')
    assert report.lines[start + 1 : start + 4] == [
        '  red: 1',
        '  green: 0',
        '  blue: not looked for',
    ]
    assert any('labels of red, too' in warning for warning in report.warnings)
    everything = task.checks.data_report({'train_input_reader': [task.checks.examine(record(1))]})
    assert not any('looked for' in line for line in everything.lines)


def test_labels_from_0_are_an_error_of_any_sample(data):
    checks = model_fns.build_task(data[1]).checks
    examined = [checks.examine(record(label)) for label in (0, 1, 2)]
    (problem,) = checks.data_report({'train_input_reader': examined}).certain
    assert 'labels start at 0, it seems' in problem


def test_single_labels_exclude_each_other(data):
    _, config = data
    single = pipeline_pb2.TrainEvalPipelineConfig()
    single.CopyFrom(config)
    single.model.classification.multi_label = False
    single.train_input_reader.labeled_classes.append('red')
    said = r'train_input_reader\.labeled_classes: .* expected .*multi_label: true'
    with pytest.raises(errors.ConfigError, match=said):
        model_fns.validate(single)
