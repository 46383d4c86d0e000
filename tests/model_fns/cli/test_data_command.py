"""`--data`: the config of a data set, with the reasons of its fields."""

import json
import zipfile

import pytest
import tensorflow as tf
from PIL import Image

import model_fns
from estimator_lib import config as config_lib
from estimator_lib import environment, errors
from estimator_lib.commands import check, step_times
from model_fns.cli import data_command, flag_definitions, front_door
from model_fns.cli.run_options import RunOptions
from model_fns.datasets import readers
from model_fns.recipes import facts
from tests.model_fns.datasets.recognition import public_layouts as public

pytestmark = pytest.mark.usefixtures('shallow_networks')

POLYGON = '0 0.1 0.1 0.9 0.2 0.5 0.9'
POSE = '0 0.5 0.5 0.2 0.4 0.4 0.4 2 0.6 0.6 2'
POSE_FILE = 'kpt_shape: [2, 3]\nflip_idx: [1, 0]\n'

# How the data is written, options, and what the text of the config has.
CASES = {
    'boxes': (
        lambda root: public.write_yolo(root),
        {'minutes': 2.0},
        [
            'num_classes: 2',
            'fixed_shape_resizer { height: 224 width: 320 }',  # 3:2, as the images
            'random_horizontal_flip { }',
            'min_aspect_ratio: 0.75',
            'max_aspect_ratio: 1.33',
            'learning_rate_base: 0.005',
            '# 2 minutes of training at 0.1 s a step, measured on this machine',
            'num_steps: 1200',
            'metric: "DetectionBoxes_Precision/mAP@.50IOU"',
        ],
    ),
    'sided boxes': (
        lambda root: public.write_yolo(root, more='', line='1 0.5 0.5 0.2 0.4'),
        {'epochs': 10.0, 'size': 64},
        [
            'fixed_shape_resizer { height: 64 width: 64 }',
            '# 10 epochs of 2 images.\n  num_steps: 5',
        ],
    ),
    'thin boxes': (
        lambda root: public.write_yolo(root, line='0 0.5 0.5 0.04 0.9'),
        {'size': 640},
        ['# Fitted to the boxes by k-means: 0.0% meet none, 100.0% before'],
    ),
    'small boxes': (
        lambda root: public.write_yolo(root, line='0 0.5 0.5 0.08 0.08'),
        {'size': 256},
        ['atss_matcher { }', 'aspect_ratios: [1.0] scales_per_octave: 1', 'quality_focal { }'],
    ),
    'rotated': (
        lambda root: public.write_yolo(root, POLYGON),
        {'task': 'rotated', 'size': 96},
        [
            'box_type: ROTATED',
            'rotated_boxes: true',
            'RotatedBoxes_Precision/mAP@0.5IOU',
            'of the boxes meet no anchor by an overlap of 0.5',
        ],
    ),
    'thin rotated boxes': (
        lambda root: public.write_yolo(root, '0 0.45 0.2 0.5 0.8 0.55 0.2'),
        {'task': 'rotated', 'size': 96},
        ['# Fitted to the boxes by k-means: 0.0% meet none, 100.0% before', 'angles: [0.0'],
    ),
    'instances': (
        lambda root: public.write_yolo(root, POLYGON),
        {'task': 'instances'},
        ['load_instance_masks: true mask_type: PNG_MASKS', 'DetectionMasks_Precision/mAP@.50IOU'],
    ),
    'keypoints': (
        lambda root: public.write_yolo(root, POSE, POSE_FILE),
        {},
        [
            'num_keypoints: 2',
            'keypoint_flip_permutation: [1, 0]',
            'keypoint_label_to_sigmas { key: "0" value: 0.05 }',
            'distances of sigma, 0.05 of the size of their object',
        ],
    ),
    'segmentation': (
        public.write_masks,
        {},
        ['num_classes: 2', 'mask_values: "0:background,255:object"', 'miou_1.0_overall'],
    ),
    'drawn segmentation': (
        lambda root: public.write_yolo(root, POLYGON),
        {'task': 'segmentation'},
        ['class_masks: true', 'num_classes: 3'],
    ),
    'classification': (
        public.write_class_folders,
        {},
        ['image_height: 64', 'mirror_images: true', 'batch_size: 8', 'metric: "accuracy"'],
    ),
    'labels': (public.write_labels_csv, {}, ['multi_label: true', 'metric: "mAP"']),
}


