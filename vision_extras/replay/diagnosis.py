"""The batch of a step, with the losses of its examples, gradients and activations.

The numbers are of a graph of their own, in float32 on one device, with the variables as they were
before the step. So no tensor that is read here changes the repeated steps.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import building, distribution, graph_state, tf_estimator
from estimator_lib.checkpoints import initial_values, model_variables, reader_positions
from estimator_lib.data import inputs
from estimator_lib.evaluation import evaluating
from estimator_lib.graphs import losses as losses_lib
from estimator_lib.hooks.summaries import copy_example
from estimator_lib.optimization import gradients, optimize_loss
from estimator_lib.optimization.partitioned import variable_name
from estimator_lib.task import SOURCE_ID, Arrays, Task, Tensors
from vision_extras.replay import past_run

tf1 = tf.compat.v1

MOST_ACTIVATIONS = 20
_GROUP_DEPTH = 2  # parts of a variable's scope that name its group


class Example(NamedTuple):
    """Example of a batch, as the network gets it.

    Attributes:
        source_id: its name.
        path: the file of its record.
        record: index of the record in the file; -1: the file is the record.
        features: features without the batch dimension; `labels` too.
        labels: groundtruth.
        losses: the losses of the example alone by name; empty where they are not defined.
    """

    source_id: str
    path: str
    record: int
    features: Arrays
    labels: Arrays
    losses: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """Numbers of a step.

    Attributes:
        examples: the examples of the batch, in order.
        losses: losses of the batch by name, with the regularization loss and the total.
        gradient_norms: norms of the gradients of each group of variables, before clipping.
        gradient_norm: the norm of all gradients together.
        activations: (scope, largest absolute value), the largest ones first.
    """

    examples: Sequence[Example]
    losses: Mapping[str, float]
    gradient_norms: Mapping[str, float]
    gradient_norm: float
    activations: Sequence[Tuple[str, float]]


class _Batch(NamedTuple):
    features: Dict[str, Any]
    labels: Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Network:
    """Graph of a part of a batch.

    Attributes:
        batch: placeholders.
        losses: the losses of the batch.
        predictions: the predictions that the losses of single examples are computed of.
        index: the number of such an example.
        example_losses: its losses; None where they are not defined.
        gradients: gradients by name of the variable.
        activations: largest absolute values, by scope.
    """

    batch: _Batch
    losses: Tensors
    predictions: Tensors
    index: tf.Tensor
    example_losses: Optional[Tensors]
    gradients: Tensors
    activations: Mapping[str, Sequence[tf.Tensor]]


def diagnose(run: past_run.PastRun, checkpoint: str) -> Diagnosis:
    """Compute the numbers of the step after a checkpoint.

    Args:
        run: the run, as `PastRun.localize` returns it.
        checkpoint: the prefix.
    """
    plan = distribution.create_plan(run.config)
    specs, batches, places = _read_batch(run, plan, checkpoint)
    # Each device and each micro-batch has normalized and sampled its own examples.
    devices = len(plan.devices) if plan.mode is distribution.Mode.CLONES else 1
    count = run.config.train_config.accumulate_steps
    size = len(batches[0].features[SOURCE_ID]) // (devices * count)
    # Dropout depends on the replica, so the networks are built as in training.
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(run.config.train_config.random_seed)
        tf1.train.create_global_step()
        micro_batch = graph_state.begin_micro_batches() if count > 1 else None
        networks: List[_Network] = []
        for replica in range(len(batches)):
            graph_state.remember_worker(replica)
            graph_state.draw_names().clear()
            for _ in range(devices):
                reuse = True if networks else None
                with tf1.variable_scope(tf1.get_variable_scope(), reuse=reuse):
                    networks.append(_build_network(run, specs, size))
        saver = tf1.train.Saver(tf1.global_variables())
    parts = [piece for batch in batches for piece in _split(batch, count * devices)]
    all_results, example_losses = [], []
    session_config = tf1.ConfigProto(allow_soft_placement=True)
    with tf1.Session(graph=graph, config=session_config) as session:
        session.run(graph.get_collection(tf1.GraphKeys.TABLE_INITIALIZERS))
        saver.restore(session, checkpoint)
        for number, part in enumerate(parts):
            replica, place = divmod(number, count * devices)
            index, device = divmod(place, devices)
            feeds = {} if micro_batch is None else {micro_batch: index}
            network = networks[replica * devices + device]
            results, of_examples = _run(session, network, part, feeds)
            all_results.append(results)
            example_losses += of_examples
    return _summarize(list(_list_examples(parts, places, example_losses)), all_results)


def _list_examples(
    parts: Sequence[_Batch],
    places: Sequence[Tuple[str, int]],
    losses: Sequence[Mapping[str, float]],
) -> Iterator[Example]:
    """Yield the examples of the parts of a batch, given their places and losses in order."""
    rows = ((part, row) for part in parts for row in range(len(part.features[SOURCE_ID])))
    for (part, row), place, own in zip(rows, places, losses):
        features, labels = (copy_example(values, row) for values in part)
        name = features[SOURCE_ID].decode('utf-8', 'replace')
        yield Example(name, *place, features, labels, own)


def _read_batch(
    run: past_run.PastRun, plan: distribution.Plan, checkpoint: str
) -> Tuple[_Batch, List[_Batch], List[Tuple[str, int]]]:
    """Read the batch after a checkpoint.

    Returns:
        The specs of its tensors, its parts for the replicas, and the places of its examples.
    """
    input_fn = run.input_fn(plan)
    run_config = building.create_run_config(run.config, os.path.dirname(checkpoint), plan)
    parts, places = [], []
    with tf.Graph().as_default() as graph:
        features, labels = input_fn(config=run_config)
        features, state = inputs.pop_reader_state(features)
        specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, _Batch(features, labels))
        positions = {variable_name(each): each for each in tf1.global_variables()}
        initializers = graph.get_collection(tf1.GraphKeys.TABLE_INITIALIZERS)
    with tf1.Session(graph=graph) as session, evaluating.explained(input_fn):
        shape = next(iter(positions.values())).shape.as_list()
        moved = reader_positions.moved_positions(checkpoint, list(positions), shape)
        if moved:
            initial_values.set_values(session, moved, positions)
        else:
            initial_values.load_values(session, checkpoint, positions)
        session.run(initializers)
        for _ in range(plan.input_parts):
            part, ids, sources = session.run(
                (_Batch(features, labels), state.records, state.sources)
            )
            parts.append(part)
            places += [input_fn.locate(*each) for each in zip(ids.tolist(), sources.tolist())]
    return specs, parts, places


def _split(batch: _Batch, count: int) -> Iterator[_Batch]:
    """Split a batch into equal parts."""
    for index in range(count):

        def piece(values: np.ndarray, index: int = index) -> np.ndarray:
            size = len(values) // count
            return values[index * size : (index + 1) * size]

        yield tf.nest.map_structure(piece, batch)


def _build_network(run: past_run.PastRun, specs: _Batch, size: int) -> _Network:
    """Build the graph of a part of a batch with the given number of examples."""
    task, config = run.task, run.config
    regularization = tf1.get_collection_ref(tf1.GraphKeys.REGULARIZATION_LOSSES)
    of_first_part = list(regularization)
    batch: _Batch = tf.nest.map_structure(
        lambda spec: tf1.placeholder(spec.dtype, [size, *spec.shape[1:]]), specs
    )
    with model_variables.collected():
        predictions = task.predict(batch.features, tf_estimator.ModeKeys.TRAIN, batch.labels)
        regularization[:] = of_first_part or regularization
        activations = _activations(tf.nest.flatten(batch))
        losses = losses_lib.compute_losses(task, config, predictions, *batch)
    index = tf1.placeholder(tf.int32, [])
    train_config = config.train_config
    policy = gradients.GradientPolicy.from_config(
        train_config, task.checkpoints.last_layer_scopes, task.bias_gradient_multiplier()
    )
    variables = optimize_loss.select_variables(None, policy)
    values = tf.gradients(losses[losses_lib.TOTAL_LOSS], variables)
    pairs = [pair for pair in zip(values, variables) if pair[0] is not None]
    unclipped = dataclasses.replace(policy, clip_norm=0.0)
    pairs = optimize_loss.process_gradients(pairs, unclipped)
    return _Network(
        batch,
        losses,
        predictions,
        index,
        _example_losses(task, predictions, batch, index, size),
        {variable_name(each): tf.convert_to_tensor(gradient) for gradient, each in pairs},
        activations,
    )


def _example_losses(
    task: Task, predictions: Tensors, batch: _Batch, index: tf.Tensor, size: int
) -> Optional[Tensors]:
    """Build the losses of one example alone; None where they are not defined."""
    if type(task).select_example is Task.select_example:
        rows = {value.shape.rank and value.shape[0] for value in predictions.values()}
        if not rows <= {size, None}:
            return None
    selected = task.select_example(predictions, index)
    alone = tf.nest.map_structure(lambda values: values[index][tf.newaxis], batch)
    return dict(task.losses(selected, *alone))


def _activations(batch: Sequence[tf.Tensor]) -> Dict[str, List[tf.Tensor]]:
    """Build the largest absolute value of each float tensor that depends on a batch, by scope."""
    largest: Dict[str, List[tf.Tensor]] = {}
    todo = [operation for tensor in batch for operation in tensor.consumers()]
    seen, tensors = set(todo), []
    while todo:
        operation = todo.pop()
        new = {user for output in operation.outputs for user in output.consumers()} - seen
        seen |= new
        todo.extend(new)
        if operation._get_control_flow_context() is None:  # else it cannot be fetched
            tensors += [each for each in operation.outputs if each.dtype.is_floating]
    for tensor in tensors:
        if tensor.shape.rank != 0:
            scope = tensor.op.name.rpartition('/')[0] or tensor.op.name
            largest.setdefault(scope, []).append(tf.reduce_max(tf.abs(tensor)))
    return largest


def _run(
    session: tf1.Session, network: _Network, part: _Batch, feeds: Mapping[tf.Tensor, int]
) -> Tuple[Dict[str, Any], List[Dict[str, float]]]:
    """Run a part of a batch; return its numbers, and the losses of its examples."""
    feeds = {**feeds, **dict(zip(tf.nest.flatten(network.batch), tf.nest.flatten(part)))}
    results = session.run(
        {
            'losses': network.losses,
            'gradients': network.gradients,
            'activations': network.activations,
            'predictions': {} if network.example_losses is None else network.predictions,
        },
        feeds,
    )
    predictions = results.pop('predictions')
    size = len(part.features[SOURCE_ID])
    if network.example_losses is None:
        return results, [{}] * size
    # The network runs once: its predictions are fed.
    feeds.update({network.predictions[name]: value for name, value in predictions.items()})
    losses = [
        session.run(network.example_losses, {**feeds, network.index: row}) for row in range(size)
    ]
    return results, [{name: float(loss) for name, loss in each.items()} for each in losses]


def _summarize(examples: Sequence[Example], parts: Sequence[Mapping[str, Any]]) -> Diagnosis:
    """Combine the numbers of the parts of a batch: means of losses and gradients."""
    losses = {
        name: float(np.mean([part['losses'][name] for part in parts], dtype=np.float64))
        for name in parts[0]['losses']
    }
    squares: Dict[str, float] = {}
    for name in parts[0]['gradients']:
        mean = sum(part['gradients'][name].astype(np.float64) for part in parts) / len(parts)
        group = '/'.join(name.split('/')[:-1][:_GROUP_DEPTH]) or name
        squares[group] = squares.get(group, 0.0) + float(np.sum(np.square(mean)))
    activations: Dict[str, float] = {}
    for part in parts:
        for scope, values in part['activations'].items():
            activations[scope] = max(map(float, values), key=_size)
    largest = sorted(activations.items(), key=lambda each: (-_size(each[1]), each[0]))
    return Diagnosis(
        examples,
        losses,
        {group: float(np.sqrt(square)) for group, square in squares.items()},
        float(np.sqrt(sum(squares.values()))),
        largest[:MOST_ACTIVATIONS],
    )


def _size(value: float) -> float:
    """Return a number to sort by, with NaN as the largest."""
    return np.inf if np.isnan(value) else value
