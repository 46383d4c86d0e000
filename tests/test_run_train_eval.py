"""Classification through the front door: trained, resumed, evaluated, exported, served, checked."""

import contextlib
import csv
import io
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import run_train_eval
from tests import served, tiny_data
from tests.estimator_lib.run_records import test_hparams

ROOT = pathlib.Path(__file__).resolve().parent.parent


# Of runs whose exports nobody looks at.
NO_EXPORT = '--set=export_config.final.enabled=false'
NO_PICTURES = '--set=eval_config.num_visualizations=0'


def front_door(*flags):
    """Exit status of the front door, run in this process."""
    try:
        run_train_eval.main(['run_train_eval.py', *map(str, flags)])
    except SystemExit as ending:
        return ending.code
    return 0


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    tiny_data.write_all(folder)
    # Where the network is not what is tested.
    (folder / 'lenet.config').write_text(tiny_data.LENET_CONFIG.format(folder=folder))
    return folder


@pytest.fixture(scope='module')
def trained(data, tmp_path_factory):
    """A model_dir after a run of the front door, as a process of its own."""
    model_dir = tmp_path_factory.mktemp('run')
    run = subprocess.run(
        [
            sys.executable,
            ROOT / 'run_train_eval.py',
            f'--model_dir={model_dir}',
            f'--pipeline_config_path={data / "pipeline.config"}',
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return model_dir, run


def latest(folder):
    return max(path for path in folder.iterdir() if path.is_dir())


def test_it_reports_from_step_1_and_says_where_things_are(trained):
    model_dir, run = trained
    assert 'step 1/50' in run.stderr and 'step 50/50' in run.stderr
    assert f'checkpoints, events and pipeline.config: {model_dir}' in run.stdout
    assert 'Traceback' not in run.stderr


def test_it_learns(trained):
    metrics = json.loads((trained[0] / 'metrics.json').read_text())
    assert metrics['global_step'] == 50
    assert metrics['0']['accuracy'] > 0.6


def test_what_comes_out(trained):
    model_dir, _ = trained
    for name in ('checkpoint', 'pipeline.config', 'model.ckpt-50.index'):
        assert (model_dir / name).exists()
    for kind in ('best', 'latest', 'final'):
        assert (latest(model_dir / 'export' / kind) / 'saved_model.pb').exists(), kind
    tags = set()
    for path in (model_dir / 'eval_0').glob('events*'):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags |= {value.tag for value in event.summary.value}
    assert {'accuracy', 'accuracy_class_0', 'confusion_matrix', 'examples/0'} <= tags


def test_a_run_leaves_a_table_curves_and_an_account_of_itself(trained, data):
    model_dir, _ = trained
    with open(model_dir / 'results.csv', newline='') as file:
        lines = {int(line['step']): line for line in csv.DictReader(file)}
    metrics = json.loads((model_dir / 'metrics.json').read_text())
    assert list(lines) == sorted(lines) and max(lines) == 50
    assert {name: float(lines[50][f'eval_0/{name}']) for name in metrics['0']} == pytest.approx(
        metrics['0']
    )
    for column in ('examples_per_second', 'learning_rate', 'train/loss'):
        assert all(float(line[column]) > 0 for line in lines.values())
    with Image.open(model_dir / 'results.png') as picture:
        assert picture.size == (1500, 550)
    (start,) = json.loads((model_dir / 'run.json').read_text())['starts']
    assert start['command'].endswith(f'--pipeline_config_path={data / "pipeline.config"}')
    assert (start['status'], start['first_step'], start['last_step']) == ('finished', 0, 50)
    assert start['data']['train']['records'] == 24
    (run,) = test_hparams.read_runs(model_dir.parent, model_dir.name).values()
    assert run[0]['train_config.num_steps'] == 50 and run[2] == ['STATUS_SUCCESS']
    assert run[1]['eval_0/accuracy'] == pytest.approx(metrics['0']['accuracy'])


def test_evaluate_gives_the_same_numbers_again(trained):
    model_dir, _ = trained
    before = json.loads((model_dir / 'metrics.json').read_text())
    # Written at the end of training.
    analysis = model_dir / 'analysis' / '50'
    trained_classes = (analysis / 'classes.csv').read_text()
    shutil.rmtree(model_dir / 'analysis')
    assert front_door('--mode=evaluate', f'--model_dir={model_dir}', '--analyze') == 0
    after = json.loads((model_dir / 'metrics.json').read_text())
    # The evaluation of a run has another graph around it, so kernels may sum in another order.
    assert after['0'] == pytest.approx(before['0'], rel=1e-5)
    assert (analysis / 'classes.csv').read_text() == trained_classes
    check_analysis(analysis, after['0'])


def check_analysis(folder, metrics):
    """The analysis agrees with the metrics, and names each wrong image."""
    classes, mistakes = (csv_rows(folder / f'{name}.csv') for name in ('classes', 'errors'))
    assert [row['class'] for row in classes] == list(tiny_data.COLORS)
    for index, row in enumerate(classes):
        assert row['images'] == '4'
        assert float(row['recall']) == pytest.approx(metrics[f'accuracy_class_{index}'])
    assert len(mistakes) == round(12 * (1 - metrics['accuracy']))
    for row in mistakes:
        assert row['image'] == f'image_{row["record"]}.png' and row['error'] == 'wrong class'
        assert row['note'] == tiny_data.COLORS[int(row['record']) % 3] != row['class']
    names = {path.name for path in folder.iterdir()}
    assert {'report.html', 'confusion_matrix.png', 'reliability.png', 'confusions.csv'} <= names
    assert len(list((folder / 'worst').iterdir())) == len(mistakes)


def csv_rows(path):
    with open(path, newline='') as file:
        return list(csv.DictReader(file))


def test_each_reader_has_its_own_label_map(trained, data, tmp_path):
    """Examples of an evaluation that name their classes in other words count as the same ones."""
    model_dir, _ = trained
    renamed = ['rot', 'gruen', 'blau']
    items = [f"item {{ id: {i} name: '{name}' }}" for i, name in enumerate(renamed, start=1)]
    (tmp_path / 'german.pbtxt').write_text('\n'.join(items))
    with tf.io.TFRecordWriter(str(tmp_path / 'german.tfrecord')) as writer:
        for record in tf.compat.v1.io.tf_record_iterator(str(data / 'val.tfrecord')):
            example = tf.train.Example.FromString(record)
            label = example.features.feature.pop('image/class/label').int64_list.value[0]
            text = example.features.feature['image/class/text']
            text.bytes_list.value.append(renamed[label - 1].encode())
            writer.write(example.SerializeToString())
    with open(model_dir / 'metrics.json') as file:
        expected = json.load(file)['0']
    assert (
        front_door(
            '--mode=evaluate',
            f'--model_dir={model_dir}',
            f'--set=eval_input_reader.0.label_map_path={tmp_path / "german.pbtxt"}',
            '--set=eval_input_reader.0.tf_record_input_reader.input_path='
            f'["{tmp_path / "german.tfrecord"}"]',
        )
        == 0
    )
    got = json.loads((model_dir / 'metrics.json').read_text())['0']
    assert got == pytest.approx(expected)


def estimator_predictions(model_dir, images):
    from estimator_lib import config as config_lib
    from estimator_lib import training
    from model_fns import build_task

    config = config_lib.load_pipeline_config(str(model_dir / 'pipeline.config'))
    task = build_task(config)
    estimator = training.create_estimator(task, config, str(model_dir))
    return next(
        estimator.predict(
            lambda: task.serving_features(tf.constant(images)), yield_single_examples=False
        )
    )


@pytest.fixture(scope='module')
def predicted(trained):
    """Images, and what the Estimator predicts of them."""
    images = np.stack([image for _, image in tiny_data.colored_images(4, seed=5)])
    return images, estimator_predictions(trained[0], images)


@pytest.mark.parametrize(
    'input_type', ['image_tensor', 'encoded_image_string_tensor', 'tf_example']
)
def test_exports_predict_what_the_estimator_does(trained, predicted, tmp_path, input_type):
    model_dir, _ = trained
    status = front_door(
        '--mode=export',
        f'--model_dir={model_dir}',
        f'--export_dir={tmp_path}',
        f'--input_type={input_type}',
    )
    assert status == 0
    images, expected = predicted
    got = served.answers(latest(tmp_path), images, input_type)
    assert sorted(got) == ['classes', 'logits', 'probabilities']
    served.require_close(got, expected)
    if input_type == 'image_tensor':
        served.require_clients(latest(tmp_path), images, got)
    assert got['classes'].dtype == np.int64 and set(got['classes']) <= {1, 2, 3}


def test_a_frozen_graph_predicts_what_the_estimator_does(trained, predicted, tmp_path):
    model_dir, _ = trained
    model = [f'--model_dir={model_dir}', f'--export_dir={tmp_path}', '--format=frozen_graph']
    assert front_door('--mode=export', *model) == 0
    about = json.loads((latest(tmp_path) / 'export.json').read_text())
    assert min(about['agreement']['outputs'].values()) == 1.0
    assert about['environment'] == {'TF_ENABLE_ONEDNN_OPTS': '1'}
    assert 'images of the evaluation' in about['agreement']['images']
    images, expected = predicted
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph_def = tf.compat.v1.GraphDef()
        graph_def.ParseFromString((latest(tmp_path) / 'frozen_inference_graph.pb').read_bytes())
        tf.import_graph_def(graph_def, name='')
        logits = session.run('logits:0', {'image_tensor:0': images})
    np.testing.assert_allclose(logits, expected['logits'], rtol=1e-5, atol=1e-5)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f'{number}.png')
    out, file = tmp_path / 'out', latest(tmp_path) / 'frozen_inference_graph.pb'
    flags = [f'--images={tmp_path}/*.png', f'--output_dir={out}', '--pictures=none']
    assert front_door('--mode=predict', f'--model_file={file}', *flags) == 0
    rows = json.loads((out / 'predictions.json').read_text()).values()
    scores = expected['probabilities'].max(-1)
    assert [row['classes'][0]['score'] for row in rows] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize(
    ('flag', 'said'),
    [
        ('--input_type=tf_example', '--input_type=tf_example: a frozen graph takes image_tensor'),
        ('--signature_name=other', '--signature_name is of --format=saved_model'),
        ('--warmup_requests=3', '--warmup_requests is of --format=saved_model'),
    ],
)
def test_what_a_frozen_graph_does_not_have(trained, tmp_path, capsys, flag, said):
    model_dir, _ = trained
    flags = [f'--model_dir={model_dir}', f'--export_dir={tmp_path}', '--format=frozen_graph', flag]
    assert front_door('--mode=export', *flags) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_tflite_file_answers_as_the_estimator_does(trained, tmp_path):
    model_dir, _ = trained
    flags = [f'--model_dir={model_dir}', f'--export_dir={tmp_path}', '--format=tflite']
    assert front_door('--mode=export', *flags) == 0
    folder = latest(tmp_path)
    assert (folder / 'labels.txt').read_text().split() == list(tiny_data.COLORS)
    about = json.loads((folder / 'export.json').read_text())
    assert (about['format'], about['quantize']) == ('tflite', 'none')
    assert 'images of the evaluation' in about['agreement']['images']
    runner = tf.lite.Interpreter(str(folder / 'model.tflite')).get_signature_runner()
    # Evaluation takes the middle seven eighths of an image; so does this.
    images = [image for _, image in tiny_data.colored_images(4, seed=5)]
    expected = estimator_predictions(model_dir, np.stack(images))
    for image, classes in zip(images, expected['classes']):
        pixels = tf.image.resize(image[2:38, 2:38].astype(np.float32), [32, 32])
        logits = runner(image=pixels.numpy()[np.newaxis])['logits'][0]
        assert logits.argmax() + 1 == classes


@pytest.mark.parametrize(
    ('flags', 'said'),
    [
        (['--format=tflite', '--input_type=tf_example'], '--input_type is of --format=saved_model'),
        (
            ['--format=tflite', '--warmup_requests=3'],
            '--warmup_requests is of --format=saved_model',
        ),
        (['--format=tflite', '--max_detections=3'], '--max_detections: a classifier finds no obj'),
        (
            ['--format=tflite', '--quantize=int8', '--representative_examples=0'],
            '--representative_examples=0: ranges are measured on images; expected 1',
        ),
        (['--quantize=int8'], '--quantize is of --format=tflite or --format=onnx; leave it out'),
        (['--format=frozen_graph', '--fast_nms'], '--fast_nms is of --format=tflite or --format'),
        (
            ['--format=tflight'],
            '--format=tflight: value should be one of <saved_model|frozen_graph',
        ),
        (['--format=tflite', '--quantize=int4'], '--quantize=int4: value should be one of <none|'),
    ],
)
def test_what_an_export_does_not_have(trained, tmp_path, capsys, flags, said):
    model_dir, _ = trained
    model = [f'--model_dir={model_dir}', f'--export_dir={tmp_path}']
    assert front_door('--mode=export', *model, *flags) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_predict_writes_numbers_and_pictures(trained, tmp_path):
    model_dir, _ = trained
    for index, (_, image) in enumerate(tiny_data.colored_images(2, seed=7)):
        (tmp_path / f'{index}.png').write_bytes(tiny_data.png(image))
    status = front_door(
        '--mode=predict',
        f'--saved_model_dir={model_dir / "export" / "final"}',
        f'--images={tmp_path}/*.png',
        f'--output_dir={tmp_path / "out"}',
    )
    assert status == 0
    predictions = json.loads((tmp_path / 'out' / 'predictions.json').read_text())
    assert len(predictions) == 2
    for name, one in predictions.items():
        scores = [found['score'] for found in one['classes']]
        assert sum(scores) == pytest.approx(1, abs=1e-5) and scores == sorted(scores)[::-1], name
        assert {found['class'] for found in one['classes']} == set(tiny_data.COLORS)
    assert sorted(path.name for path in (tmp_path / 'out').glob('*.png')) == ['0.png', '1.png']


@pytest.fixture(scope='module')
def past_its_best(data, tmp_path_factory):
    """Return the model_dir of a run whose evaluation at step 1 was better than that at step 2.

    The network of few layers keeps its initial values, so evaluations are equal, and the first
    one stays the best.
    """
    model_dir = tmp_path_factory.mktemp('past its best')
    config = f'--pipeline_config_path={data / "lenet.config"}'
    run = [f'--model_dir={model_dir}', config, NO_PICTURES]
    rate = 'train_config.optimizer.adam_optimizer.learning_rate.constant_learning_rate'
    run.append(f'--set={rate}.learning_rate=0')
    said = []
    for step in (1, 2):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert front_door(*run, f'--num_train_steps={step}') == 0
        said.append((out.getvalue(), err.getvalue()))
    return model_dir, said


def test_the_last_lines_recommend_the_best_model(past_its_best):
    model_dir, ((first, _), (second, _)) = past_its_best
    value = json.loads((model_dir / 'metrics.json').read_text())['0']['accuracy']
    best = latest(model_dir / 'export' / 'best')
    last = latest(model_dir / 'export' / 'final')
    assert json.loads((best / 'assets.extra' / 'origin.json').read_text())['global_step'] == 1
    assert json.loads((last / 'assets.extra' / 'origin.json').read_text())['global_step'] == 2
    assert f'exported model, the best: {best} (step 1, accuracy {value:.4g})\n' in first
    assert 'the last:' not in first
    assert f'exported model, the best: {best} (step 1, accuracy {value:.4g})\n' in second
    assert f'exported model, the last: {last} (step 2, accuracy {value:.4g})\n' in second
    # Advice on what to try follows.
    (following,) = [line for line in second.splitlines() if line.startswith('next: ')]
    assert following.startswith('next: run-train-eval --mode=predict ')
    assert f"--saved_model_dir='{best}'" in following
    assert 'evaluation on' not in second  # the log has listed the metrics already


def test_the_first_lines_say_what_is_about_to_run(past_its_best):
    (_, said), _ = past_its_best[1]
    lines = [line.partition(' ')[2] for line in said.splitlines()]  # without the time
    assert lines[0].startswith("run-train-eval '--model_dir=")
    assert f', TensorFlow {tf.__version__}' in lines[0]
    assert '--num_train_steps=1 (Python 3.' in lines[0]
    assert lines[1].startswith('kernels: ')
    assert lines[2:7] == [
        'model: classification, lenet',
        'classes: 3 (red, green, blue)',
        'training on 24 examples in 1 file',
        'evaluation on eval_input_reader[0] (val.tfrecord): 12 examples in 1 file',
        'steps: 1, of 6 examples',
    ]
    assert lines[7].startswith('devices: 0 GPU, ')
    (parameters,) = [line for line in lines if line.startswith('parameters: ')]
    assert parameters.endswith(' variables, all trained')
    # No line of the log or of the end names the set by its number.
    assert 'evaluation on eval_input_reader[0] (val.tfrecord), step 1, ' in said


@pytest.mark.parametrize(('which', 'step'), [(None, 2), ('latest', 2), ('best', 1)])
def test_which_checkpoint_of_a_run_is_exported(past_its_best, tmp_path, capsys, which, step):
    model_dir, _ = past_its_best
    flags = [] if which is None else [f'--which={which}']
    model = [f'--model_dir={model_dir}', f'--export_dir={tmp_path}']
    assert front_door('--mode=export', *model, *flags) == 0
    origin = json.loads((latest(tmp_path) / 'assets.extra' / 'origin.json').read_text())
    assert origin['global_step'] == step
    said = 'step 1 was the best in the evaluations of the run, with accuracy'
    assert (said in capsys.readouterr().err) is (which is None)


def test_predict_and_evaluate_take_the_best_checkpoint(past_its_best, data, tmp_path, capsys):
    model_dir = tmp_path / 'run'
    shutil.copytree(past_its_best[0], model_dir)
    assert front_door('--mode=evaluate', f'--model_dir={model_dir}', '--which=best') == 0
    assert json.loads((model_dir / 'metrics.json').read_text())['global_step'] == 1
    images = [f'--images={data / "val.tfrecord"}', f'--output_dir={tmp_path / "out"}']
    capsys.readouterr()
    for which, warns in (('best', False), ('latest', False), (None, True)):
        flags = [] if which is None else [f'--which={which}']
        run = ['--mode=predict', f'--model_dir={model_dir}', *images, '--output_format=csv']
        assert front_door(*run, *flags) == 0
        assert ('step 1 was the best' in capsys.readouterr().err) is warns
        shutil.rmtree(tmp_path / 'out')


def test_the_best_checkpoint_is_used_like_any_other(past_its_best, tmp_path):
    best = tmp_path / 'best'
    shutil.copytree(past_its_best[0] / 'best', best)  # nothing of the run is beside it
    assert (best / 'label_map.pbtxt').read_text() == (
        past_its_best[0] / 'label_map.pbtxt'
    ).read_text()
    assert front_door('--mode=evaluate', f'--model_dir={best}', NO_PICTURES) == 0
    assert json.loads((best / 'metrics.json').read_text())['global_step'] == 1
    export = [f'--model_dir={best}', f'--export_dir={tmp_path / "exported"}']
    assert front_door('--mode=export', *export) == 0
    names = latest(tmp_path / 'exported') / 'assets.extra' / 'label_map.pbtxt'
    assert 'green' in names.read_text()


def test_check_says_what_a_run_would_do(data, capsys):
    assert front_door('--mode=check', f'--pipeline_config_path={data / "pipeline.config"}') == 0
    said = capsys.readouterr().out
    for expected in ('24 examples', '12 examples', 'steps: 50', 'parameters:', 'memory: about'):
        assert expected in said


def test_check_lists_all_paths_that_are_missing(data, tmp_path, capsys):
    config = [f'--pipeline_config_path={data / "pipeline.config"}']
    missing = {
        'train_input_reader.label_map_path': 'train_input_reader.label_map_path: ',
        'eval_input_reader.0.label_map_path': 'eval_input_reader.0.label_map_path: ',
        'eval_input_reader.0.tf_record_input_reader.input_path.0': 'eval_input_reader[0]: ',
        'train_config.fine_tune_checkpoint': 'train_config.fine_tune_checkpoint: ',
    }
    flags = [f'--set={field}={tmp_path}/{n}' for n, field in enumerate(missing)]
    assert front_door('--mode=check', *config, *flags) == 2
    said = capsys.readouterr().err
    for number, start in enumerate(missing.values()):
        (line,) = [line for line in said.splitlines() if line.startswith(start)]
        assert f'{tmp_path}/{number}' in line


def test_check_warns_of_a_run_that_ends_within_its_schedule(data, capsys):
    rate = 'train_config.optimizer.adam_optimizer.learning_rate.cosine_decay_learning_rate'
    values = {'learning_rate_base': 0.1, 'warmup_steps': 10, 'total_steps': 50}
    flags = [f'--set={rate}.{name}={value}' for name, value in values.items()]
    flags.append(f'--pipeline_config_path={data / "lenet.config"}')
    assert front_door('--mode=check', *flags) == 0
    assert 'training ends' not in capsys.readouterr().err
    assert front_door('--mode=check', *flags, '--num_train_steps=20') == 0
    said = capsys.readouterr()
    assert 'num_steps is 20: training ends before the schedule' in said.err
    assert 'lr: 0.0002 -> 0.1 (step 10) -> ' in said.out and ' over 20 steps' in said.out


def test_a_checkpoint_with_other_classes_restores_all_but_the_logits(
    data, trained, tmp_path, capfd
):
    model_dir, _ = trained
    status = front_door(
        f'--model_dir={tmp_path}',
        f'--pipeline_config_path={data / "pipeline.config"}',
        '--mode=train',
        '--num_train_steps=1',
        '--set=model.classification.num_classes=4',
        NO_EXPORT,
        f'--set=train_config.fine_tune_checkpoint={model_dir / "model.ckpt-50"}',
    )
    said = capfd.readouterr().err
    assert status == 0, said
    assert 'MobilenetV1/Logits/Conv2d_1c_1x1/weights' in said  # named as of another shape
    assert 'another shape' in said


BAD = {
    'missing config': (['--pipeline_config_path={folder}/pipelin.config'], 'pipeline.config'),
    'unknown backbone': (['--set=model.classification.backbone.name=mobilenet_v9'], 'mobilenet_v'),
    'empty glob': (
        ['--set=train_input_reader.tf_record_input_reader.input_path=["{folder}/none-*"]'],
        'none-*',
    ),
    'undecodable image': (
        [
            '--pipeline_config_path={folder}/lenet.config',
            '--set=train_input_reader.tf_record_input_reader.input_path=["{folder}/image.tfrecord"]',
        ],
        'image.tfrecord',
    ),
    'truncated record': (
        [
            '--pipeline_config_path={folder}/lenet.config',
            '--set=train_input_reader.tf_record_input_reader.input_path=["{folder}/short.tfrecord"]',
        ],
        'short.tfrecord',
    ),
    'unknown metric for best export': (
        ['--set=export_config.best.metric=acuracy'],
        "did you mean 'accuracy'?",
    ),
    'unwritable model_dir': (['--model_dir=/proc/nowhere'], '/proc/nowhere'),
    'unknown flag': (['--modle_dir=x'], 'model_dir'),
    'unknown flag value': (['--mode=trian'], 'train_and_evaluate'),
    'flag of another type': (['--num_train_steps=many'], 'num_train_steps'),
    'flag of a legacy trainer': (['--train_dir=x'], '--train_dir=x: --model_dir=x'),
    'log that goes nowhere': (['--nologtostderr'], '--nologtostderr: the log goes to standard'),
    'checkpoint to start from': (['--checkpoint_path=x'], 'train_config.fine_tune_checkpoint=x'),
    'unknown config of the package': (
        ['--pipeline_config_path=builtin:bcd_ssd'],
        "did you mean 'bccd_ssd'?",
    ),
    'no flag at all': (['train'], "'train' is not a flag"),
    'field that is not there': (['--set=train_config.batchsize=3'], 'batch_size'),
    'image too small': (
        ['--set=model.classification.backbone.name=inception_v3'],
        'at least 75 x 75',
    ),
    'option that the network lacks': (
        [
            '--set=model.classification.backbone.name=lenet',
            '--set=model.classification.backbone.depth_multiplier=0.5',
        ],
        'lenet has no such option',
    ),
}


@pytest.fixture(scope='module')
def damaged(data):
    """Return the data folder, with malformed files in it."""
    tiny_data.write_records(data / 'labels.tfrecord', 9, labels=[1, 2, 3, 7])
    good = (data / 'val.tfrecord').read_bytes()
    (data / 'short.tfrecord').write_bytes(good[: len(good) - 10])
    with tf.io.TFRecordWriter(str(data / 'image.tfrecord')) as writer:
        for _ in range(6):
            writer.write(tiny_data.example(1, b'not an image', 'broken.png'))
    return data


@pytest.mark.parametrize('case', sorted(BAD))
def test_bad_input_gets_one_sentence_and_status_2(case, damaged, tmp_path, capsys):
    flags, expected = BAD[case]
    flags = [flag.format(folder=damaged) for flag in flags]
    before = [f'--model_dir={tmp_path / "run"}', '--mode=train']
    before.append(f'--pipeline_config_path={damaged / "pipeline.config"}')
    assert front_door(*before, *flags) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert 'Traceback' not in said


def test_the_folder_of_another_model_is_refused_and_keeps_its_config(data, trained, capsys):
    before = (trained[0] / 'pipeline.config').read_text()
    other = f'--pipeline_config_path={data / "lenet.config"}'
    run = ['--mode=train', f'--model_dir={trained[0]}', '--num_train_steps=60']
    assert front_door(*run, other) == 2
    said = capsys.readouterr().err
    assert 'belongs to another model' in said and 'Traceback' not in said
    assert (trained[0] / 'pipeline.config').read_text() == before


def test_a_corrupt_record_is_named_by_file_and_number(damaged, tmp_path, capsys):
    status = front_door(
        f'--model_dir={tmp_path}',
        '--mode=train',
        f'--pipeline_config_path={damaged / "lenet.config"}',
        '--set=train_input_reader.tf_record_input_reader.input_path='
        f'["{damaged / "labels.tfrecord"}"]',
    )
    said = capsys.readouterr().err
    assert status == 2
    assert 'labels.tfrecord' in said and 'record 3' in said and '7' in said
    assert 'Traceback' not in said


def test_a_model_dir_may_have_the_characters_of_patterns_and_double_slashes(data, tmp_path, capsys):
    neighbor = tmp_path / 'run1 of x'  # which the name of the folder matches as a pattern
    neighbor.mkdir()
    (neighbor / 'model.ckpt-0.index').write_text('theirs')
    folder = tmp_path / 'run[1]*?'
    (folder / 'data').mkdir(parents=True)
    for name in ('train.tfrecord', 'val.tfrecord', 'label_map.pbtxt'):
        (folder / 'data' / name).write_bytes((data / name).read_bytes())
    config = tiny_data.LENET_CONFIG.format(folder=f'{folder}/data')
    config = config.replace('*.tfrecord', '.tfrecord')
    (folder / 'pipeline.config').write_text(config)
    model_dir = f'--model_dir={tmp_path}//run[1]*?/model//'
    settings = [
        f'--pipeline_config_path={folder / "pipeline.config"}',
        '--set=train_config.checkpoints.save_every_n_steps=2',
        '--set=train_config.checkpoints.keep_max=1',
        '--set=export_config.final.enabled=true',
    ]
    assert front_door(model_dir, *settings, '--num_train_steps=2') == 0
    exported = f'{tmp_path}//run[1]*?/model//export/'
    assert f'exported model, the best: {exported}' in capsys.readouterr().out
    assert front_door(model_dir, *settings, '--num_train_steps=4') == 0
    kept = sorted(path.name for path in (folder / 'model').glob('model.ckpt-*.index'))
    assert kept == ['model.ckpt-4.index']
    assert (neighbor / 'model.ckpt-0.index').read_text() == 'theirs'
    assert front_door('--mode=evaluate', model_dir) == 0
    assert front_door('--run_once', f'--checkpoint_dir={folder}/model', model_dir) == 0
    assert json.loads((folder / 'model' / 'metrics.json').read_text())['global_step'] == 4
    assert front_door('--mode=export', model_dir, f'--export_dir={folder}/out') == 0
    (folder / 'image.png').write_bytes(tiny_data.png(np.zeros([40, 40, 3], np.uint8)))
    (tmp_path / 'image.png').write_bytes((folder / 'image.png').read_bytes())
    predict = ['--mode=predict', f'--images={tmp_path}/*.png', f'--output_dir={folder}/shown']
    assert front_door(*predict, f'--saved_model_dir={folder}/out') == 0
    assert (folder / 'shown' / 'predictions.json').exists()


def test_names_that_lie_beside_the_records_reach_the_predictions(data, tmp_path):
    """As programs write them that count from 0: a `labels.txt`, which nothing names."""
    folder = tmp_path / 'data'
    folder.mkdir()
    tiny_data.write_records(folder / 'train.tfrecord', 6, labels=[0, 1, 2, 0, 1, 2])
    (folder / 'labels.txt').write_text('0:rot\n1:gruen\n2:blau\n')
    config = tmp_path / 'my.config'
    text = tiny_data.LENET_CONFIG.format(folder=folder)
    text = text.replace('labels_offset: 1', 'labels_offset: 0')
    config.write_text(text.replace(f"  label_map_path: '{folder}/label_map.pbtxt'\n", ''))
    flags = [f'--model_dir={tmp_path / "run"}', '--num_train_steps=1']
    assert front_door('--mode=train', f'--pipeline_config_path={config}', *flags) == 0
    shutil.rmtree(folder)
    (tmp_path / 'a.png').write_bytes(tiny_data.png(np.zeros([40, 40, 3], np.uint8)))
    for name, model in (
        ('run', f'--model_dir={tmp_path / "run"}'),
        ('export', f'--saved_model_dir={tmp_path / "run" / "export"}'),
    ):
        out = tmp_path / name
        images = [f'--images={tmp_path}/a.png', f'--output_dir={out}_found']
        assert front_door('--mode=predict', model, *images) == 0
        (found,) = json.loads(
            (tmp_path / f'{name}_found' / 'predictions.json').read_text()
        ).values()
        names = {row['id']: row['class'] for row in found['classes']}
        assert names == {0: 'rot', 1: 'gruen', 2: 'blau'}