@pytest.fixture(autouse=True)
def timed(monkeypatch):
    monkeypatch.setattr(step_times, 'measure', lambda task, config: 0.1)
    monkeypatch.setattr(check, '_model_lines', lambda *_: [])  # they build the whole model


def options_of(tmp_path, **more):
    return RunOptions(
        mode='create_config', data=str(tmp_path / 'set'), model_dir=str(tmp_path / 'run'), **more
    )


@pytest.mark.parametrize('case', CASES)
def test_a_config_is_valid_short_and_has_its_reasons(case, tmp_path):
    write, more, expected = CASES[case]
    (tmp_path / 'set').mkdir()
    write(tmp_path / 'set')
    front_door.run(options_of(tmp_path, **more))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    config = config_lib.load_pipeline_config(str(tmp_path / 'run' / 'pipeline.config'))
    model_fns.validate(config)
    assert len(text.splitlines()) <= 120
    assert all(len(line) <= 100 or '/' in line for line in text.splitlines())
    for part in expected:
        assert part in text, part
    assert 'random_vertical_flip' not in text and 'rotation90' not in text
    assert text.startswith('# Written by run-train-eval') and f'--data={tmp_path}/set' in text
    assert '\n# Task: ' in text and text.count('#') > 8
    assert 'Training starts from scratch.' in ' '.join(text.replace('#', ' ').split())


def test_settings_count_before_steps_are_timed_and_after_all_decisions(tmp_path, monkeypatch):
    public.write_yolo(tmp_path / 'set')
    timed = []
    monkeypatch.setattr(
        step_times,
        'measure',
        lambda task, config: timed.append(config.train_config.batch_size) or 1,
    )
    settings = (
        'train_config.batch_size = 2',
        'train_config.num_steps=7',
        'train_config.optimizer={ momentum_optimizer { learning_rate { '
        'constant_learning_rate { learning_rate: 0.1 } } } }',
    )
    front_door.run(options_of(tmp_path, set=settings))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert timed == [2]
    assert '# As --set asks for.\n  batch_size: 2' in text
    assert '# As --set asks for.\n  num_steps: 7' in text
    assert "--set='train_config.batch_size = 2'" in ' '.join(text.replace('#', ' ').split())
    assert 'learns less in minutes' not in text  # of a rate that is not there any more
    with pytest.raises(errors.UserError, match='is there already; change it, or use another'):
        front_door.run(options_of(tmp_path, set=('train_config.num_steps=8',)))


def test_large_images_with_small_objects_are_cut_into_tiles(tmp_path):
    """Of each image of 1600 x 900 one object of 0.02 of the sides."""
    public.write_yolo(tmp_path / 'set', line='0 0.5 0.5 0.02 0.02')
    for path in (tmp_path / 'set').rglob('*.png'):
        Image.new('RGB', (1600, 900)).save(path)
    front_door.run(options_of(tmp_path, epochs=4))
    path = tmp_path / 'run' / 'pipeline.config'
    config = config_lib.load_pipeline_config(str(path))
    model_fns.validate(config)
    reader, tiles = config.train_input_reader, config.eval_config.tiles
    # Objects of 24 pixels: they have 24 of 256 in tiles of 256, which share 64.
    assert (reader.tiles.size, reader.tiles.overlap, reader.tiles.drop_empty) == (256, 64, True)
    assert (tiles.size, tiles.overlap) == (256, 64)
    assert reader.cache == reader.RECORDS  # MEMORY would cut each image at every step
    assert 'Images have about 1600 x 900 pixels' in path.read_text()
    # Training counts the tiles with objects: 4 epochs in batches of 4.
    count = len(facts.collect(reader, config.eval_input_reader[0]).train)
    assert config.train_config.num_steps == count == len(readers.open_files(reader, 0))
    # The config alone says what is evaluated and trained on.
    front_door.run(RunOptions(mode='check', pipeline_config_path=str(path)))


