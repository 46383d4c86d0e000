"""Recognition of single-shot feature extractors by the names and shapes of their kernels."""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from estimator_lib import errors
from model_fns import layers
from model_fns.detection import generations
from model_fns.detection.networks.feature_extractors import efficientnet, extractor
from model_fns.detection.networks.feature_extractors.bifpn import BidirectionalPyramid
from vision_extras.recover import kernels as kernels_lib
from vision_extras.recover import multipliers
from vision_extras.recover.detection import necks

Shapes = Mapping[str, Tuple[int, ...]]

_PUBLISHED_MIN_DEPTH = 16
_PUBLISHED_DEPTH = 256  # of pyramids
_UNSUPPORTED = 'mnasfpn'  # its neck has no settings that its kernels tell
_BUILD_SIZE = 320
_OTHER = re.compile(r'/(fpn|bifpn|toplayers|additional_layers)|bottom_up|Conv2d_\d+_\dx\d')


class Match(NamedTuple):
    """Feature extractor that an artifact has.

    Attributes:
        settings: fields of `SsdFeatureExtractor` by name.
        min_level: finest level of a pyramid; 0: there is none.
        max_level: coarsest.
        depth: channels of a pyramid.
        differences: to the artifact; empty: they are equal.
        neck: of an EfficientDet, with the channels of the config; None: it is none.
    """

    settings: Dict[str, object]
    min_level: int
    max_level: int
    depth: int
    differences: List[str]
    neck: Optional[BidirectionalPyramid] = None


def scopes() -> Sequence[str]:
    """Return the scopes that kernels of feature extractors begin with."""
    return (extractor.SCOPE, f'{generations.SECOND.scope}{extractor.SCOPE}')


def recognize(shapes: Shapes, num_maps: int) -> List[Match]:
    """Find the feature extractors that are nearest to an artifact, the nearest first.

    Args:
        shapes: kernels of the artifact.
        num_maps: number of feature maps.
    """
    scope = next((each for each in scopes() if _inside(shapes, each)), None)
    if scope is None:
        return []
    found = _inside(shapes, scope)
    has_pyramid = any('/fpn/' in name for name in found)
    matches = []
    for kind in extractor.extractor_types():
        if has_pyramid != ('_fpn' in kind) or _UNSUPPORTED in kind:
            continue
        settings = extractor.Settings(style=layers.LayerStyle(), type_name=kind)
        try:
            candidate = extractor.get_extractor(kind)(settings)
        except errors.ConfigError:
            continue
        prefix = f'{candidate.scope}/{candidate.backbone_scope}/'
        if candidate.scope != scope or not any(name.startswith(prefix) for name in found):
            continue
        if kind in efficientnet.TYPES:
            matches += _matches_of_neck(kind, found)
        else:
            matches += _matches_of_type(kind, found, num_maps, has_pyramid)
    # A network of another size may have the same kernels with a factor.
    return sorted(
        matches,
        key=lambda match: (len(match.differences), match.settings['depth_multiplier'] != 1.0),
    )


def _inside(shapes: Shapes, scope: str) -> Dict[str, Tuple[int, ...]]:
    return {name: shape for name, shape in shapes.items() if name.startswith(f'{scope}/')}


def _matches_of_type(kind: str, found: Shapes, num_maps: int, has_pyramid: bool) -> List[Match]:
    depthwise = any(name.endswith('/depthwise_weights') and _OTHER.search(name) for name in found)
    width = _pyramid_width(found)
    best: Optional[Match] = None
    for min_level, max_level in _levels(num_maps) if has_pyramid else [(0, 0)]:
        match = _with_multiplier(kind, found, num_maps, depthwise, (min_level, max_level, width))
        if match and (best is None or len(match.differences) < len(best.differences)):
            best = match
        if best is not None and not best.differences:
            break
    return [best] if best else []


