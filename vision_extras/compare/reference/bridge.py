"""Program that trains and applies a detector of the user's own Object Detection API.

    /path/to/their/python bridge.py FOLDER

`folders.py` writes the folder. The program runs in any environment with that API: it needs Python
3.5, imports nothing of this project, and calls only public functions of the API by their names:
`model_builder.build`, `optimizer_builder.build`, and the methods of a model.
"""

import importlib
import json
import os
import re
import sys
from typing import Any, Dict, List, Tuple

import numpy as np

JOB, CONFIG, CHECKPOINT = 'job.json', 'pipeline.config', 'initial.ckpt'
TRAINING, EVALUATION, RESULTS = 'training', 'evaluation', 'reference'
NO_PACKAGE = 3  # exit status: the environment has no `object_detection`

# Raw outputs of a model under their published names, which both sides record at the first step.
RAW = ('preprocessed_inputs', 'anchors', 'box_encodings', 'class_predictions_with_background')
DETECTIONS = ('detection_boxes', 'detection_scores', 'detection_classes', 'num_detections')


def batch_path(folder: str, kind: str, index: int) -> str:
    """Return the path of a batch."""
    return os.path.join(folder, kind + '-' + str(index).zfill(4) + '.npz')


def result_path(folder: str, name: str) -> str:
    """Return the path of the results of a side."""
    return os.path.join(folder, name + '.npz')


def short_name(name: str) -> str:
    """Return the name of a loss without its scope, which depends on the version of the API."""
    return name.split('/')[-1]


def import_tensorflow() -> Any:
    """Import the functions of TensorFlow 1, in graph mode."""
    try:
        import tensorflow.compat.v1 as tf
    except ImportError:
        import tensorflow as tf  # before 1.13
    getattr(tf, 'disable_v2_behavior', lambda: None)()
    return tf


def read_config(folder: str) -> Any:
    """Parse the user's config with the user's schema."""
    from google.protobuf import text_format

    config = importlib.import_module(
        'object_detection.protos.pipeline_pb2'
    ).TrainEvalPipelineConfig()
    with open(os.path.join(folder, CONFIG), encoding='utf-8') as file:
        text_format.Merge(file.read(), config)
    turn_off_dropout(config.model)
    return config


def turn_off_dropout(message: Any) -> None:
    """Turn off dropout in a message and those within, since it draws other numbers there."""
    if 'use_dropout' in message.DESCRIPTOR.fields_by_name:
        message.use_dropout = False
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in [value] if hasattr(value, 'DESCRIPTOR') else value:
                turn_off_dropout(each)


def build_model(config: Any, is_training: bool) -> Any:
    """Build the user's model."""
    builder = importlib.import_module('object_detection.builders.model_builder')
    return builder.build(config.model, is_training=is_training)


def read_batch(folder: str, kind: str, index: int) -> Dict[str, np.ndarray]:
    """Read a batch: images and true shapes; in training boxes, classes, weights and counts."""
    with np.load(batch_path(folder, kind, index)) as values:
        return dict(values)


def model_variables(tf: Any) -> List[Any]:
    """Return the variables of the graph, without the step."""
    return [each for each in tf.global_variables() if each.op.name != 'global_step']


class Inputs:
    """Placeholders of a batch.

    Args:
        tf: TensorFlow.
        batch: a first batch; others have the same number of images.
        is_fixed: whether all images have the size of those in the batch.
    """

    def __init__(self, tf: Any, batch: Dict[str, np.ndarray], is_fixed: bool = True):
        count, height, width, channels = batch['images'].shape
        size = [height, width] if is_fixed else [None, None]
        self.images = tf.placeholder(tf.float32, [count] + size + [channels])
        self.true_shapes = tf.placeholder(tf.int32, batch['true_shapes'].shape)
        self.rows = {
            name: [
                tf.placeholder(tf.float32, [None] + list(batch[name].shape[2:]))
                for _ in range(len(batch['images']))
            ]
            for name in ('boxes', 'classes', 'weights')
            if name in batch
        }

    def feeds(self, batch: Dict[str, np.ndarray]) -> Dict[Any, np.ndarray]:
        """Return the values of a batch by placeholder."""
        feeds = {self.images: batch['images'], self.true_shapes: batch['true_shapes']}
        for name, placeholders in self.rows.items():
            for row, placeholder in enumerate(placeholders):
                feeds[placeholder] = batch[name][row, : batch['counts'][row]]
        return feeds

    def predict(self, model: Any) -> Dict[str, Any]:
        """Build the raw outputs of a model."""
        preprocessed = model.preprocess(self.images)
        if isinstance(preprocessed, tuple):  # with the shapes, which a resized image has lost
            preprocessed = preprocessed[0]
        predictions = dict(model.predict(preprocessed, self.true_shapes))
        predictions.setdefault('preprocessed_inputs', preprocessed)
        if 'anchors' not in predictions and hasattr(model, 'anchors'):
            predictions['anchors'] = model.anchors.get()
        return predictions


