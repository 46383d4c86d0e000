"""Part of a run on one TensorFlow, whose other part another TensorFlow does.

    python -m tests.moved_between FOLDER

It continues the run `first` of the folder and predicts with its exports, then begins and exports
the run `second`. `tests.system.test_two_tensorflows` does the same on its TensorFlow with exchanged
names.
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import tensorflow as tf
from PIL import Image

import run_train_eval
from tests import tiny_data

tf1 = tf.compat.v1

FIRST_STEPS = 4
MOST_STEPS = 12
FORMATS = ('saved_model', 'frozen_graph', 'tflite')
# An evaluation of each checkpoint: only the first is better than those before it.
_SETTINGS = (
    'train_config.checkpoints.save_every_n_steps=2',
    'train_config.progress.every_n_steps=1',
    'train_config.progress.summary_every_n_steps=1',
    'train_config.random_seed=7',
    'train_config.early_stopping.metric="accuracy"',
    'train_config.early_stopping.patience_evaluations=3',
    'train_config.early_stopping.min_delta=2',
    'train_input_reader.cache=FILE',
    'eval_config.num_visualizations=0',
    'export_config.final.enabled=false',
)


def write_data(folder: pathlib.Path) -> None:
    """Write the records, the config and an image of a folder's runs."""
    tiny_data.write_all(folder)
    config = tiny_data.LENET_CONFIG.rpartition('export_config')[0].replace('0.005', '0.0005')
    (folder / 'pipeline.config').write_text(config.format(folder=folder))
    Image.fromarray(next(tiny_data.colored_images(1))[1]).save(folder / 'image.png')


def train(folder: pathlib.Path, name: str, steps: int) -> None:
    """Begin or continue a run; the run `second` trains by functions."""
    loop = 'TF_FUNCTION' if name == 'second' else 'ESTIMATOR'
    _run(
        f'--model_dir={folder / name}',
        f'--pipeline_config_path={folder / "pipeline.config"}',
        f'--num_train_steps={steps}',
        *(f'--set={setting}' for setting in (*_SETTINGS, f'train_config.loop={loop}')),
    )


def begin(folder: pathlib.Path, name: str) -> None:
    """Train the first steps of a run, export them, and predict with the exports."""
    train(folder, name, FIRST_STEPS)
    for kind in FORMATS:
        exports = folder / f'{name}_{kind}'
        flags = [f'--model_dir={folder / name}', f'--export_dir={exports}', f'--format={kind}']
        _run('--mode=export', *flags)
    _predict(folder, name, 'expected')


def complete(folder: pathlib.Path, name: str) -> None:
    """Continue a run to its end, and predict with the exports of its first steps."""
    _predict(folder, name, 'found')
    train(folder, name, MOST_STEPS)


def _predict(folder: pathlib.Path, name: str, result: str) -> None:
    """Write the probabilities of the image by the exports of a run to `NAME_RESULT.json`."""
    found = {}
    for kind in FORMATS:
        (export,) = (folder / f'{name}_{kind}').iterdir()
        if kind == 'frozen_graph':
            found[kind] = _predict_frozen(export / 'frozen_inference_graph.pb', folder)
            continue
        model = export / 'model.tflite' if kind == 'tflite' else export
        out = folder / f'{name}_{kind}_{result}'
        flags = [f'--images={folder / "image.png"}', f'--output_dir={out}', '--raw']
        _run('--mode=predict', f'--saved_model_dir={model}', *flags)
        (prediction,) = json.loads((out / 'predictions.json').read_text()).values()
        found[kind] = prediction['raw']['probabilities']
    (folder / f'{name}_{result}.json').write_text(json.dumps(found))


def _predict_frozen(path: pathlib.Path, folder: pathlib.Path) -> list:
    image = np.asarray(Image.open(folder / 'image.png'))[np.newaxis]
    with tf.Graph().as_default(), tf1.Session() as session:
        graph = tf1.GraphDef.FromString(path.read_bytes())
        tf.import_graph_def(graph, name='')
        return session.run('probabilities:0', {'image_tensor:0': image})[0].tolist()


def _run(*flags: str) -> None:
    run_train_eval.main(['run_train_eval.py', *flags])


if __name__ == '__main__':
    FOLDER = pathlib.Path(sys.argv[1])
    complete(FOLDER, 'first')
    begin(FOLDER, 'second')