def test_tiles_that_may_not_fit_into_memory_are_cut_again(tmp_path, monkeypatch):
    # Training has two images, of 4.3 MB each; a quarter of the memory lacks a byte for them.
    monkeypatch.setattr(environment, 'memory_bytes', lambda: 4 * 2 * 3 * 1600 * 900 - 1)
    public.write_yolo(tmp_path / 'set', line='0 0.5 0.5 0.02 0.02')
    for path in (tmp_path / 'set').rglob('*.png'):
        Image.new('RGB', (1600, 900)).save(path)
    front_door.run(options_of(tmp_path, epochs=4))
    config = config_lib.load_pipeline_config(str(tmp_path / 'run' / 'pipeline.config'))
    reader = config.train_input_reader
    assert reader.tiles.size == 256 and reader.cache == reader.MEMORY


def test_without_tiles_training_counts_images(tmp_path):
    public.write_yolo(tmp_path / 'set', line='0 0.5 0.5 0.02 0.02')
    for path in (tmp_path / 'set').rglob('*.png'):
        Image.new('RGB', (1600, 900)).save(path)
    settings = 'train_input_reader.tiles={}', 'eval_config.tiles={}'
    front_door.run(options_of(tmp_path, epochs=4, set=settings))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert '# 4 epochs of 2 images.\n  num_steps: 2' in text


def test_names_with_sides_are_not_mirrored(tmp_path):
    public.write_yolo(tmp_path / 'set')
    data_file = tmp_path / 'set' / 'data.yaml'
    data_file.write_text(data_file.read_text().replace('[cat, dog]', '[left_cat, dog]'))
    front_door.run(options_of(tmp_path))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert 'flip' not in text and "No mirrored images: 'left_cat' may become" in text


def test_the_same_call_continues_and_another_one_is_refused(tmp_path, monkeypatch):
    public.write_yolo(tmp_path / 'set')
    front_door.run(options_of(tmp_path, minutes=1.0))
    path = tmp_path / 'run' / 'pipeline.config'
    changed = path.read_text().replace('batch_size: 4', 'batch_size: 2', 1)
    path.write_text(changed)
    monkeypatch.setattr(step_times, 'measure', None)  # nothing is decided again
    front_door.run(options_of(tmp_path, minutes=1.0))
    assert path.read_text() == changed
    with pytest.raises(errors.UserError, match='a run that began with --minutes=1.0; expected the'):
        front_door.run(options_of(tmp_path, minutes=2.0))
    (tmp_path / 'run' / 'data' / 'command.json').unlink()
    with pytest.raises(errors.UserError, match='a run that began with a config'):
        front_door.run(options_of(tmp_path, minutes=1.0))


def test_a_call_that_was_interrupted_reads_the_classes_again(tmp_path):
    public.write_yolo(tmp_path / 'set')
    (tmp_path / 'run' / 'data').mkdir(parents=True)
    (tmp_path / 'run' / 'data' / 'label_map.pbtxt').write_text("item { id: 1 name: 'horse' }")
    front_door.run(options_of(tmp_path))
    assert 'cat' in (tmp_path / 'run' / 'data' / 'label_map.pbtxt').read_text()


def test_an_archive_is_extracted_below_the_run(tmp_path):
    public.write_class_folders(tmp_path / 'photos')
    with zipfile.ZipFile(tmp_path / 'photos.zip', 'w') as archive:
        for file in (tmp_path / 'photos').rglob('*.png'):
            archive.write(file, file.relative_to(tmp_path))
    options = options_of(tmp_path)
    options = RunOptions(**{**vars(options), 'data': str(tmp_path / 'photos.zip')})
    front_door.run(options)
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert f'"{tmp_path}/run/data/files-photos/photos/train"' in text
    command = json.loads((tmp_path / 'run' / 'data' / 'command.json').read_text())
    assert command == {'data': str(tmp_path / 'photos.zip')}