def compute_losses(tf: Any, model: Any, config: Any, inputs: Inputs) -> Tuple[Any, Any]:
    """Build the losses by name with their sum, and the raw outputs."""
    model.provide_groundtruth(
        inputs.rows['boxes'],
        inputs.rows['classes'],
        groundtruth_weights_list=inputs.rows['weights'],
    )
    predictions = inputs.predict(model)
    losses = {
        short_name(name): loss for name, loss in model.loss(predictions, inputs.true_shapes).items()
    }
    total = list(losses.values())
    regularization = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if regularization and config.train_config.add_regularization_loss:
        losses['regularization_loss'] = tf.add_n(regularization)
        total.append(losses['regularization_loss'])
    losses['total_loss'] = tf.add_n(total)
    return losses, predictions


def trained_variables(tf: Any, train_config: Any) -> List[Any]:
    """Return the variables that the config trains; patterns may match anywhere in a name."""
    included = list(getattr(train_config, 'update_trainable_variables', ()))
    excluded = list(train_config.freeze_variables)
    return [
        each
        for each in tf.trainable_variables()
        if (not included or any(re.search(one, each.op.name) for one in included))
        and not any(re.search(one, each.op.name) for one in excluded)
    ]


def update(tf: Any, config: Any, loss: Any, before: List[Any]) -> Tuple[Dict[str, Any], Any]:
    """Build the gradients by name, before clipping, and a training step.

    Args:
        tf: TensorFlow.
        config: the config.
        loss: the total loss.
        before: tensors to compute before a variable changes.
    """
    train_config = config.train_config
    # Averages of variables do not change the training, and need a part of TensorFlow 1 only.
    train_config.optimizer.use_moving_average = False
    builder = importlib.import_module('object_detection.builders.optimizer_builder')
    optimizer = builder.build(train_config.optimizer)
    if isinstance(optimizer, tuple):  # with tensors for summaries
        optimizer = optimizer[0]
    pairs = optimizer.compute_gradients(loss, trained_variables(tf, train_config))
    pairs = [(tf.convert_to_tensor(value), each) for value, each in pairs if value is not None]
    if train_config.bias_grad_multiplier:
        pairs = [
            (value * train_config.bias_grad_multiplier, each)
            if re.match('.*/biases', each.op.name)
            else (value, each)
            for value, each in pairs
        ]
    gradients = {each.op.name: tf.identity(value) for value, each in pairs}
    if train_config.gradient_clipping_by_norm > 0:
        values, _ = tf.clip_by_global_norm(
            [value for value, _ in pairs], train_config.gradient_clipping_by_norm
        )
        pairs = [(value, each) for value, (_, each) in zip(values, pairs)]
    ready = before + list(gradients.values()) + [value for value, _ in pairs]
    with tf.control_dependencies(ready):
        updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        # Identities, since an operation that is there already does not wait.
        pairs = [(tf.identity(value), each) for value, each in pairs]
    with tf.control_dependencies([updates]):
        step = optimizer.apply_gradients(pairs, global_step=tf.train.get_global_step())
    return gradients, step


def restore(tf: Any, session: Any, folder: str) -> List[str]:
    """Restore the initial values; return the names of variables that the checkpoint lacks."""
    path = os.path.join(folder, CHECKPOINT)
    reader = tf.train.NewCheckpointReader(path)
    shapes = reader.get_variable_to_shape_map()
    found, missing = {}, []
    for variable in model_variables(tf):
        name = variable.op.name
        if shapes.get(name) == variable.shape.as_list():
            found[name] = variable
        else:
            missing.append(name)
    if found:
        tf.train.Saver(found).restore(session, path)
    return missing


