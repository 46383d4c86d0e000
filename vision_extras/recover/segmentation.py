"""Recognition of DeepLab networks in artifacts."""

from __future__ import annotations

import functools
import re
from typing import Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.config.section import Section
from model_fns.backbones import registry
from model_fns.segmentation import fields
from model_fns.segmentation.networks import image_pyramid
from model_fns.segmentation.networks.network import SegmentationNetwork
from protos import segmentation_pb2
from vision_extras.recover import bases, multipliers
from vision_extras.recover import kernels as kernels_lib
from vision_extras.recover.artifacts import running
from vision_extras.recover.artifacts.graphs import Graph, first_layer_input
from vision_extras.recover.artifacts.reading import Artifact
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels

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
    classes = found[_LOGITS][-1]
    model.num_classes = proposal.learn(f'{_WHERE}.num_classes', classes, f'kernel {_LOGITS}')
    model.logits_kernel_size = found[_LOGITS][0]
    model.backbone.batch_norm_decay = model.aspp.batch_norm_decay = bases.BATCH_NORM_DECAY
    _read_context(model, found, proposal)
    _read_decoder(model, artifact, found, proposal)
    if artifact.graph is not None:
        _read_rates(model, artifact.graph, proposal)
    elif model.aspp.atrous_rates:
        proposal.unknown.append('A checkpoint tells no atrous rates: they are the published ones.')
    _read_backbone(model, found, proposal)
    if artifact.graph is not None:
        _read_graph(artifact, artifact.graph, model, proposal)
    return proposal


def _read_context(
    model: segmentation_pb2.Segmentation, found: Dict[str, Tuple[int, ...]], proposal: Proposal
) -> None:
    count = len(
        {
            re.sub(r'_\w+', '', name.partition('/')[0])
            for name in found
            if re.match(r'aspp[1-9]', name)
        }
    )
    aspp = Section(model, _WHERE).child('aspp')
    for field, kernel in (
        ('image_level_feature', 'image_pooling/weights'),
        ('concat_projection', 'concat_projection/weights'),
    ):
        proposal.set(aspp, field, kernel in found, _KERNELS)
    if count:
        aspp.message.atrous_rates.extend(6 * (index + 1) for index in range(count))
        is_separable = 'aspp1_depthwise/depthwise_weights' in found
        proposal.set(aspp, 'separable_convolution', is_separable, _KERNELS)
    if 'aspp0/weights' in found:
        evidence = 'kernel aspp0/weights'
        proposal.set(aspp, 'num_filters', found['aspp0/weights'][-1], evidence)


def _read_decoder(
    model: segmentation_pb2.Segmentation,
    artifact: Artifact,
    found: Dict[str, Tuple[int, ...]],
    proposal: Proposal,
) -> None:
    matches = [match for match in map(_PROJECTION.match, found) if match]
    levels = [match.group(0) for match in sorted(matches, key=lambda one: int(one.group(1) or 0))]
    if not levels:
        return
    decoder = Section(model, _WHERE).child('decoder')
    strides = decoder.message.output_strides
    if artifact.graph is not None:
        strides.extend(_read_strides(artifact, artifact.graph, levels))
        evidence = f'sizes of the inputs of {", ".join(levels)}'
        proposal.learn(decoder.at('output_strides'), list(strides), evidence)
    elif len(levels) > 1:
        raise Refusal('a checkpoint does not tell the strides of several levels of a decoder')
    else:
        strides.append(_DECODER_STRIDE)
        proposal.learn(decoder.at('output_strides'), _DECODER_STRIDE, f'kernel {levels[0]}')
    is_separable = 'decoder/decoder_conv0_depthwise/depthwise_weights' in found
    proposal.set(decoder, 'separable_convolution', is_separable, _KERNELS)
    last = 'decoder/decoder_conv0_pointwise/weights'
    width = found.get(last) or found.get('decoder/decoder_conv0/weights')
    if width is not None:
        proposal.set(decoder, 'num_filters', width[-1], f'kernel {last}')


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


def _read_rates(model: segmentation_pb2.Segmentation, graph: Graph, proposal: Proposal) -> None:
    """Read the atrous rates of the branches of the pyramid."""
    rates: List[int] = []
    for index in range(len(model.aspp.atrous_rates)):
        rate = None
        for layer in graph.layers():
            if re.match(rf'aspp{index + 1}(_depthwise)?/', layer.name):
                rate = graph.rate(layer.name)
                break
        if rate is None:
            return
        rates.append(rate)
    if rates:
        del model.aspp.atrous_rates[:]
        model.aspp.atrous_rates.extend(rates)
        proposal.learn(f'{_WHERE}.aspp.atrous_rates', rates, 'dilations of the layers aspp1, ...')


def _read_backbone(
    model: segmentation_pb2.Segmentation, found: Dict[str, Tuple[int, ...]], proposal: Proposal
) -> None:
    tried: Dict[str, multipliers.Match] = {}
    for name in registry.network_names('segmentation'):
        scope = registry.get_network(name, task='segmentation').scope
        if not any(each.startswith(f'{scope}/') for each in found):
            continue
        match = _match(model, name, found)
        if match is not None:
            tried[name] = match
        if match is not None and not match.differences:
            break
    best = min(tried, key=lambda name: len(tried[name].differences), default=None)
    if best is None or tried[best].differences:
        raise Refusal(
            'its backbone is of no known network',
            {name: match.differences for name, match in tried.items()},
        )
    proposal.network = f'DeepLab on {best}'
    backbone = Section(model, _WHERE).child('backbone')
    proposal.set(backbone, 'name', best, _KERNELS)
    if tried[best].factor != 1.0:
        proposal.set(backbone, 'depth_multiplier', tried[best].factor, _KERNELS)


def _match(
    model: segmentation_pb2.Segmentation, name: str, found: Dict[str, Tuple[int, ...]]
) -> Optional[multipliers.Match]:
    def build(factor: float) -> Optional[kernels_lib.NetworkKernels]:
        trial = segmentation_pb2.Segmentation()
        trial.CopyFrom(model)
        trial.backbone.name = name
        if factor != 1.0:
            trial.backbone.depth_multiplier = factor
        try:
            network = SegmentationNetwork.from_config(trial, trial.num_classes)
            size = [1, _BUILD_SIZE, _BUILD_SIZE, 3]
            return kernels_lib.build_kernels(
                lambda: list(network.logits(tf.zeros(size), False)[fields.SEMANTIC_HEAD].values())
            )
        except (errors.ConfigError, ValueError):
            return None

    return multipliers.search(found, build, lambda name: '/' in name and 'expanded' in name)


def _read_graph(
    artifact: Artifact, graph: Graph, model: segmentation_pb2.Segmentation, proposal: Proposal
) -> None:
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
    model.crop_height = proposal.learn(f'{_WHERE}.crop_height', height, evidence)
    model.crop_width = proposal.learn(f'{_WHERE}.crop_width', width, evidence)
    rows = values['features'].shape[1]
    stride = _stride(values['input'], values['features']) if rows > 1 else 32
    model.backbone.output_stride = stride
    evidence = f'{height} rows of pixels become {rows} of features'
    proposal.learn(f'{_WHERE}.backbone.output_stride', stride, evidence)
    if not takes_pixels:
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
    return None if layer is None else f'{graph.source(graph.inputs(layer.name)[0])}:0'
