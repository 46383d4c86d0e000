"""Predictors of SavedModels, from this package or published ones with a similar signature."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors, tf_estimator
from estimator_lib.checkpoints import (
    checkpoint_files,
    class_match,
    evaluated,
    plain_paths,
    savers,
)
from estimator_lib.export import artifacts, export_folders, inference_graph, serving
from estimator_lib.export.inference_graph import InferenceGraph
from estimator_lib.export.writers import GraphHook, Source
from estimator_lib.task import Task
from protos import export_pb2, pipeline_pb2

tf1 = tf.compat.v1


class Predictor:
    """Loaded SavedModel.

    Args:
        saved_model_dir: a SavedModel, or a folder of exports, whose latest one is used.
        signature_name: the name of the signature.

    Attributes:
        path: the path of the SavedModel.
        max_batch_size: the largest batch of images; None: any number.
        output_shapes: shapes of the outputs by name, without the batch; None for an unknown one.
        output_types: types of the outputs by name.

    Raises:
        errors.UserError: there is no SavedModel, it has changed since its export, or it has no
            signature that takes images.
    """

    def __init__(self, saved_model_dir: str, signature_name: str = serving.DEFAULT_SIGNATURE):
        self.path = _find(saved_model_dir)
        file = os.path.join(self.path, export_folders.SAVED_MODEL_FILE)
        about = artifacts.read_about(self.path)
        artifacts.check_file(file, about)
        variables = os.path.join(self.path, export_folders.VARIABLES_FILE)
        artifacts.check_file(variables, about.get('variables', {}))
        self._open(lambda session: _load(session, self.path, signature_name))

    def _open(self, load: Callable[[tf1.Session], Any]) -> None:
        """Open a session of a new graph, where `load` adds the model and returns its signature."""
        # Threads of its own: it also runs inside of ops of other sessions, which hold theirs.
        config = tf1.ConfigProto(use_per_session_threads=True)
        with tf.Graph().as_default() as graph:
            self._session = tf1.Session(graph=graph, config=config)
            signature = load(self._session)
        self._input, self._kind = _image_input(signature, self.path)
        self._outputs = {key: output.name for key, output in signature.outputs.items()}
        self.output_shapes = {
            key: _sides_of_example(graph.get_tensor_by_name(name).shape)
            for key, name in self._outputs.items()
        }
        self.output_types = {
            key: graph.get_tensor_by_name(name).dtype for key, name in self._outputs.items()
        }
        shape = graph.get_tensor_by_name(self._input).shape
        self.max_batch_size = shape[0] if shape.rank else None

    @property
    def config_path(self) -> Optional[str]:
        """Path of the pipeline config that was saved with the model; None if there is none."""
        return artifacts.config_path(self.path)

    @property
    def metrics(self) -> Dict[str, float]:
        """Metrics of its checkpoint on the first evaluation set; empty where there are none."""
        return evaluated.first_set(artifacts.read_metrics(self.path))

    @property
    def output_names(self) -> List[str]:
        """Names of what `predict` returns."""
        return sorted(self._outputs)

    def predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the model's outputs for a batch of images, converted to the form of its input.

        Args:
            images: [batch, height, width, channels] of the task's image format.

        Returns:
            Arrays by the output's key in the signature.
        """
        return self._session.run(
            self._outputs, {self._input: serving.as_requests(images, self._kind)}
        )


class CheckpointPredictor(Predictor):
    """Predictor of a checkpoint's model; `path` is the checkpoint.

    Args:
        task: builds the network.
        config: see `writers.Source`.
        checkpoint: its prefix, or its folder.

    Raises:
        errors.CheckpointError: the checkpoint is not there, or not of this model.
        errors.ConfigError: it was trained with another order of classes.
    """

    def __init__(self, task: Task, config: pipeline_pb2.TrainEvalPipelineConfig, checkpoint: str):
        self.path = checkpoint_files.resolve_checkpoint(checkpoint)
        class_match.require_same_classes(task.checkpoints, self.path)
        source = Source(task, config, self.path)
        model = inference_graph.build(source, export_pb2.IMAGE_TENSOR)
        self._open(lambda session: _import(model))

    @property
    def metrics(self) -> Dict[str, float]:
        """Metrics of the checkpoint on the first evaluation set; empty where there are none."""
        return evaluated.first_set(evaluated.read(self.path))


