"""A run of both sides on a tiny detector, whose reference is a stand-in of our own."""

import pytest
import tensorflow as tf

from estimator_lib import config as config_lib
from model_fns import build_task
from tests import tiny_detection
from tests.vision_extras.compare.reference import stand_in
from vision_extras.compare.reference import bridge, migration

tf1 = tf.compat.v1


@pytest.fixture(scope='package')
def compared(tmp_path_factory):
    """Return output folder and lines of a comparison of two steps.

    The folder `reference` is that of an earlier comparison, whose config is used again.
    """
    folder = tmp_path_factory.mktemp('compared')
    text = tiny_detection.write_all(folder).read_text()
    text = text.replace('batch_size: 8', 'batch_size: 2')
    text = text.replace('eval_config { ', 'eval_config { num_examples: 3 ')
    path = folder / 'out' / 'reference' / 'pipeline.config'
    path.parent.mkdir(parents=True)
    (path.parent / 'notes.txt').write_text('mine')
    path.write_text(text)
    config = config_lib.load_pipeline_config(str(path))
    migration.prepare(config)
    with pytest.MonkeyPatch.context() as patch:
        stand_in.install(patch)
        patch.setattr(bridge, 'import_tensorflow', lambda: tf1)
        patch.setattr(migration, '_run', run_here)
        patch.setattr('vision_extras.compare.reference.folders.remove_batches', lambda folder: None)
        task = build_task(config, 'train_and_evaluate')
        out = str(folder / 'out')
        lines = migration.compare(task, config, str(path), 'python', out, 2)
    return folder / 'out', lines


def run_here(words, arguments):
    """Run the bridge in this process."""
    assert words == ['python']
    if arguments[0] != '-c':
        script, folder = arguments
        assert script.endswith('bridge.py')
        assert bridge.main(folder) == 0
