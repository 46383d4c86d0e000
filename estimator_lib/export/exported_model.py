"""Running an exported model: ours, or a published one with a signature of the same kind."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.drawing import visualization
from estimator_lib.export import exporting, serving

tf1 = tf.compat.v1

_SIGNATURE = tf1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Predictor:
    """A loaded SavedModel.

    Args:
        saved_model_dir: a SavedModel, or a folder of exports, of which the latest is taken.

    Attributes:
        path: of the SavedModel.
        config_path: of the pipeline config that was saved with it; None where there is none.

    Raises:
        errors.UserError: there is no SavedModel, or it has no signature that takes images.
    """

    def __init__(self, saved_model_dir: str):
        self.path = _find(saved_model_dir)
        config_path = os.path.join(self.path, exporting.CONFIG_FILE)
        self.config_path = config_path if tf.io.gfile.exists(config_path) else None
        with tf.Graph().as_default() as graph:
            self._session = tf1.Session(graph=graph)
            signature = _load(self._session, self.path)
        self._input, self._kind = _image_input(signature, self.path)
        self._outputs = {key: output.name for key, output in signature.outputs.items()}

    @property
    def output_names(self) -> List[str]:
        """What `predict` returns."""
        return sorted(self._outputs)

    def predict(self, images: np.ndarray) -> Dict[str, np.ndarray]:
        """The model's outputs for a batch of images, whatever the form in which it takes them.

        Args:
            images: uint8 [batch, height, width, 3].

        Returns:
            Arrays by the output's key in the signature.
        """
        return self._session.run(self._outputs, {self._input: self._as_inputs(images)})

    def _as_inputs(self, images: np.ndarray) -> Any:
        if self._kind == serving.IMAGE_TENSOR:
            return images
        encoded = [visualization.encode_png(image) for image in images]
        return encoded if self._kind != serving.TF_EXAMPLE else [_example(one) for one in encoded]


def _find(folder: str) -> str:
    if tf.io.gfile.exists(os.path.join(folder, exporting.SAVED_MODEL_FILE)):
        return folder
    found = exporting.latest_export(folder)
    if found is None:
        raise errors.UserError(
            f'{folder} holds no exported model: expected {exporting.SAVED_MODEL_FILE} in it, or in '
            'a folder <timestamp> or <name>/<timestamp> in it.'
        )
    return found


def _load(session: tf1.Session, path: str) -> Any:
    try:
        loaded = tf1.saved_model.load(session, [tf1.saved_model.tag_constants.SERVING], path)
    except (OSError, RuntimeError, tf.errors.OpError) as error:
        raise errors.UserError(f'{path} cannot be loaded as a SavedModel: {error}') from error
    if _SIGNATURE not in loaded.signature_def:
        names = ', '.join(sorted(loaded.signature_def)) or 'none'
        raise errors.UserError(
            f'the SavedModel {path} has no signature {_SIGNATURE!r}; it has: {names}.'
        )
    return loaded.signature_def[_SIGNATURE]


def _image_input(signature: Any, path: str) -> Tuple[str, str]:
    """The name of the input tensor, and the kind of placeholder that it is."""
    described = ', '.join(
        f'{key} ({tf.dtypes.as_dtype(one.dtype).name})' for key, one in signature.inputs.items()
    )
    if len(signature.inputs) == 1:
        (only,) = signature.inputs.values()
        (key,) = signature.inputs
        if only.dtype == tf.uint8.as_datatype_enum:
            return only.name, serving.IMAGE_TENSOR
        if only.dtype == tf.string.as_datatype_enum:
            # Estimators of the published programs call it an example by its key alone.
            is_example = 'example' in only.name or 'example' in key
            kind = serving.TF_EXAMPLE if is_example else serving.ENCODED_IMAGE_STRING_TENSOR
            return only.name, kind
    raise errors.UserError(
        f'the signature {_SIGNATURE!r} of {path} takes {described or "nothing"}; expected one '
        'input, of images (uint8), encoded images or examples (string).'
    )


def _example(encoded: bytes) -> bytes:
    """A serialized `tf.train.Example` with that image."""
    image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded]))
    features = tf.train.Features(feature={serving.ENCODED_IMAGE: image})
    return tf.train.Example(features=features).SerializeToString()