def _matches_of_neck(kind: str, found: Shapes) -> List[Match]:
    neck = necks.recognize(found)
    if neck is None or not necks.may_be(kind, found):
        return []
    widths = [shape[-1] for name, shape in found.items() if name.endswith('/project/weights')]
    least = min([*widths, neck.depth, _PUBLISHED_MIN_DEPTH])
    settings: Dict[str, object] = {'type': kind, 'min_depth': least}

    def configured(factor: float) -> BidirectionalPyramid:
        # The factor holds for the neck too.
        scaled = extractor.Settings(layers.LayerStyle(), depth_multiplier=factor, min_depth=least)
        depth = round(neck.depth / factor)
        return dataclasses.replace(
            neck, depth=depth if scaled.depth(depth) == neck.depth else neck.depth
        )

    def build(factor: float) -> Optional[kernels_lib.NetworkKernels]:
        scaled = {**settings, 'depth_multiplier': factor, 'bifpn': configured(factor)}
        # The sides of maps must be halved up to the coarsest level.
        return _build(scaled, 0, (0, 0, 0), 2**neck.max_level)

    match = multipliers.search(found, build, lambda name: not _OTHER.search(name))
    if match is None:
        return []
    settings['depth_multiplier'] = match.factor
    return [Match(settings, 0, 0, 0, match.differences, configured(match.factor))]


def _levels(num_maps: int) -> Iterator[Tuple[int, int]]:
    """Yield (finest, coarsest) level of pyramids with that many levels, the usual first."""
    for min_level in (3, 4, 2, 5):
        yield min_level, min_level + num_maps - 1


def _with_multiplier(
    kind: str, found: Shapes, num_maps: int, depthwise: bool, levels: Tuple[int, int, int]
) -> Optional[Match]:
    least = min(shape[-1] for name, shape in found.items() if name.endswith('/weights'))
    settings: Dict[str, object] = {'type': kind, 'min_depth': min(least, _PUBLISHED_MIN_DEPTH)}
    if depthwise:
        settings['use_depthwise'] = True
    depths: Dict[float, int] = {}

    def build(factor: float) -> Optional[kernels_lib.NetworkKernels]:
        scaled = {**settings, 'depth_multiplier': factor}
        network = None
        for depths[factor] in _depths(scaled, levels[2]):
            network = _build(scaled, num_maps, (*levels[:2], depths[factor]))
            if network is None or _pyramid_width(network.shapes) == levels[2]:
                break
        return network

    match = multipliers.search(found, build, lambda name: not _OTHER.search(name))
    if match is None:
        return None
    settings['depth_multiplier'] = match.factor
    return Match(settings, *levels[:2], depths[match.factor], match.differences)


def _depths(settings: Mapping[str, object], width: int) -> List[int]:
    """Return depths of a pyramid that may have layers of that width, the usual first."""
    style = layers.LayerStyle()
    scaled = extractor.Settings(
        style=style,
        **{  # type: ignore[arg-type]
            name: settings[name] for name in ('depth_multiplier', 'min_depth')
        },
    )
    usual = (_PUBLISHED_DEPTH, round(width / scaled.depth_multiplier))
    return [*[depth for depth in usual if scaled.depth(depth) == width], width]


def _pyramid_width(shapes: Shapes) -> int:
    return next((s[-1] for name, s in shapes.items() if 'fpn/projection' in name), 0)


def _build(
    settings: Mapping[str, object],
    num_maps: int,
    levels: Tuple[int, int, int],
    side: int = _BUILD_SIZE,
) -> Optional[kernels_lib.NetworkKernels]:
    """Return the kernels of a feature extractor; None where it cannot have these settings."""
    fields = {name: value for name, value in settings.items() if name != 'type'}
    if levels[0]:
        fields['pyramid'] = extractor.Pyramid(*levels)
    elif 'bifpn' not in settings:
        fields['num_layers'] = num_maps
    built = extractor.Settings(
        style=layers.LayerStyle(),
        type_name=str(settings['type']),
        **fields,  # type: ignore
    )
    try:
        candidate = extractor.get_extractor(built.type_name)(built)
        size = [1, side, side, 3]
        return kernels_lib.build_kernels(lambda: candidate.extract(tf.zeros(size)))
    except (errors.ConfigError, ValueError, KeyError, IndexError):
        return None
