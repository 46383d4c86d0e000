"""Recognition of DeepLab networks in artifacts."""

from __future__ import annotations

import functools
import re
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from model_fns.backbones import registry
from model_fns.segmentation import fields
from model_fns.segmentation.networks import image_pyramid
from model_fns.segmentation.networks.network import SegmentationNetwork
from protos import segmentation_pb2
from vision_extras.recover import bases, networks
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels, NetworkKernels, build_kernels

Shapes = Dict[str, Tuple[int, ...]]

_WHERE = 'model.segmentation'
_LOGITS = 'logits/semantic/weights'
_OTHER_HEADS = re.compile(r'^logits/(?!semantic/)')
_OUR_LOGITS = f'{fields.SEMANTIC_HEAD}/{image_pyramid.MERGED_LOGITS}'
_PROJECTION = re.compile(r'^decoder/feature_projection0(?:_(\d+))?/weights$')
_KERNELS = 'names and shapes of all kernels'
_SMALL = (40, 56)  # less than any network's input
_BUILD_SIZE = 129
_DECODER_STRIDE = 4  # of all published decoders with one level


def propose(artifact: Artifact, kernels: Kernels) -> Optional[Proposal]:
    """Describe the segmentation network of an artifact; None where it is none.

    Raises:
        Refusal: it has the head of one, and a network that is not known.
    """
    found = kernels.shapes()
    if _LOGITS not in found:
        return None
    if any(_OTHER_HEADS.match(name) for name in found):
        raise Refusal('it has more heads than the semantic one, which is not supported')
    config = bases.load('nuclei_deeplab_mobilenet_v2', 'segmentation')
    bases.keep(config.model.segmentation)
    proposal = Proposal(config, '')
    model = config.model.segmentation
    proposal.set(f'{_WHERE}.num_classes', found[_LOGITS][-1], f'kernel {_LOGITS}')
    model.logits_kernel_size = found[_LOGITS][0]
    model.backbone.batch_norm_decay = model.aspp.batch_norm_decay = bases.BATCH_NORM_DECAY
    _read_context(found, proposal)
    _read_decoder(artifact, found, proposal)
    if artifact.graph is not None:
        _read_rates(artifact.graph, proposal)
    elif model.aspp.atrous_rates:
        proposal.unknown.append('A checkpoint tells no atrous rates: they are the published ones.')
    _read_backbone(found, proposal)
    if artifact.graph is not None:
        _read_graph(artifact, artifact.graph, proposal)
    return proposal


def _read_context(found: Shapes, proposal: Proposal) -> None:
    aspp = segmentation_pb2.AtrousSpatialPyramidPooling(
        image_level_feature='image_pooling/weights' in found,
        concat_projection='concat_projection/weights' in found,
    )
    branches = {name.partition('/')[0].partition('_')[0] for name in found}
    count = len([name for name in branches if re.match(r'aspp[1-9]', name)])
    if count:
        aspp.separable_convolution = 'aspp1_depthwise/depthwise_weights' in found
    if 'aspp0/weights' in found:
        aspp.num_filters = found['aspp0/weights'][-1]
    proposal.merge(f'{_WHERE}.aspp', aspp, _KERNELS)
    rates = [6 * (index + 1) for index in range(count)]
    proposal.at(f'{_WHERE}.aspp').atrous_rates.extend(rates)


