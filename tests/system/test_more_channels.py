"""Images of more channels and bits through the front door and through each task's graphs."""

import io

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import fine_tuning
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS
from estimator_lib.export import serving
from model_fns import build_task, validate
from model_fns.datasets import codecs
from protos import export_pb2, pipeline_pb2
from tests import learning, more_channels, tiny_data, tiny_detection, tiny_segmentation
from tests.test_run_train_eval import front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')

tf1 = tf.compat.v1
ModeKeys = tf_estimator.ModeKeys


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Records whose colors are gray, and whose further channels tell the classes."""
    folder = tmp_path_factory.mktemp('data')
    path = tiny_data.write_all(folder)
    for records in folder.glob('*.tfrecord'):
        more_channels.widen_file(records)
    path.write_text(more_channels.widen_config(path.read_text()))
    return path


@pytest.fixture(scope='module')
def trained(data, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp('run')
    flags = [f'--model_dir={model_dir}', f'--pipeline_config_path={data}']
    flags += ['--num_train_steps=75', '--set=train_config.checkpoints.save_every_n_steps=75']
    assert front_door(*flags, '--set=eval_config.analyze=false') == 0
    return model_dir


def test_a_classifier_learns_from_further_channels(trained):
    # Colors alone leave the loss at the logarithm of 3, where it begins.
    learning.require_falling_loss(trained)


def predict(trained, images, out, capsys, *more):
    flags = [f'--images={images}', f'--output_dir={out}']
    model = f'--saved_model_dir={trained / "export" / "best"}'
    status = front_door('--mode=predict', model, *flags, *more, '--output_format=csv')
    return status, capsys.readouterr()


def write_files(folder, records):
    """Write the images of records, and a folder for each further channel."""
    for number, record in enumerate(tf1.io.tf_record_iterator(str(records))):
        parts = tf.train.Example.FromString(record).features.feature
        colors = parts['image/encoded'].bytes_list.value
        further = parts[ADDITIONAL_CHANNELS].bytes_list.value
        for name, encoded in zip(('images', 'a', 'b', 'c'), [*colors, *further]):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f'{number}.png').write_bytes(encoded)
    return folder / 'images', [f'--additional_channels={folder / name}' for name in 'abc']


def test_files_are_predicted_with_folders_of_channels(data, trained, tmp_path, capsys):
    records = data.parent / 'val.tfrecord'
    files, channels = write_files(tmp_path, records)
    found = []
    for images, more in ((records, []), (files, channels)):
        out = tmp_path / f'of_{images.name}'
        assert predict(trained, images, out, capsys, *more)[0] == 0
        lines = (out / 'predictions.csv').read_text().splitlines()[1:]
        found.append(sorted(line.partition(',')[2] for line in lines))
    assert len(found[0]) >= 12 and found[0] == found[1]


def test_unusable_folders_of_channels_get_one_sentence(data, trained, tmp_path, capsys):
    files, channels = write_files(tmp_path, data.parent / 'val.tfrecord')
    cases = [
        (channels[:2], '--additional_channels: 2 folders; the model takes 3 channels beside'),
        ([*channels[:2], '--additional_channels=none'], 'none: there is no such folder'),
    ]
    for flags, expected in cases:
        status, said = predict(trained, files, tmp_path / 'out', capsys, *flags)
        assert status == 2 and expected in said.err and 'Traceback' not in said.err
    status, said = predict(
        trained, data.parent / 'val.tfrecord', tmp_path / 'out', capsys, *channels
    )
    assert status == 2 and 'val.tfrecord has the channels of its images; expected' in said.err
    (tmp_path / 'b' / '3.png').unlink()
    small = codecs.encode_png(np.zeros([4, 4], np.uint8))
    (tmp_path / 'c' / '5.png').write_bytes(small)
    status, said = predict(trained, files, tmp_path / 'out', capsys, *channels)
    assert status == 0 and 'images predicted: 10, skipped: 2' in said.out
    assert 'b has 0 images called 3; expected one' in said.out
    assert '5.png has 4 x 4 pixels; the image has' in said.out


def test_records_are_predicted_and_files_without_channels_refused(data, trained, tmp_path, capsys):
    status, said = predict(trained, data.parent / 'val.tfrecord', tmp_path / 'out', capsys)
    assert status == 0 and 'images predicted: 12, skipped: 0' in said.out
    (tmp_path / 'a.png').write_bytes(codecs.encode_png(np.zeros([40, 40, 3], np.uint8)))
    status, said = predict(trained, tmp_path / 'a.png', tmp_path / 'out', capsys)
    assert status == 2 and 'Traceback' not in said.err
    assert 'the image has 3 channels, and the model takes 6; expected --additional_ch' in said.err


def test_exports_take_all_channels(data, trained, tmp_path, capsys):
    records = tf1.io.tf_record_iterator(str(data.parent / 'val.tfrecord'))
    record = next(records)
    results = []
    for input_type in ('image_tensor', 'tf_example'):
        flags = [f'--model_dir={trained}', f'--export_dir={tmp_path / input_type}']
        assert front_door('--mode=export', *flags, f'--input_type={input_type}') == 0
        with tf.Graph().as_default(), tf1.Session() as session:
            path = str(latest(tmp_path / input_type))
            loaded = tf1.saved_model.load(session, ['serve'], path)
            signature = loaded.signature_def['serving_default']
            sent = [record] if input_type == 'tf_example' else pixels_of(record)[np.newaxis]
            inputs = {signature.inputs['inputs'].name: sent}
            results.append(session.run(signature.outputs['probabilities'].name, inputs))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    capsys.readouterr()
    flags = [f'--model_dir={trained}', f'--export_dir={tmp_path}']
    assert front_door('--mode=export', *flags, '--input_type=encoded_image_string_tensor') == 2
    assert 'a file has three colors, and the model takes 6 channels' in capsys.readouterr().err


def pixels_of(record):
    """Return the channels of a record: uint8 [height, width, 6]."""
    feature = tf.train.Example.FromString(record).features.feature
    encoded = [*feature['image/encoded'].bytes_list.value]
    encoded += feature[ADDITIONAL_CHANNELS].bytes_list.value
    arrays = [np.array(Image.open(io.BytesIO(each))) for each in encoded]
    return np.dstack(arrays)


def test_fine_tuning_from_three_channels_begins_with_their_network(tmp_path):
    """With any values in further channels, the network computes what it did without them."""
    tiny_data.write_label_map(tmp_path / 'label_map.pbtxt')
    text = tiny_data.CONFIG.format(folder=tmp_path)
    images = np.random.RandomState(0).uniform(-1, 1, [2, 32, 32, 5]).astype(np.float32)
    results = []
    for fields, count in (('', 3), ('num_additional_channels: 2', 5)):
        config = pipeline_pb2.TrainEvalPipelineConfig()
        text_format.Parse(more_channels.widen_config(text, fields), config)
        task = build_task(config)
        with tf.Graph().as_default(), tf1.Session() as session:
            batch = {'image': tf.constant(images[..., :count])}
            logits = task.predict(batch, ModeKeys.EVAL)['logits']
            variables = tf1.global_variables()
            config.train_config.fine_tune_checkpoint = str(tmp_path / 'three')
            start = {}
            if fields:
                known = task.checkpoints.restore_map(variables, '')
                start = fine_tuning.fine_tune_start(
                    config.train_config, known, channels=task.image_format.channels
                )
            session.run(tf1.global_variables_initializer(), start.get('init_feed_dict'))
            if fields:
                start['init_fn'](None, session)
            else:
                tf1.train.Saver().save(session, str(tmp_path / 'three'))
            results.append(session.run(logits))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


# The other tasks, without training.

MODELS = {'detection': tiny_detection, 'segmentation': tiny_segmentation}


@pytest.mark.parametrize('bits', [8, 12])
@pytest.mark.parametrize('kind', sorted(MODELS))
def test_networks_of_other_tasks_take_all_channels(kind, bits, tmp_path):
    path = MODELS[kind].write_all(tmp_path)
    fields = f'num_additional_channels: 3 image_bits: {bits}'
    path.write_text(more_channels.widen_config(path.read_text(), fields))
    config = text_format.Parse(path.read_text(), pipeline_pb2.TrainEvalPipelineConfig())
    task = build_task(config)
    records = tf1.io.tf_record_iterator(str(tmp_path / 'val.tfrecord'))
    plain = next(records)
    encode = None if bits == 8 else lambda part: more_channels.deep_png(part.astype(int) << 4)
    record = more_channels.widened(plain, *[encode][: bits > 8])
    assert task.checks.check_example(record) is None
    assert ADDITIONAL_CHANNELS in task.checks.check_example(plain)
    with tf.Graph().as_default(), tf1.Session() as session:
        example = task.decode(tf.constant(record))
        augmented = task.augment(example, tf.constant([1, 2], tf.int64))
        features, _ = task.prepare(augmented, ModeKeys.TRAIN)
        trained_on = features['image']
        features, _ = task.prepare(example, ModeKeys.EVAL)
        batch = {name: value[tf.newaxis] for name, value in features.items()}
        predictions = task.predict(batch, ModeKeys.EVAL)
        outputs = task.postprocess(predictions, batch)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        decoded, image, _ = session.run([example['image'], trained_on, outputs])
        kernels = [one for one in tf1.global_variables() if one.shape.rank == 4]
        assert kernels[0].shape[2] == 6
    assert image.shape[2] == 6
    expected = pixels_of(more_channels.widened(plain)).astype(float)
    expected[..., 3:] *= 1 if bits == 8 else 16 * 255 / 4095
    np.testing.assert_allclose(decoded, expected, rtol=1e-6)
    picture = (
        task.presentation.draw({'image': decoded}, {}, None) if kind == 'segmentation' else None
    )
    assert picture is None or picture.shape[2] == 3
    with tf.Graph().as_default():
        receiver = serving.serving_input_receiver_fn(task, export_pb2.IMAGE_TENSOR)()
        received = receiver.receiver_tensors['inputs']
        assert received.shape.as_list() == [None, None, None, 6]
        assert received.dtype == (tf.uint8 if bits == 8 else tf.float32)
        assert receiver.features['image'].shape[-1] == 6


BAD = {
    'too many': (
        'num_additional_channels: 65',
        'num_additional_channels: 65; expected at least 0 and at',
    ),
    'bits': ('image_bits: 17', 'image_bits: 17; expected at least 8 and at most 16'),
    'means': ('channel_means: [1, 2]', 'channel_means: 2 values for 3 channels'),
    'deviations': (
        'channel_means: [1, 2, 3] channel_deviations: 1',
        'channel_deviations: 1 values for 3 channels',
    ),
    'sequences': (
        'num_additional_channels: 1 input_type: TF_SEQUENCE_EXAMPLE',
        'TF_SEQUENCE_EXAMPLE, which has no further channels; expected TF_EXAMPLE',
    ),
}


@pytest.mark.parametrize('case', sorted(BAD))
def test_bad_fields_get_one_sentence(case, tmp_path):
    fields, expected = BAD[case]
    text = tiny_detection.config_text(tmp_path)
    text = more_channels.widen_config(text, fields)
    assert expected in problems(text)


def test_readers_have_the_same_channels(tmp_path):
    text = tiny_detection.config_text(tmp_path)
    two = text.replace('tf_record', 'num_additional_channels: 1 tf_record', 1)
    two = two.replace('shuffle: false', 'shuffle: false num_additional_channels: 2')
    assert 'num_additional_channels: 2; train_input_reader.num_add' in problems(two)
    means = text.replace('tf_record', 'channel_means: [1, 2, 3] tf_record', 1)
    other = means.replace('shuffle: false', 'shuffle: false channel_means: [1, 2, 4]')
    assert 'other values than those of the first reader' in problems(other)


FILES = {
    'no folders': (
        'num_additional_channels: 2',
        '',
        'voc_input_reader.options.additional_channel_path: 0 folders; expected 2: 2 (num_addi',
    ),
    'too many folders': (
        'num_additional_channels: 1',
        'additional_channel_path: ["x", "y"]',
        'additional_channel_path: 2 folders; expected 1',
    ),
    'bits twice': ('image_bits: 12', 'bits: 12', 'options.bits: it makes images of 8 bits and'),
    'bits of the first reader': (
        'image_bits: 12',
        '',
        'eval_input_reader.0.image_bits: not set; a reader of files needs that of the first '
        'reader, 12',
    ),
}


@pytest.mark.parametrize('case', sorted(FILES))
def test_bad_channels_of_files_get_one_sentence(case, tmp_path):
    fields, options, expected = FILES[case]
    text = tiny_detection.config_text(tmp_path)
    options = f'options {{ {options} }}'
    files = f'voc_input_reader {{ annotation_path: "a" {options} image_path'
    count = 1 if case == 'bits of the first reader' else -1
    text = text.replace('tf_record_input_reader', f'{fields} tf_record_input_reader', count)
    assert expected in problems(text.replace('tf_record_input_reader { input_path', files))


def problems(text):
    config = text_format.Parse(text, pipeline_pb2.TrainEvalPipelineConfig())
    with pytest.raises(errors.ConfigError) as caught:
        validate(config)
    return str(caught.value)
