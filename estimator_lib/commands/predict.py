"""`--mode=predict`: an exported model run over image files."""

from __future__ import annotations

import json
import logging
import os
from typing import Any, Callable, Dict, List, Mapping

import numpy as np
import tensorflow as tf
import tqdm

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.data import image_decoding
from estimator_lib.drawing import visualization
from estimator_lib.export import exported_model
from estimator_lib.task import IMAGE, Task
from protos import pipeline_pb2

tf1 = tf.compat.v1
log = logging.getLogger('estimator_lib')

PREDICTIONS_FILE = 'predictions.json'


def predict_images(
    saved_model_dir: str,
    images: str,
    output_dir: str,
    build_task: Callable[[pipeline_pb2.TrainEvalPipelineConfig], Task],
) -> Dict[str, Dict[str, Any]]:
    """Runs an exported model on image files; writes `predictions.json` and a picture of each.

    Tasks may put other things than the model's outputs there, and files beside: see
    `Task.describe`.

    Args:
        saved_model_dir: what an export wrote; or the folder of several exports: the latest.
        images: a glob of JPEG, PNG, GIF or BMP files.
        output_dir: made when it is not there.
        build_task: makes the task, which draws, from the config that the export holds.

    Returns:
        What `predictions.json` holds: values, as lists, by file name.

    Raises:
        errors.DataError: no file matches, or a file is not an image.
    """
    paths = sorted(tf.io.gfile.glob(images))
    if not paths:
        raise errors.DataError(f'--images: no file matches {images!r}.')
    predictor = exported_model.Predictor(saved_model_dir)
    task = _task_of(predictor, build_task)
    tf.io.gfile.makedirs(output_dir)
    predictions: Dict[str, Dict[str, Any]] = {}
    decode = _Decoder()
    for path in tqdm.tqdm(paths, unit='image', disable=None):
        image = decode(path)
        outputs = {name: value[0] for name, value in predictor.predict(image[np.newaxis]).items()}
        if task is None:
            predictions[path] = _all_listed(outputs)
            continue
        values, files = task.describe({IMAGE: image}, outputs)
        predictions[path] = _all_listed(values)
        stem = os.path.join(output_dir, os.path.splitext(os.path.basename(path))[0])
        picture = task.draw({IMAGE: image}, outputs)
        if picture is not None:
            visualization.write_png(f'{stem}.png', picture)
        for suffix, content in files.items():
            with tf.io.gfile.GFile(stem + suffix, 'wb') as file:
                file.write(content)
    target = os.path.join(output_dir, PREDICTIONS_FILE)
    with tf.io.gfile.GFile(target, 'w') as file:
        file.write(json.dumps(predictions, indent=1) + '\n')
    log.info('%d predictions in %s', len(predictions), target)
    return predictions


class _Decoder:
    """Reads image files as uint8 [height, width, 3]."""

    def __init__(self) -> None:
        with tf.Graph().as_default():
            self._encoded = tf1.placeholder(tf.string, [])
            self._image = image_decoding.decode_image(self._encoded)
            self._session = tf1.Session()

    def __call__(self, path: str) -> np.ndarray:
        with tf.io.gfile.GFile(path, 'rb') as file:
            encoded = file.read()
        try:
            return self._session.run(self._image, {self._encoded: encoded})
        except tf.errors.InvalidArgumentError:
            problem = image_decoding.decoding_problem(encoded)
            raise errors.DataError(f'--images: {path} {problem}.') from None


def _task_of(
    predictor: exported_model.Predictor,
    build_task: Callable[[pipeline_pb2.TrainEvalPipelineConfig], Task],
) -> Any:
    """The task that the model was exported from; None for a model of another program."""
    if predictor.config_path is None:
        log.warning('%s holds no pipeline.config: no pictures are drawn', predictor.path)
        return None
    return build_task(config_lib.load_pipeline_config(predictor.config_path))


def _all_listed(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: _listed(value) for name, value in values.items()}


def _listed(value: Any) -> Any:
    """A NumPy value as JSON has it."""
    array = np.asarray(value)
    if array.dtype.kind == 'S' or array.dtype == object:
        return [_text(one) for one in array.ravel()] if array.ndim else _text(array.item())
    listed: List[Any] = array.tolist()
    return listed


def _text(value: Any) -> str:
    return value.decode('utf-8', 'replace') if isinstance(value, bytes) else str(value)