class RestoringPredictor(Predictor):
    """Predictor of the checkpoints of a run, one after the other, as evaluations compute outputs.

    Args:
        task: builds the network.
        config: the pipeline config.
        graph_hook_fn: changes the graph, as in `model_fn.create_model_fn`.
    """

    def __init__(
        self,
        task: Task,
        config: pipeline_pb2.TrainEvalPipelineConfig,
        graph_hook_fn: GraphHook = None,
    ):
        self.path = 'the model'

        def load(session: tf1.Session) -> Any:
            del session
            receiver = serving.serving_input_receiver_fn(task, export_pb2.IMAGE_TENSOR)()
            outputs = inference_graph.build_outputs(
                task, receiver.features, graph_hook_fn, tf_estimator.ModeKeys.EVAL
            )
            averages = config.eval_config.use_moving_averages
            self._saver = savers.create_inference_saver(averages, task)
            received = {serving.INPUT_KEY: receiver.receiver_tensors[serving.INPUT_KEY]}
            return tf1.saved_model.predict_signature_def(received, outputs)

        self._open(load)

    def restore(self, checkpoint: str) -> None:
        """Take the variables of a checkpoint, whose prefix is given."""
        self.path = checkpoint
        self._saver.restore(self._session, checkpoint)


def _find(folder: str) -> str:
    if tf.io.gfile.exists(os.path.join(folder, export_folders.SAVED_MODEL_FILE)):
        return folder
    path = export_folders.latest_export(folder)
    if path is None:
        of_run = export_folders.latest_export(export_folders.run_folder(folder, ''))
        near = f' The newest one of the run is {of_run}.' if of_run else ''
        raise errors.UserError(
            f'{folder} holds no exported model: expected {export_folders.SAVED_MODEL_FILE} in it, '
            f'or in a folder <timestamp> or <name>/<timestamp> in it.{near}'
        )
    return path


def _load(session: tf1.Session, path: str, signature_name: str) -> Any:
    try:
        # TensorFlow reads the path of the variables as a glob pattern.
        plain = plain_paths.plain_path(path)
        loaded = tf1.saved_model.load(session, [tf1.saved_model.tag_constants.SERVING], plain)
    except Exception as error:  # of many kinds, one for each way in which a graph can be wrong
        reason = errors.first_line(error)
        raise errors.UserError(f'{path} cannot be loaded as a SavedModel: {reason}') from error
    if signature_name not in loaded.signature_def:
        names = ', '.join(sorted(loaded.signature_def)) or 'none'
        raise errors.UserError(
            f'the SavedModel {path} has no signature {signature_name!r}; it has: {names}.'
        )
    return loaded.signature_def[signature_name]


def _import(model: InferenceGraph) -> Any:
    """Add a graph to the current one and return its `SignatureDef`."""
    tf1.import_graph_def(model.frozen.to_graph_def(), name='')
    return model.signature()


def _sides_of_example(shape: tf.TensorShape) -> Optional[List[Optional[int]]]:
    return None if shape.rank is None else shape.as_list()[1:]


def _image_input(signature: Any, path: str) -> Tuple[str, str]:
    """Return the name of the input tensor, and the kind of placeholder that it is."""
    described = ', '.join(
        f'{key} ({tf.dtypes.as_dtype(info.dtype).name})' for key, info in signature.inputs.items()
    )
    # Inputs of numbers that have defaults may stand beside it.
    kinds = (tf.uint8.as_datatype_enum, tf.string.as_datatype_enum)
    images = [(key, info) for key, info in signature.inputs.items() if info.dtype in kinds]
    deep = signature.inputs.get(serving.INPUT_KEY)
    is_deep = deep is not None and deep.dtype == tf.float32.as_datatype_enum
    if not images and is_deep and len(deep.tensor_shape.dim) == 4:
        images = [(serving.INPUT_KEY, deep)]  # of more than 8 bits
    if len(images) == 1 and (len(signature.inputs) == 1 or images[0][0] == serving.INPUT_KEY):
        ((key, only),) = images
        if only.dtype != tf.string.as_datatype_enum:
            return only.name, serving.IMAGE_TENSOR
        # Estimators of the published programs call it an example by its key alone.
        is_example = 'example' in only.name or 'example' in key
        kind = serving.TF_EXAMPLE if is_example else serving.ENCODED_IMAGE_STRING_TENSOR
        return only.name, kind
    raise errors.UserError(
        f'the signature of {path} takes {described or "nothing"}; expected one '
        'input, of images (uint8), encoded images or examples (string).'
    )
