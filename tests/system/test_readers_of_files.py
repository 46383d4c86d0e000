"""Runs of the front door on folders of images: check, train, kill, resume."""

import signal

import pytest
from PIL import Image

from tests import tiny_data
from tests.system.test_resume import run_until, same_variables
from tests.test_run_train_eval import front_door

pytestmark = pytest.mark.usefixtures('forked_processes')

RECORDS = """
  label_map_path: '{folder}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{folder}/train*.tfrecord' }}
"""
FILES = """
  label_map_path: '{folder}/classes.pbtxt'
  folder_input_reader {{
    image_path: '{folder}/images'
    options {{ split: 'train:0.75,val:0.25' part: 'PART' }}
  }}
"""


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('folders')
    for index, (label, image) in enumerate(tiny_data.colored_images(24)):
        path = folder / 'images' / tiny_data.COLORS[label - 1] / f'{index}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    config = tiny_data.LENET_CONFIG.replace(RECORDS, FILES.replace('PART', 'train'))
    evaluated = "  tf_record_input_reader {{ input_path: '{folder}/val.tfrecord' }}\n"
    assert evaluated in config and 'PART' not in config
    config = config.replace(evaluated, FILES.replace('PART', 'val'))
    (folder / 'pipeline.config').write_text(config.format(folder=folder))
    return folder


def test_check_counts_both_parts_and_writes_the_label_map(data, capsys):
    (data / 'classes.pbtxt').unlink(missing_ok=True)
    assert front_door('--mode=check', f'--pipeline_config_path={data / "pipeline.config"}') == 0
    said = capsys.readouterr().out
    assert 'train_input_reader: 18 examples in 1 file, 18 looked at' in said
    assert 'eval_input_reader[0]: 6 examples in 1 file, 6 looked at' in said
    assert (data / 'classes.pbtxt').exists()


def test_a_killed_run_resumes_exactly(data, tmp_path):
    lines, status = run_until(data, tmp_path / 'whole', 99, signal.SIGTERM)
    assert status == 0, ''.join(lines)
    lines, status = run_until(data, tmp_path / 'killed', 10, signal.SIGKILL)
    assert status == -signal.SIGKILL, ''.join(lines)
    lines, status = run_until(data, tmp_path / 'killed', 99, signal.SIGTERM)
    assert status == 0, ''.join(lines)
    assert same_variables(tmp_path / 'whole', tmp_path / 'killed')


def test_a_corrupt_image_is_named(data, tmp_path, capsys):
    path = next((data / 'images' / 'red').iterdir())
    content = path.read_bytes()
    path.write_bytes(content[:60])
    try:
        status = front_door(
            f'--model_dir={tmp_path}',
            '--mode=train',
            f'--pipeline_config_path={data / "pipeline.config"}',
            '--set=train_input_reader.folder_input_reader.options.split=train:0.99,val:0.01',
        )
    finally:
        path.write_bytes(content)
    said = capsys.readouterr().err
    assert status == 2 and f'{path}: ' in said and 'Traceback' not in said