def train(tf: Any, config: Any, folder: str, num_steps: int) -> Dict[str, Any]:
    """Train from the initial checkpoint; return what is compared."""
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        tf.train.get_or_create_global_step()
        model = build_model(config, True)
        inputs = Inputs(tf, read_batch(folder, TRAINING, 0))
        losses, predictions = compute_losses(tf, model, config, inputs)
        raw = {name: predictions[name] for name in RAW if name in predictions}
        variables = model_variables(tf)
        before = list(losses.values()) + list(raw.values())
        gradients, step = update(tf, config, losses['total_loss'], before)
        first = {'raw': raw, 'gradients': gradients}
        results = {}  # type: Dict[str, Any]
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            session.run(tf.local_variables_initializer())
            results['missing'] = missing = restore(tf, session, folder)
            results['initial'] = session.run(
                {each.op.name: each for each in variables if each.op.name not in missing}
            )
            history = []
            for index in range(num_steps):
                feeds = inputs.feeds(read_batch(folder, TRAINING, index))
                fetches = {'losses': losses, 'first': {} if index else first}
                values, _ = session.run((fetches, step), feeds)
                history.append(values['losses'])
                results.update(values['first'])
            results['losses'] = {name: [each[name] for each in history] for name in losses}
            results['variables'] = session.run({each.op.name: each for each in variables})
            path = os.path.join(folder, RESULTS + '.ckpt')
            tf.train.Saver(variables).save(session, path, write_meta_graph=False)
    return results


def evaluate(tf: Any, config: Any, folder: str, job: Dict[str, Any]) -> Dict[str, Any]:
    """Apply the model to the evaluation batches, after the training if there is any."""
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        model = build_model(config, False)
        inputs = Inputs(tf, read_batch(folder, EVALUATION, 0), job['is_fixed_size'])
        predictions = inputs.predict(model)
        outputs = dict(model.postprocess(predictions, inputs.true_shapes))
        outputs = {name: outputs[name] for name in DETECTIONS}
        batches = []
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            results = {}  # type: Dict[str, Any]
            variables = model_variables(tf)
            if job['num_steps']:
                path = os.path.join(folder, RESULTS + '.ckpt')
                tf.train.Saver(variables).restore(session, path)
            else:
                results['missing'] = restore(tf, session, folder)
                results['variables'] = session.run({each.op.name: each for each in variables})
            for index in range(job['num_images']):
                feeds = inputs.feeds(read_batch(folder, EVALUATION, index))
                batches.append(session.run(outputs, feeds))
    results['detections'] = {
        name: np.concatenate([each[name] for each in batches]) for name in DETECTIONS
    }
    results['detections']['detection_classes'] += 1  # ids of the label map
    return results


def flatten(results: Dict[str, Any]) -> Dict[str, np.ndarray]:
    """Return arrays by `group/name`."""
    return {
        group + '/' + name: np.asarray(value)
        for group, values in results.items()
        for name, value in values.items()
    }


def main(folder: str) -> int:
    """Run the job of a folder, and write its results there; return the exit status."""
    tf = import_tensorflow()
    try:
        package = importlib.import_module('object_detection')
    except ImportError:
        return NO_PACKAGE
    with open(os.path.join(folder, JOB), encoding='utf-8') as file:
        job = json.load(file)
    config = read_config(folder)
    results = train(tf, config, folder, job['num_steps']) if job['num_steps'] else {}
    results.update(evaluate(tf, config, folder, job))
    missing = results.pop('missing')
    np.savez(result_path(folder, RESULTS), **flatten(results))
    about = {
        'python': sys.version.split()[0],
        'tensorflow': tf.__version__,
        'package': next(iter(getattr(package, '__path__', ['']))),
        'missing': missing,
    }
    with open(os.path.join(folder, RESULTS + '.json'), 'w', encoding='utf-8') as file:
        json.dump(about, file, indent=2, sort_keys=True)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
