"""Recognition of the feature pyramids of two-stage detectors."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Iterator, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from model_fns.backbones import registry
from model_fns.detection import generations
from model_fns.detection.architectures.faster_rcnn import extractors, pyramid
from model_fns.detection.networks import hyperparams
from model_fns.detection.networks.feature_extractors.extractor import Pyramid
from vision_extras.recover import networks
from vision_extras.recover.artifacts import graphs
from vision_extras.recover.facts import Proposal, Refusal
from vision_extras.recover.kernels import Kernels, NetworkKernels, build_kernels

Shapes = Mapping[str, Tuple[int, ...]]

_SCOPE = f'{generations.SECOND.scope}{extractors.FIRST_SCOPE}'
_WHERE = 'model.faster_rcnn.feature_extractor'
_PROJECTION = re.compile(rf'^{_SCOPE}/.*/fpn/projection_\d+/weights$')
_ADDED_LAYERS = rf'{_SCOPE}/.*/fpn/'
_BACKBONE_LAYERS = rf'{_SCOPE}/(?!.*/fpn/)'
_NORMS = re.compile(
    rf'^({_SCOPE}/.*/fpn/.*|{generations.SECOND.scope}{extractors.SECOND_SCOPE})'
    r'/BatchNorm/(gamma|beta|moving_mean|moving_variance)$'
)
_EVIDENCE = 'names and shapes of all kernels'
_LAST_TAPPED = 5  # level
_SIDE = 128
_MULTIPLES = (32, 1, 64, 128, 16)


def has_pyramid(shapes: Shapes) -> bool:
    """Check whether kernels have those of a pyramid."""
    return any(map(_PROJECTION.match, shapes))


def read(kernels: Kernels, count: int, proposal: Proposal) -> None:
    """Read the network, the levels and the layers of a pyramid.

    Args:
        kernels: of the artifact.
        count: number of levels.
        proposal: changed in place.

    Raises:
        Refusal: the network is not known.
    """
    proposal.config.model.faster_rcnn.clip_anchors_to_image = True
    shapes = kernels.shapes()
    found = {name: shape for name, shape in shapes.items() if name.startswith(f'{_SCOPE}/')}
    candidates = [
        (kind, levels) for kind in extractors.EXTRACTORS for levels in _levels(kind, found, count)
    ]
    builds = [(kind, functools.partial(_build, kind, levels)) for kind, levels in candidates]
    reason = 'the feature extractor is of no known network'
    kind, levels = candidates[networks.choose(found, builds, reason)[0]]
    proposal.network = kind
    proposal.set(f'{_WHERE}.type', kind, _EVIDENCE)
    proposal.set(f'{_WHERE}.fpn.min_level', levels.min_level, _EVIDENCE)
    proposal.set(f'{_WHERE}.fpn.max_level', levels.max_level, _EVIDENCE)
    proposal.set(f'{_WHERE}.fpn.additional_layer_depth', levels.depth, _EVIDENCE)
    _read_style(kernels, proposal)
    _read_override(kind, kernels, proposal)


def _levels(kind: str, found: Shapes, count: int) -> Iterator[Pyramid]:
    """Yield the levels that a type may have, by the number of maps and of projections."""
    extractor = extractors.EXTRACTORS.get(kind)
    scope = registry.get_network(extractor.network, task='detection').scope
    is_inside = any(name.startswith(f'{_SCOPE}/{scope}/') for name in found)
    projections = [shape for name, shape in found.items() if _PROJECTION.match(name)]
    for min_level in (2, 3, 4, 5) if extractor.pyramid is not None and is_inside else ():
        max_level = min_level + count - 1
        if min(max_level, _LAST_TAPPED) - min_level + 1 == len(projections):
            yield Pyramid(min_level, max_level, projections[0][-1])


def _build(kind: str, levels: Pyramid, factor: float) -> Optional[NetworkKernels]:
    neck = pyramid.FeaturePyramid(levels, type_name=kind)
    built = dataclasses.replace(extractors.EXTRACTORS.get(kind), pyramid=neck)
    images = [1, _SIDE, _SIDE, 3]
    if factor != 1.0:
        return None
    return build_kernels(
        lambda: built.features(tf.zeros(images), 16, is_training=False, trains_batch_norm=False)
    )


def _read_style(kernels: Kernels, proposal: Proposal) -> None:
    """Read the hyperparameters of the layers of a pyramid."""
    where = f'{_WHERE}.conv_hyperparams'
    kernels.read_style(where, _ADDED_LAYERS, proposal)
    norms = [name for name in kernels.arrays if _NORMS.search(name)]
    if norms:
        scale = any(name.endswith('/gamma') for name in norms)
        proposal.set('batch_norm.scale', scale, 'names of its variables', where)
    elif not any(re.search(_ADDED_LAYERS, scope) for scope in kernels.folded):
        proposal.at(where).ClearField('batch_norm')


def _read_override(kind: str, kernels: Kernels, proposal: Proposal) -> None:
    """Read whether the hyperparameters hold for the backbone too, if its style tells it."""
    extractor = extractors.EXTRACTORS.get(kind)
    network = registry.get_network(extractor.network, task='detection')
    style = (network.detection_style or network.style)(False, registry.Options())
    activation, epsilon = kernels.activation(_BACKBONE_LAYERS), kernels.epsilon(_BACKBONE_LAYERS)
    if extractor.keeps_style or activation is None:
        return
    config = proposal.at(f'{_WHERE}.conv_hyperparams')
    name = type(config).Activation.Name(config.activation)
    configured = graphs.ACTIVATIONS[activation] == name
    used = type(config)(activation=graphs.ACTIVATIONS[activation])
    published = hyperparams.activation(used) is style.activation
    if configured == published and epsilon is not None and style.batch_norm is not None:
        configured = abs(epsilon - config.batch_norm.epsilon) < 1e-3 * epsilon
        published = abs(epsilon - style.batch_norm.epsilon) < 1e-3 * epsilon
    if configured != published:
        where = f'{_WHERE}.override_base_feature_extractor_hyperparams'
        proposal.set(where, configured, 'activations and batch norms of the backbone')


def read_padding(grid: Sequence[int], size: Sequence[int], proposal: Proposal) -> None:
    """Read the number that images are padded to a multiple of.

    Args:
        grid: rows and columns of the finest level.
        size: height and width of images.
        proposal: with the levels; changed in place.

    Raises:
        Refusal: no number is right.
    """
    config = proposal.at(_WHERE)
    stride = 2**config.fpn.min_level
    evidence = f'images of {size} pixels have a map of {grid} cells'
    for multiple in _MULTIPLES:
        padded = [-(-side // multiple) * multiple for side in size]
        if [-(-side // stride) for side in padded] == list(grid):
            break
    else:
        raise Refusal(evidence)
    if multiple != config.pad_to_multiple:
        proposal.set(f'{_WHERE}.pad_to_multiple', multiple, evidence)
