"""Checks a network against published variable lists and recorded numbers in ../shared.

A test file imports its family's module, which registers the networks, then calls

    check_variables('mobilenet_v1')  # names, shapes, end points, parameter counts
    check_golden('mobilenet_v1')     # those and what it computes, in inference and in training

Both skip, with a reason, where nothing is recorded. What detection and segmentation models take
from a backbone is compared with their records in the tests of these models.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import math
import types
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np
import pytest
import tensorflow as tf

from model_fns.backbones import registry
from tests import initial_values, rounding
from tests.conftest import shared_folder

tf1 = tf.compat.v1

Builder = Callable[[tf.Tensor], Dict[str, tf.Tensor]]

# End points that we add to the published ones where a network lacks them.
_OURS = {registry.LOGITS, registry.AUXILIARY_LOGITS}


@dataclasses.dataclass(frozen=True)
class Built:
    """A network in a graph of its own.

    Attributes:
        graph: the graph.
        images: float32 [batch, height, width, channels], a placeholder, already normalized.
        end_points: what the network returned.
    """

    graph: tf.Graph
    images: tf.Tensor
    end_points: Dict[str, tf.Tensor]


def build(
    name: str,
    image_size: Tuple[int, int],
    is_training: bool,
    *,
    batch: int = 2,
    num_classes: int = 11,
    options: Optional[registry.Options] = None,
) -> Built:
    """Build a registered network in a fresh graph."""
    network = registry.get_network(name, task='detection')
    options = options or registry.Options(dropout_keep_prob=1.0)
    graph = tf.Graph()
    with graph.as_default():
        shape = [batch, *image_size, network.image_channels]
        images = tf1.placeholder(tf.float32, shape)
        style = network.style(is_training, options)
        end_points = network.build(images, num_classes, style, options)
    return Built(graph, images, end_points)


@initial_values.left_out()
def check_variables(name: str) -> None:
    """Compare variables and end points in training with the published list of that network.

    Args:
        name: a registered network, of which there is a list.
    """
    expected = variable_list(name)
    built = build(name, tuple(expected['input']), is_training=True, batch=expected['batch'])
    _check_variable_list(built, expected, is_training=True)
    for point, shape in expected['end_points_train']:
        assert tuple(built.end_points[point].shape) == tuple(shape), point


@initial_values.left_out()
def check_golden(name: str) -> None:
    """Compare variables and outputs of a network with its list and its recorded case.

    Args:
        name: a registered network, of which there is a recorded case.
    """
    case = recorded_case(name)
    images = normalized_input(case)
    _check_inference(name, case, images)
    _check_training(name, case, images)


def variables_of(graph: tf.Graph) -> Dict[str, Tuple[Tuple[int, ...], bool]]:
    """Shape, and whether it is trainable, of each global variable by name."""
    trainable = {v.op.name for v in graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)}
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    return {v.op.name: (tuple(v.shape), v.op.name in trainable) for v in variables}


@initial_values.left_out()
def count_parameters(
    name: str, num_classes: int, options: Optional[registry.Options] = None
) -> int:
    """How many trainable parameters a classifier has."""
    built = build(name, (64, 64), False, num_classes=num_classes, options=options)
    return parameters_of(built.graph)


def parameters_of(graph: tf.Graph) -> int:
    """How many trainable parameters there are."""
    return sum(math.prod(shape) for shape, trainable in variables_of(graph).values() if trainable)


@initial_values.left_out()
def check_atrous_features(build_features: Builder, output_stride: int, end_point: str) -> None:
    """Every n-th value of atrous feature maps is a value of the strided ones.

    It holds for images of k * 32 + 1 pixels, where each output of a strided convolution is centered
    on an input.

    Args:
        build_features: takes images and an output stride; of a network of output stride 32 whose
            layers see a part of the image only.
        output_stride: to compare with 32.
        end_point: which feature map.
    """
    images = np.random.RandomState(0).uniform(-1.0, 1.0, [1, 65, 97, 3]).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        maps = []
        for stride in (None, output_stride):
            with tf1.variable_scope('net', reuse=tf1.AUTO_REUSE):
                end_points = build_features(tf.constant(images), output_stride=stride)
            maps.append(end_points[end_point])
        _set_variables(session, _lively_value)
        strided, atrous = session.run(maps)
    step = 32 // output_stride
    assert strided.shape[1:3] == (3, 4)
    assert_close(atrous[:, ::step, ::step], strided, 1e-4, end_point)
    assert np.std(strided) > 0.0


def variable_list(name: str) -> Dict[str, Any]:
    """The published variable list of a classifier; skips the test when there is none."""
    return _read_json('spec', 'variables', 'classification', f'{name}.json')


def recorded_case(name: str) -> Dict[str, np.ndarray]:
    """The recorded case of a classifier; skips the test when there is none."""
    return _read_arrays('classification', f'{name}.npz')


def normalized_input(case: Dict[str, np.ndarray]) -> np.ndarray:
    """The network's input by the case's rule, float32 [batch, height, width, channels]."""
    images = case['input_image_uint8'].astype(np.float32)
    rule = str(case['input_rule'])
    if rule == 'x/127.5-1':
        images = images / 127.5 - 1.0
    elif rule == 'gray:(x-128)/128':
        images = (images - 128.0) / 128.0
    elif rule.startswith('x-['):
        images = images - np.asarray(json.loads(rule[2:]), np.float32)
    else:
        raise ValueError(f'unknown input rule {rule!r}')
    _assert_recorded(case, 'network_input', images, 1e-5)
    return images


def set_weights(session: tf1.Session) -> None:
    """Give every global variable of the session's graph its value by the rule of the cases."""
    _set_variables(session, lambda name, shape: _recorded_value(name, tuple(shape)))