@pytest.mark.parametrize(
    ('more', 'message'),
    [
        ({'data': None}, '--mode=create_config needs --data'),
        ({'data': None, 'mode': 'train_and_evaluate', 'size': 64}, '--size needs --data'),
        ({'model_dir': None}, 'needs --model_dir'),
        ({'minutes': 1.0, 'epochs': 1.0}, '--minutes=1 and --epochs=1: expected one of them.'),
        ({'pipeline_config_path': 'x'}, 'leave out --pipeline_config_path'),
        (
            {'config_override': ('a',)},
            '--config_override=a: expected --set with --mode=create_config.',
        ),
        ({'task': 'keypoints'}, '--task=keypoints: the data .* is for detection'),
    ],
)
def test_options_that_do_not_fit_are_refused(more, message, tmp_path):
    public.write_yolo(tmp_path / 'set')
    options = RunOptions(**{**vars(options_of(tmp_path)), **more})
    with pytest.raises(errors.UserError, match=message):
        front_door.run(options)


def test_each_task_of_the_flag_has_its_decisions():
    assert set(data_command._RECIPES) == set(flag_definitions.choices('task'))


def test_check_writes_a_config_that_fits_the_data(tmp_path, capsys):
    """A user's input of 2:1 for images of 3:2, whose objects have 4 pixels there."""
    public.write_yolo(tmp_path / 'set', line='0 0.5 0.5 0.05 0.05')
    front_door.run(options_of(tmp_path))
    config = str(tmp_path / 'run' / 'pipeline.config')
    path = str(tmp_path / 'better.config')
    setting = 'model.ssd.image_resizer={ fixed_shape_resizer { height: 64 width: 128 } }'
    options = RunOptions(
        mode='check', pipeline_config_path=config, set=(setting,), write_config=path
    )
    front_door.run(options)
    said = capsys.readouterr().out
    assert "warning: all 2 images are about 1.50:1, and the network's input is 2.00:1" in said
    assert 'warning: 100% of the boxes have less than 10 pixels at the input' in said
    better = config_lib.load_pipeline_config(path)
    model_fns.validate(better)
    # 8 pixels of 0.05 need a side of 160: 131 x 196 in multiples of 32.
    fixed = better.model.ssd.image_resizer.fixed_shape_resizer
    assert (fixed.height, fixed.width) == (128, 192)
    with pytest.raises(errors.UserError, match='there is a file'):
        front_door.run(options)


@pytest.mark.parametrize(
    ('scope', 'is_detector'), [('FeatureExtractor/', True), ('Mobilenet/', False)]
)
def test_initial_weights_tell_what_they_are_of(scope, is_detector, tmp_path):
    prefix = str(tmp_path / 'start.ckpt')
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable(f'{scope}weights', [2])
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, prefix)
    public.write_yolo(tmp_path / 'set')
    front_door.run(options_of(tmp_path, weights=prefix, size=64, epochs=1.0))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert f'# As --weights asks for.\n  fine_tune_checkpoint: "{prefix}"' in text
    assert ('fine_tune_checkpoint_type: "detection"' in text) == is_detector


def test_weights_that_are_missing_are_named_before_anything_is_written(tmp_path):
    public.write_yolo(tmp_path / 'set')
    with pytest.raises(errors.UserError, match='--weights: there is no checkpoint'):
        front_door.run(options_of(tmp_path, weights='missing.ckpt'))
    assert not (tmp_path / 'run' / 'pipeline.config').exists()


def test_more_time_makes_a_larger_input(tmp_path, monkeypatch):
    """Objects of 0.1 x 0.1 have 32 pixels at a side of 320; the pace would allow for 512."""
    times = iter([0.01, 0.05])
    monkeypatch.setattr(public, 'HEIGHT', 200)
    monkeypatch.setattr(public, 'WIDTH', 300)
    monkeypatch.setattr(step_times, 'measure', lambda task, config: next(times))
    public.write_yolo(tmp_path / 'set', line='0 0.5 0.5 0.1 0.1')
    front_door.run(options_of(tmp_path, minutes=1.0))
    text = (tmp_path / 'run' / 'pipeline.config').read_text()
    assert 'fixed_shape_resizer { height: 256 width: 384 }' in text
    assert '1 minutes of training at 0.05 s a step' in text and 'num_steps: 1200' in text