def _read_decoder(artifact: Artifact, found: Shapes, proposal: Proposal) -> None:
    matches = [match for match in map(_PROJECTION.match, found) if match]
    levels = [match.group(0) for match in sorted(matches, key=lambda one: int(one.group(1) or 0))]
    if not levels:
        return
    decoder = segmentation_pb2.SegmentationDecoder()
    strides, evidence = [_DECODER_STRIDE], f'kernel {levels[0]}'
    if artifact.graph is not None:
        strides = _read_strides(artifact, artifact.graph, levels)
        evidence = f'sizes of the inputs of {", ".join(levels)}'
    elif len(levels) > 1:
        raise Refusal('a checkpoint does not tell the strides of several levels of a decoder')
    proposal.set(f'{_WHERE}.decoder.output_strides', strides, evidence)
    decoder.separable_convolution = 'decoder/decoder_conv0_depthwise/depthwise_weights' in found
    names = ('decoder/decoder_conv0_pointwise/weights', 'decoder/decoder_conv0/weights')
    widths = [found[name][-1] for name in names if name in found]
    if widths:
        decoder.num_filters = widths[0]
    proposal.merge(f'{_WHERE}.decoder', decoder, _KERNELS)


def _read_strides(artifact: Artifact, graph: Graph, levels: List[str]) -> List[int]:
    """Return the output strides of the levels of a decoder.

    Args:
        artifact: the artifact.
        graph: its graph.
        levels: kernels of the projections, in the order of the levels.
    """
    # A projection has the stride of its input; of a TFLite file's layers only inputs are certain.
    inputs = {level: _layer_input(graph, level[: -len('weights')]) for level in levels}
    fetches = {level: tensor for level, tensor in inputs.items() if tensor is not None}
    with running.open_runner(artifact) as runner:
        tensor = first_layer_input(graph, runner.input_name)
        if tensor is None or len(fetches) < len(levels):
            raise Refusal('its graph does not tell the strides of its decoder')
        values = runner.run({'input': tensor, **fetches}, runner.test_image(_SMALL))
    return [_stride(values['input'], values[level]) for level in levels]


def _stride(images: np.ndarray, features: np.ndarray) -> int:
    """Return the stride of features [B, rows, columns, channels] of images."""
    height, rows = images.shape[1], features.shape[1]
    return 2 ** round(float(np.log2((height - 1) / max(rows - 1, 1))))


def _read_rates(graph: Graph, proposal: Proposal) -> None:
    """Read the atrous rates of the branches of the pyramid."""
    rates = []
    for index in range(len(proposal.at(f'{_WHERE}.aspp').atrous_rates)):
        names = (layer.name for layer in graph.layers())
        part = rf'aspp{index + 1}(_depthwise)?/'
        name = next((name for name in names if re.match(part, name)), None)
        rates.append(None if name is None else graph.rate(name))
    if rates and None not in rates:
        evidence = 'dilations of the layers aspp1, ...'
        proposal.set(f'{_WHERE}.aspp.atrous_rates', rates, evidence)


def _read_backbone(found: Shapes, proposal: Proposal) -> None:
    names = [
        name
        for name in registry.network_names('segmentation')
        for scope in [registry.get_network(name, task='segmentation').scope]
        if any(each.startswith(f'{scope}/') for each in found)
    ]
    index, match = networks.choose(
        found,
        [(name, functools.partial(_build, proposal.at(_WHERE), name)) for name in names],
        'its backbone is of no known network',
        lambda name: '/' in name and 'expanded' in name,
    )
    proposal.network = f'DeepLab on {names[index]}'
    proposal.set(f'{_WHERE}.backbone.name', names[index], _KERNELS)
    if match.factor != 1.0:
        proposal.set(f'{_WHERE}.backbone.depth_multiplier', match.factor, _KERNELS)


def _build(
    model: segmentation_pb2.Segmentation, name: str, factor: float
) -> Optional[NetworkKernels]:
    trial = segmentation_pb2.Segmentation()
    trial.CopyFrom(model)
    trial.backbone.name = name
    if factor != 1.0:
        trial.backbone.depth_multiplier = factor

    def build() -> List[tf.Tensor]:
        network = SegmentationNetwork.from_config(trial, trial.num_classes)
        images = tf.zeros([1, _BUILD_SIZE, _BUILD_SIZE, 3])
        return list(network.logits(images, False)[fields.SEMANTIC_HEAD].values())

    return build_kernels(build)


