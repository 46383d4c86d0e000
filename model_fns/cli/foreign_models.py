"""Files of any program as models of a task: one table of what their outputs mean.

A file without a `pipeline.config` gets one that describes its outputs: the kind of model, the
number and the names of its classes. Nothing is built from the other fields.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.export import exported_file
from estimator_lib.export.foreign.foreign_file import Convert, ForeignFile, ForeignPredictor, Shape
from estimator_lib.task import Task, Tensors
from model_fns.classification import deployable as classes
from model_fns.detection import fields as boxes
from model_fns.segmentation import fields as pixels
from model_fns.structures import label_map as label_maps
from model_fns.structures import label_map_files
from protos import pipeline_pb2

Shapes = Mapping[str, Optional[Shape]]

# The largest id of the published label maps, where a file does not tell the number of its classes.
_MOST_IDS = 90
_BACKGROUNDS = ('background', '???')
_NO_NAME = '???'  # published lists keep the place of an id that no class has
_IS_LABEL_MAP = re.compile(r'^\s*item\s*:?\s*[{<]|\A\s*\d+:', re.MULTILINE)
# Of a probability whose logit is taken; the largest is the float32 before 1.
# A probability of 0 or 1 would have an infinite logit, and NaN in a mean of them.
_SMALLEST, _LARGEST = 1e-30, 1 - 2.0**-24

_LAYERS = """
  conv_hyperparams {
    regularizer { l2_regularizer { } } initializer { truncated_normal_initializer { } }
  }