def set_zeros(session: tf1.Session) -> None:
    """Give every global variable of the session's graph zeros, where only shapes are computed."""
    _set_variables(session, lambda name, shape: np.zeros(shape))


# To draw the weights of a network takes as long as to build it: these are those of the last one.
@functools.lru_cache(maxsize=600)
def _recorded_value(name: str, shape: Tuple[int, ...]) -> np.ndarray:
    return weights_rule().init(name, shape)


def _lively_value(name: str, shape: Sequence[int]) -> np.ndarray:
    """Weights that keep the size of what passes through, so that deep features are not all zero."""
    if len(shape) == 4:
        inputs = math.prod(shape[:2] if 'depthwise' in name else shape[:3])
        return np.random.RandomState(len(name)).normal(0.0, (2.0 / inputs) ** 0.5, shape)
    return np.ones(shape) if name.endswith(('gamma', 'moving_variance')) else np.zeros(shape)


def _set_variables(
    session: tf1.Session, value_of: Callable[[str, Sequence[int]], np.ndarray]
) -> None:
    variables = session.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    values = {
        variable.initializer.inputs[1]: value_of(variable.op.name, variable.shape.as_list())
        for variable in variables
    }
    session.run([variable.initializer for variable in variables], values)


@functools.cache
def weights_rule() -> types.ModuleType:
    """The module that sets the weights of the recorded cases; skips the test without it."""
    path = shared_folder() / 'golden' / 'weights.py'
    if not path.is_file():
        pytest.skip('no rule for the weights of recorded cases in ../shared')
    spec = importlib.util.spec_from_file_location('golden_weights', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Each value is within tolerance times the largest expected magnitude."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, what
    scale = max(np.max(np.abs(expected), initial=0.0), 1e-6)
    error = np.max(np.abs(actual - expected), initial=0.0) / scale
    assert error <= tolerance, f'{what}: relative error {error:.3g}'


def _read_json(*parts: str) -> Dict[str, Any]:
    path = shared_folder().joinpath(*parts)
    if not path.is_file():
        pytest.skip(f'{path.name} is not in ../shared/{"/".join(parts[:-1])}')
    return json.loads(path.read_text())


def _read_arrays(*parts: str) -> Dict[str, np.ndarray]:
    path = shared_folder().joinpath('golden', *parts)
    if not path.is_file():
        pytest.skip(f'the recorded case {path.name} is not in ../shared/golden')
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _stats(value: np.ndarray) -> Sequence[float]:
    """Mean, standard deviation, largest magnitude."""
    value = value.astype(np.float64)
    return [value.mean(), value.std(), np.abs(value).max()]


def _check_variable_list(built: Built, expected: Dict[str, Any], is_training: bool) -> None:
    later = set() if is_training else set(expected['variables_only_in_training'])
    published = {
        variable: (tuple(shape), trainable)
        for variable, shape, trainable in expected['variables']
        if variable not in later
    }
    actual = variables_of(built.graph)
    assert set(actual) == set(published), sorted(set(actual) ^ set(published))
    assert actual == published
    count = sum(math.prod(shape) for shape, is_trainable in actual.values() if is_trainable)
    if not later:
        assert count == expected['n_params_trainable']
    published = {
        point for point, _ in expected['end_points_train' if is_training else 'end_points']
    }
    actual = set(built.end_points)
    assert registry.LOGITS in actual
    assert published <= actual, sorted(published - actual)
    assert actual - published <= _OURS, sorted(actual - published)
    if is_training:
        penalties = built.graph.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
        updates = built.graph.get_collection(tf1.GraphKeys.UPDATE_OPS)
        assert len(penalties) == expected['n_regularization_losses']
        assert len(updates) == expected['n_update_ops']


def _check_inference(name: str, case: Dict[str, np.ndarray], images: np.ndarray) -> None:
    built = build(name, images.shape[1:3], is_training=False)
    _check_variable_list(built, variable_list(name), is_training=False)
    with tf1.Session(graph=built.graph) as session:
        set_weights(session)
        end_points = session.run(built.end_points, {built.images: images})
    for key, point in (('logits', registry.LOGITS), ('AuxLogits', registry.AUXILIARY_LOGITS)):
        if f'infer/{key}' in case:
            assert_close(end_points[point], case[f'infer/{key}'], 1e-4, key)
    _check_end_point_stats(case, end_points, 1e-4)


def _check_training(name: str, case: Dict[str, np.ndarray], images: np.ndarray) -> None:
    built = build(name, images.shape[1:3], is_training=True)
    _check_variable_list(built, variable_list(name), is_training=True)
    with built.graph.as_default(), tf1.Session() as session:
        fetches = _training_tensors(built, case['train/labels'])
        names = [str(variable) for variable in case['train/grad_norm_names']]
        by_name = {v.op.name: v for v in tf1.trainable_variables()}
        gradients = tf.gradients(fetches['total_loss'], [by_name[variable] for variable in names])
        fetches['gradient_norms'] = [tf.norm(gradient) for gradient in gradients]
        updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        set_weights(session)
        values, end_points, _ = session.run(
            [fetches, built.end_points, updates], {built.images: images}
        )
        _check_moving_statistics(case, session)
    for key in ('cross_entropy', 'aux_cross_entropy', 'regularization_loss', 'total_loss'):
        if f'train/{key}' in case:
            rounding.check_close(f'{name}: {key}', values[key], case[f'train/{key}'])
    names = [str(point) for point in case['train/end_point_names']]
    for point, expected in zip(names, case['train/end_point_stats']):
        rounding.check_close(f'{name}: end points', _stats(end_points[point]), expected)
    rounding.check_gradient_norms(
        name, values['gradient_norms'], case['train/grad_norms'], case['train/grad_norm_names']
    )


def _training_tensors(built: Built, labels: np.ndarray) -> Dict[str, Any]:
    """Losses as the recorded cases define them: the total is without the auxiliary loss."""

    def cross_entropy(logits: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    tensors = {'cross_entropy': cross_entropy(built.end_points[registry.LOGITS])}
    if registry.AUXILIARY_LOGITS in built.end_points:
        auxiliary = built.end_points[registry.AUXILIARY_LOGITS]
        tensors['aux_cross_entropy'] = cross_entropy(auxiliary)
    penalties = tf1.get_collection(tf1.GraphKeys.REGULARIZATION_LOSSES)
    tensors['regularization_loss'] = tf.add_n(penalties) if penalties else tf.constant(0.0)
    tensors['total_loss'] = tensors['cross_entropy'] + tensors['regularization_loss']
    return tensors


def _check_end_point_stats(
    case: Dict[str, np.ndarray], end_points: Dict[str, np.ndarray], tolerance: float
) -> None:
    """Mean, standard deviation and largest magnitude of every end point of inference."""
    names = [str(name) for name in case['infer/end_point_names']]
    for name, expected in zip(names, case['infer/end_point_stats']):
        assert_close(_stats(end_points[name]), expected, tolerance, f'end point {name}')


def _check_moving_statistics(case: Dict[str, np.ndarray], session: tf1.Session) -> None:
    prefix = 'train/bn_after_1_update/'
    recorded = {key[len(prefix) :]: case[key] for key in case if key.startswith(prefix)}
    variables = session.graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    values = session.run({v.op.name: v for v in variables if v.op.name in recorded})
    for variable, expected in recorded.items():
        assert_close(values[variable], expected, 1e-4, f'{variable} after one update')


def _assert_recorded(
    case: Dict[str, np.ndarray], key: str, value: np.ndarray, tolerance: float
) -> None:
    """Compare with an array that is recorded whole, or as every n-th element."""
    if key in case:
        assert_close(value, case[key], tolerance, key)
        return
    assert value.shape == tuple(case[f'{key}__shape'])
    sampled = value.ravel()[:: int(case[f'{key}__stride'])]
    assert_close(sampled, case[f'{key}__sub'], tolerance, key)