def _read_graph(artifact: Artifact, graph: Graph, proposal: Proposal) -> None:
    known = dict(artifact.outputs) or {
        name: f'{name}:0'
        for name in (fields.SEMANTIC_PREDICTIONS, fields.SEMANTIC_PROBABILITIES)
        if name in graph.nodes
    }
    for name in (fields.SEMANTIC_PROBABILITIES, fields.SEMANTIC_PREDICTIONS):
        if name in known:
            proposal.outputs[name] = known[name]
    logits = [layer.name for layer in graph.layers() if layer.weights_name == _LOGITS]
    if len(logits) == 1:
        proposal.outputs[_OUR_LOGITS] = f'{(graph.consumers(logits[0]) or logits)[0]}:0'
    if not proposal.outputs:
        raise Refusal(f'its graph has no output {fields.SEMANTIC_PREDICTIONS}')
    end = _resized_end(graph)
    with running.open_runner(artifact) as runner:
        tensor = first_layer_input(graph, runner.input_name)
        if tensor is None or not (runner.takes_pixels or runner.accepted_size((0, 0))[0]):
            raise Refusal('its input is not pixels, so the size of images is not known')
        fetches = {'input': tensor, 'features': _features(graph), 'end': end or tensor}
        image = runner.test_image(_SMALL)
        values = runner.run(fetches, image)
        takes_pixels = runner.takes_pixels
    height, width = values['input'].shape[1:3]
    if end and not known and values['end'].shape[1:3] == (height, width):
        proposal.outputs[fields.SEMANTIC_PROBABILITIES] = end
        proposal.theirs[fields.SEMANTIC_PROBABILITIES] = _softmax
    evidence = f'an image of {image.shape[0]}x{image.shape[1]} is padded to {height}x{width}'
    proposal.set(f'{_WHERE}.crop_height', height, evidence)
    proposal.set(f'{_WHERE}.crop_width', width, evidence)
    rows = values['features'].shape[1]
    stride = _stride(values['input'], values['features']) if rows > 1 else 32
    evidence = f'{height} rows of pixels become {rows} of features'
    proposal.set(f'{_WHERE}.backbone.output_stride', stride, evidence)
    if not takes_pixels:
        model = proposal.at(_WHERE)
        network = SegmentationNetwork.from_config(model, model.num_classes)
        proposal.prepare = functools.partial(_normalize, network)
        proposal.unknown.append(
            'Its input is normalized, so it does not tell how pixels are: the comparison has '
            'normalized them as the network was published.'
        )


def _resized_end(graph: Graph) -> str:
    """Return the tensor of resized logits that a graph ends with; empty: there is none.

    Converters cut DeepLab's graph before its last operations: `--output_arrays=ResizeBilinear_3`.
    """
    ends = (name for name in graph.find_ops('ResizeBilinear') if not graph.consumers(name))
    return next((f'{name}:0' for name in ends), '')


def _softmax(logits: np.ndarray) -> np.ndarray:
    values = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def _normalize(network: SegmentationNetwork, image: np.ndarray) -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        pixels = tf.constant(image[np.newaxis], tf.float32)
        return session.run(network.channels.normalize(pixels, network.backbone.normalize))[0]


def _features(graph: Graph) -> str:
    """Return the tensor of the backbone's features."""
    for part in ('aspp0/', 'aspp1', 'concat_projection/', 'logits/semantic/'):
        tensor = _layer_input(graph, part)
        if tensor is not None:
            return tensor
    raise Refusal('its graph has no layer after the backbone')


def _layer_input(graph: Graph, start: str) -> Optional[str]:
    """Return the tensor that the first layer of a scope gets; None where there is no layer.

    Args:
        graph: the graph.
        start: of the layer's name.
    """
    layer = next((each for each in graph.layers() if each.name.startswith(start)), None)
    return None if layer is None else graph.input_tensor(layer.name)