"""
_MODELS: Mapping[str, str] = {
    'ssd': f"""
      num_classes: %d
      image_resizer {{ fixed_shape_resizer {{ height: 300 width: 300 }} }}
      feature_extractor {{ type: "ssd_mobilenet_v1" {_LAYERS} }}
      box_predictor {{ convolutional_box_predictor {{ {_LAYERS} }} }}
      anchor_generator {{ ssd_anchor_generator {{ }} }}
      box_coder {{ faster_rcnn_box_coder {{ }} }}
      matcher {{ argmax_matcher {{ }} }}
      similarity_calculator {{ iou_similarity {{ }} }}
      loss {{
        classification_loss {{ weighted_sigmoid {{ }} }}
        localization_loss {{ weighted_smooth_l1 {{ }} }}
      }}
    """,
    'classification': 'num_classes: %d backbone { name: "mobilenet_v1" }',
    'segmentation': 'num_classes: %d backbone { name: "mobilenet_v2" }',
}


class Form(NamedTuple):
    """Form of a file's outputs.

    Attributes:
        model: field of the config's `model`.
        fits: whether outputs with these shapes, by name and in order, have the form.
        convert: names and changes outputs, for a batch of images [B, height, width, 3].
        count: number of classes by the shapes; None: not known.
    """

    model: str
    fits: Callable[[Shapes], bool]
    convert: Callable[[Tensors, tf.Tensor], Tensors]
    count: Callable[[Shapes], Optional[int]]


def _has(*names: str) -> Callable[[Shapes], bool]:
    return lambda shapes: all(name in shapes for name in names)


def _has_ranks(*ranks: int) -> Callable[[Shapes], bool]:
    return lambda shapes: [shape and len(shape) for shape in shapes.values()] == list(ranks)


def _last_side(*names: str, background: int = 0) -> Callable[[Shapes], Optional[int]]:
    """Return a function that counts the classes by the last side of an output.

    Args:
        *names: of the output; empty: it is the only one.
        background: how many of its columns are of the background.
    """

    def last(shapes: Shapes) -> Optional[int]:
        shape = next((shapes[name] for name in names if name in shapes), None)
        if not names:
            (shape,) = shapes.values()
        return shape[-1] - background if shape and shape[-1] else None

    return last


def _as_they_are(outputs: Tensors, images: tf.Tensor) -> Tensors:
    del images
    return {name: value for name, value in outputs.items() if '/' not in name}


def _detections(outputs: Tensors, images: tf.Tensor) -> Tensors:
    """Name boxes, classes from 0, scores and number, and count classes from 1."""
    del images
    found_boxes, numbers, scores, count = outputs.values()
    return {
        # TFLite_Detection_PostProcess does not clip; the published graphs do.
        boxes.DETECTION_BOXES: tf.clip_by_value(found_boxes, 0.0, 1.0),
        # The op counts classes from 0, without the background; label maps begin at 1.
        boxes.DETECTION_CLASSES: label_maps.to_id(numbers),
        boxes.DETECTION_SCORES: scores,
        boxes.NUM_DETECTIONS: tf.reshape(count, [-1]),
    }


def _class_scores(outputs: Tensors, images: tf.Tensor) -> Tensors:
    """Return logits whose softmax gives the scores of classes that exclude each other."""
    del images
    (scores,) = outputs.values()
    return {classes.LOGITS: tf.math.log(tf.maximum(_probabilities(scores), _SMALLEST))}


def _label_scores(outputs: Tensors, images: tf.Tensor) -> Tensors:
    """Return logits whose sigmoid gives the scores of classes that occur together."""
    del images
    (scores,) = outputs.values()
    known = tf.clip_by_value(scores, _SMALLEST, _LARGEST)
    logits = tf.math.log(known) - tf.math.log1p(-known)
    return {classes.LOGITS: tf.where(_are_probabilities(scores), logits, scores)}


def _pixel_scores(outputs: Tensors, images: tf.Tensor) -> Tensors:
    """Resize the scores of classes to the images, and take the class with the highest."""
    (scores,) = outputs.values()
    scores = tf.image.resize(_probabilities(scores), tf.shape(images)[1:3])
    return {
        pixels.SEMANTIC_PREDICTIONS: tf.argmax(scores, -1),
        pixels.SEMANTIC_PROBABILITIES: scores,
    }


def _probabilities(scores: tf.Tensor) -> tf.Tensor:
    """Return scores that are within 0 and 1 as they are, and others as logits."""
    return tf.where(_are_probabilities(scores), scores, tf.nn.softmax(scores))


def _are_probabilities(scores: tf.Tensor) -> tf.Tensor:
    # Of the whole batch: logits of one image may all happen to be between 0 and 1.
    return tf.reduce_all((scores >= 0) & (scores <= 1))


_DETECTION = (
    boxes.DETECTION_BOXES,
    boxes.DETECTION_CLASSES,
    boxes.DETECTION_SCORES,
    boxes.NUM_DETECTIONS,
)
# The first form that fits counts.
_FORMS: Sequence[Form] = (
    Form(
        'ssd', _has(*_DETECTION), _as_they_are, _last_side(boxes.RAW_DETECTION_SCORES, background=1)
    ),
    Form(
        'segmentation',
        _has(pixels.SEMANTIC_PREDICTIONS),
        _as_they_are,
        _last_side(pixels.SEMANTIC_PROBABILITIES),
    ),
    Form('classification', _has(classes.LOGITS), _as_they_are, _last_side(classes.LOGITS)),
    # TFLite_Detection_PostProcess
    Form('ssd', _has_ranks(3, 2, 2, 1), _detections, lambda shapes: None),
    Form('classification', _has_ranks(2), _class_scores, _last_side()),
    Form('segmentation', _has_ranks(4), _pixel_scores, _last_side()),
)


def find_form(file: ForeignFile) -> Form:
    """Return the form of a file's outputs.

    Raises:
        errors.UserError: it has none that is known.
    """
    shapes = file.output_shapes()
    for form in _FORMS:
        if form.fits(shapes):
            return form
    listed = ', '.join(
        f'{name} {"" if shape is None else list(shape)}' for name, shape in shapes.items()
    )
    raise errors.UserError(
        f'{file.path}: the meaning of its outputs is not known: {listed}. Expected '
        f'{", ".join(_DETECTION)}; the same four without names; {pixels.SEMANTIC_PREDICTIONS}; or '
        'one output, the scores of classes [1, classes] or [1, height, width, classes].'
    )


def open_predictor(path: str, task: Task) -> ForeignPredictor:
    """Open a file as a model of a task.

    Raises:
        errors.UserError: it cannot be run.
    """
    file = exported_file.open_foreign(path)
    return ForeignPredictor(file, _converting(find_form(file), task))


def _converting(form: Form, task: Task) -> Convert:
    described = task.presentation.described_outputs
    change = form.convert
    if change is _class_scores and described.get(classes.CLASSES):  # 0 or 1 for each class
        change = _label_scores

    def convert(outputs: Tensors, images: tf.Tensor) -> Tensors:
        named = change(outputs, images)
        if form.model != 'classification' or classes.PROBABILITIES not in described:
            return named
        return {**task.export_outputs(task.postprocess(named, {})), **named}

    return convert


def describe(
    path: str, label_map: Optional[str], folder: Optional[str]
) -> pipeline_pb2.TrainEvalPipelineConfig:
    """Return a config for the outputs of a file without one.

    Args:
        path: of the file.
        label_map: path of a label map, or of a text file with a name in each line; None: the names
            that lie in the file, if any.
        folder: where the names are written as a label map, `<file>.label_map.pbtxt`, which the
            config refers to; None: the config has no names.

    Raises:
        errors.UserError: the file cannot be run, its outputs mean nothing, the label map has more
            classes than it, or there is no folder for the label map.
    """
    file = exported_file.open_foreign(path)
    form = find_form(file)
    named = _read_names(label_map, file.labels, form)
    count = form.count(file.output_shapes()) or max(named.max_id if named else 0, _MOST_IDS)
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(f'model {{ {form.model} {{ {_MODELS[form.model] % count} }} }}', config)
    if named is None:
        return config
    first = 1 if form.model == 'ssd' else 0
    if form.model == 'classification' and named.items[0].id == 1 and named.max_id == count:
        first = config.model.classification.labels_offset = 1  # no class has id 0
    if named.max_id > count - 1 + first:
        raise errors.UserError(
            f'{label_map or path}: the id {named.max_id} ({named.items[-1].name}) is none of the '
            f'{count} classes of {path}.'
        )
    if folder is not None:
        # Not `label_map_files.FILE`: the folder may be that of a run, which has its own.
        name = f'{os.path.basename(path)}.{label_map_files.FILE}'
        config.train_input_reader.label_map_path = os.path.join(folder, name)
        named.write(config.train_input_reader.label_map_path)
    elif label_map:
        raise errors.UserError(
            f'--label_map={label_map}: there is no folder for the names; expected --output_dir=DIR.'
        )
    return config


def _read_names(
    path: Optional[str], lines: Sequence[str], form: Form
) -> Optional[label_maps.LabelMap]:
    """Return the names of classes of a file, or of lines where there is no file; None for none."""
    if path is None and not lines:
        return None
    if path is not None:
        text = _read_text(path)
        if _IS_LABEL_MAP.search(text):
            return label_maps.LabelMap.read(path, first_id=0 if form.model != 'ssd' else 1)
        lines = text.splitlines()
    names = [line.strip() for line in lines]
    is_detector = form.model == 'ssd'
    if is_detector and names and names[0].lower() in _BACKGROUNDS:
        names = names[1:]
    items: Dict[str, label_maps.LabelMapItem] = {}
    for class_id, name in enumerate(names, 1 if is_detector else 0):
        if name and name != _NO_NAME:
            # Published lists have a name for two classes, which a label map refuses.
            name = f'{name} ({class_id})' if name in items else name
            items[name] = label_maps.LabelMapItem(class_id, name, name)
    if items:
        return label_maps.LabelMap(tuple(items.values()), path or '', 0)
    if path is not None:
        raise errors.UserError(f'--label_map: {path} has no names; expected one in each line.')
    return None  # the list in the file names no class


def _read_text(path: str) -> str:
    try:
        with tf.io.gfile.GFile(path, 'rb') as file:
            content = file.read()
    except tf.errors.OpError as error:
        raise errors.UserError(f'--label_map: {path}: {error.message}.') from None
    return content.decode('utf-8', 'replace')
