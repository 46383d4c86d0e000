"""Recognition of classifiers in artifacts."""

from __future__ import annotations

import collections
import contextlib
import functools
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from model_fns.backbones import registry
from model_fns.classification import deployable, preprocessing
from vision_extras.recover import bases, networks
from vision_extras.recover.artifacts import reading, running
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels, NetworkKernels, build_kernels

_WHERE = 'model.classification'
_AUXILIARY = '/AuxLogits/'
# Sides of the images of published classifiers, in pixels.
_SIDES = (224, 192, 160, 128, 96, 299, 331, 32, 28)
# What may be between the logits and a further layer.
_BETWEEN = ('BiasAdd', 'Add', 'AddV2', 'Squeeze', 'Reshape', 'PlaceholderWithDefault')
_LAST_POOLING = 'the first usual size whose features have the window of its last pooling'
_TOLERANCE = 1e-3  # of the network's input, which is at most some hundreds


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the classifier of an artifact; None where it is none.

    Raises:
        Refusal: it has the scope of a known network, and other kernels.
    """
    found = {name: shape for name, shape in kernels.shapes().items() if _AUXILIARY not in name}
    candidates = [
        network
        for network in map(registry.get_network, registry.network_names())
        if network.scope and any(name.startswith(f'{network.scope}/') for name in found)
    ]
    if not candidates:
        return None
    scopes = collections.Counter(name.partition('/')[0] for name in found)
    scope = max((network.scope for network in candidates), key=lambda one: scopes[one])
    candidates = [network for network in candidates if network.scope == scope]
    found = {name: shape for name, shape in found.items() if name.startswith(f'{scope}/')}
    heads = {part for network in candidates for part in network.logits_scopes}
    widths = [shape[-1] for name, shape in found.items() if any(part in name for part in heads)]
    classes = widths[-1] if widths else 2
    channels = 1 if any(map(_is_gray, found.items())) else 0
    builds = [
        (network.name, functools.partial(_build, network, classes, channels))
        for network in candidates
    ]
    index, match = networks.choose(
        found,
        builds,
        'its kernels are of no known classifier',
        lambda name: not any(part in name for part in heads),
    )
    network = candidates[index]
    proposal = _describe(network, match.factor, classes)
    if channels and network.image_channels == 3:
        proposal.set(f'{_WHERE}.use_grayscale', True, 'the first kernel has one input')
    if artifact.graph is not None:
        _merge_further_layer(artifact.graph, kernels, network, proposal)
        _read_graph(artifact, artifact.graph, network, proposal)
    else:
        proposal.unknown.append(
            'A checkpoint tells neither the size of images nor how they are normalized: they are '
            'the published ones.'
        )
    return proposal


def _is_gray(kernel: Tuple[str, Tuple[int, ...]]) -> bool:
    """Check whether a kernel is that of a first layer of gray images."""
    name, shape = kernel
    return name.endswith('/weights') and len(shape) == 4 and shape[0] > 1 and shape[2] == 1


def _build(
    network: registry.Network, num_classes: int, channels: int, factor: float
) -> Optional[NetworkKernels]:
    if factor != 1.0 and 'depth_multiplier' not in network.honors:
        return None
    options = registry.Options(depth_multiplier=factor)
    size = [1, network.image_size, network.image_size, channels or network.image_channels]
    return build_kernels(
        lambda: [
            network.build(  # type: ignore[misc]  # classifiers have it
                tf.zeros(size), num_classes, network.style(False, options), options
            )[registry.LOGITS]
        ]
    )


def _describe(network: registry.Network, factor: float, num_classes: int) -> Proposal:
    config = bases.load('signs_mobilenet_v1', 'classification')
    model = config.model.classification
    bases.keep(model)
    model.backbone.batch_norm_decay = bases.BATCH_NORM_DECAY
    model.image_height = model.image_width = network.image_size
    model.preprocessing = network.preprocessing
    proposal, evidence = Proposal(config, network.name), 'names and shapes of all kernels'
    proposal.set(f'{_WHERE}.num_classes', num_classes, evidence)
    proposal.set(f'{_WHERE}.backbone.name', network.name, evidence)
    if 'depth_multiplier' in network.honors:
        proposal.set(f'{_WHERE}.backbone.depth_multiplier', factor, evidence)
    return proposal


def _merge_further_layer(
    graph: Graph, kernels: Kernels, network: registry.Network, proposal: Proposal
) -> None:
    """Multiply a linear layer on the logits with the layer of the logits.

    Programs that retrain a classifier put one there: (x W + b) V + c = x (W V) + (b V + c).
    """
    layers = {layer.name: layer for layer in graph.layers()}
    *_, last = layers.values()
    name = graph.source(graph.inputs(last.name)[0])
    while name not in layers and graph.nodes[name].op in _BETWEEN and graph.inputs(name):
        name = graph.source(graph.inputs(name)[0])
    scope = kernels.scopes.get(name, '')
    if last.op != 'MatMul' or not any(part in scope for part in network.logits_scopes):
        return
    logits, weights = layers[name], last.weights.astype(np.float64)
    kernels.arrays[f'{scope}/weights'] = (logits.weights @ weights).astype(np.float32)
    biases = [
        np.zeros(layer.weights.shape[-1]) if layer.bias is None else layer.bias
        for layer in (logits, last)
    ]
    kernels.arrays[f'{scope}/biases'] = (biases[0] @ weights + biases[1]).astype(np.float32)
    evidence = f'layer {last.name}, multiplied with {name}'
    proposal.set(f'{_WHERE}.num_classes', last.weights.shape[-1], evidence)


def _read_graph(
    artifact: Artifact, graph: Graph, network: registry.Network, proposal: Proposal
) -> None:
    model = proposal.config.model.classification
    proposal.outputs.update(_outputs(artifact, graph))
    if not proposal.outputs:
        raise Refusal('its graph has no logits that could be compared')
    with running.open_runner(artifact) as runner:
        if runner.takes_pixels:
            _read_preprocessing(artifact, graph, runner, network, proposal)
        else:
            size, evidence = runner.accepted_size((0, 0)), f'shape of {runner.input_name}'
            if not size[0]:
                size, evidence = _find_size(graph, runner, network, proposal)
            model.image_height, model.image_width = size
            if evidence:
                proposal.learn(f'{_WHERE}.image_height', size[0], evidence)
                proposal.learn(f'{_WHERE}.image_width', size[1], evidence)
            proposal.unknown.append(
                'Its input is the one of the network, so it does not tell how pixels are '
                'normalized.'
            )
    offset = _labels_offset(graph)
    if offset is not None:
        evidence = 'added to the index of the largest logit'
        proposal.set(f'{_WHERE}.labels_offset', offset, evidence)


def _find_size(
    graph: Graph, runner: running.Runner, network: registry.Network, proposal: Proposal
) -> Tuple[Tuple[int, int], str]:
    """Find the size of images of a graph whose input has no shape.

    Its last pooling has the size of the features, so other sizes fail, or leave pixels out.

    Returns:
        The first size (height, width) of published classifiers, that of the network before others,
        that the graph computes and its last pooling covers; and the evidence, '' without a
        pooling.

    Raises:
        Refusal: there is none.
    """
    pools = graph.find_ops('AvgPool')[-1:]
    windows = [tuple(graph.nodes[pool].attr['ksize'].list.i[1:3]) for pool in pools]
    fetches = {**proposal.outputs, **{pool: f'{graph.inputs(pool)[0]}:0' for pool in pools}}
    channels = 1 if proposal.config.model.classification.use_grayscale else network.image_channels
    for side in dict.fromkeys((network.image_size, *_SIDES)):
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            shape = side, side, channels
            values = runner.run(fetches, np.zeros(shape, np.float32))
            if windows == [values[pool].shape[1:3] for pool in pools]:
                proposal.input_shape = shape
                if pools:
                    return shape[:2], _LAST_POOLING
                proposal.unknown.append(
                    'Its input has no shape, and no pooling has the size of its features: '
                    f'{side} is the first published size that its graph computes.'
                )
                return shape[:2], ''
    raise Refusal(
        f'{runner.input_name} has no shape, and takes images of none of the sizes '
        f'{", ".join(map(str, _SIDES))}'
    )


def _outputs(artifact: Artifact, graph: Graph) -> Dict[str, str]:
    """Return the tensors of logits or probabilities."""
    known = dict(artifact.outputs) or {
        name: f'{name}:0'
        for name in (deployable.LOGITS, deployable.PROBABILITIES)
        if name in graph.nodes
    }
    outputs = {
        name: known[name] for name in (deployable.LOGITS, deployable.PROBABILITIES) if name in known
    }
    if outputs:
        return outputs
    softmax = graph.find_ops('Softmax')
    if softmax:
        return {deployable.PROBABILITIES: f'{softmax[-1]}:0'}
    layers = graph.layers()
    last = layers[-1].name
    users: List[str] = [last]
    while users and graph.nodes[users[0]].op not in ('ArgMax', 'TopKV2'):
        last, users = users[0], graph.consumers(users[0])
    return {deployable.LOGITS: f'{last}:0'}


def _read_preprocessing(
    artifact: Artifact,
    graph: Graph,
    runner: running.Runner,
    network: registry.Network,
    proposal: Proposal,
) -> None:
    """Compare the network's input with that of each known family of preprocessing."""
    tensor = first_layer_input(graph, runner.input_name)
    if tensor is None:
        raise Refusal('its network has no input of images that could be computed')
    image = runner.test_image((90, 130))
    value = runner.run({'input': tensor}, image)['input']
    sizes = [f'{each.shape[-3]}x{each.shape[-2]}' for each in (image, value)]
    evidence = f'an image of {sizes[0]} becomes {sizes[1]}'
    proposal.set(f'{_WHERE}.image_height', value.shape[1], evidence)
    proposal.set(f'{_WHERE}.image_width', value.shape[2], evidence)
    gray = value.shape[-1] == 1
    resizes, tolerance = artifact.kind != reading.TFLITE_FILE, _TOLERANCE
    if not resizes:
        # Its constants may have been rounded to float16.
        tolerance *= max(1.0, float(np.abs(value).max()))
        proposal.shared_input = tensor
        proposal.unknown.append('Its input has one size, so it does not tell how images become it.')
    if gray and network.image_channels == 3:
        proposal.set(f'{_WHERE}.use_grayscale', True, 'one channel')
    for name in (network.preprocessing, *preprocessing.FAMILIES):
        family = preprocessing.get_family(name, use_grayscale=gray)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            pixels = tf.constant(image)
            if resizes:
                inputs = family.evaluate(pixels, *value.shape[1:3])
            else:
                inputs = family.normalize(tf.cast(pixels, tf.float32))
            computed = session.run(inputs)
        if np.abs(computed - value[0]).max() < tolerance:
            evidence = 'the network gets the same input for an image'
            proposal.set(f'{_WHERE}.preprocessing', name, evidence)
            return
    raise Refusal('it prepares images as no known preprocessing does')


def _labels_offset(graph: Graph) -> Optional[int]:
    """Return what is added to the index of the largest logit; None: no index is computed."""
    for name in graph.find_ops('ArgMax'):
        for user in graph.consumers(name):
            if graph.nodes[user].op in ('Add', 'AddV2'):
                values = [graph.constant(each) for each in graph.inputs(user)]
                added = next((value for value in values if value is not None), None)
                if added is not None:
                    return int(added)
        return 0
    return None
