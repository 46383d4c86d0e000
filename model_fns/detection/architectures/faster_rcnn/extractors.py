"""Two-stage backbones: the first stage runs on images, the second on crops of its features."""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from estimator_lib.config.section import Section
from estimator_lib.optimization.partitioned import MOVING_AVERAGE
from estimator_lib.registry import Registry
from model_fns import layers
from model_fns.backbones import inception_resnet_v2, registry, resnet_v1
from model_fns.detection import generations
from model_fns.detection.architectures.faster_rcnn import pyramid
from model_fns.detection.networks import hyperparams, object_paths
from model_fns.detection.networks.feature_extractors import general
from model_fns.detection.networks.feature_extractors.extractor import Pyramid, pad_to_multiple
from protos import faster_rcnn_pb2

tf1 = tf.compat.v1

FIRST_SCOPE = 'FirstStageFeatureExtractor'
SECOND_SCOPE = 'SecondStageFeatureExtractor'

# (preprocessed images, style, stride) -> features, or end points for a pyramid.
FirstStage = Callable[[tf.Tensor, layers.LayerStyle, int], Union[tf.Tensor, registry.EndPoints]]
# (crops of features, style) -> features.
SecondStage = Callable[[tf.Tensor, layers.LayerStyle], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Extractor:
    """Backbone in two stages.

    Attributes:
        network: name in the registry.
        first_stage: the part that runs on images.
        scales_batch_norm: True: batch norm has a gamma, which the network's may lack.
        renamed: scopes of the second stage, within the network's, with another name in the whole
            network, and so in a classifier's checkpoint.
        of_cells: True: a network of searched cells. As published it keeps its regularization, its
            first stage's batch norm is always trained, and moving averages of a classifier's
            checkpoint are used.
        strides: supported strides of the first stage's features.
        second_stage: the part that runs on crops; None: that of the network.
        second_part: start of the scopes of that part in the whole network.
        keeps_style: True: a configured style only replaces the regularizer of the network's.
        type_name: type in a config.
        pyramid: pyramid on the first stage, which replaces the second; None: there is none.
    """

    network: str
    first_stage: FirstStage
    scales_batch_norm: bool = False
    renamed: Tuple[Tuple[str, str], ...] = ()
    of_cells: bool = False
    strides: Tuple[int, ...] = (8, 16)
    second_stage: Optional[SecondStage] = None
    second_part: str = ''
    keeps_style: bool = False
    type_name: str = ''
    pyramid: Optional[pyramid.FeaturePyramid] = None

    @property
    def generation(self) -> generations.Generation:
        """Generation of the detector, on which details of the computation depend."""
        return generations.find_generation(self.type_name)

    @property
    def scopes(self) -> Tuple[str, str]:
        """Scopes of both stages, which differ between generations in checkpoints."""
        before = self.generation.scope
        return before + FIRST_SCOPE, before + SECOND_SCOPE

    def preprocess(self, images: tf.Tensor) -> tf.Tensor:
        """Normalize images as in the training of the backbone.

        Args:
            images: float32 [B, height, width, channels] in [0, 255].
        """
        return self._network.normalization(images)

    def features(
        self,
        images: tf.Tensor,
        stride: int,
        is_training: bool,
        trains_batch_norm: bool,
        style: Optional[layers.LayerStyle] = None,
    ) -> List[tf.Tensor]:
        """Compute the features of images: [B, height / stride, width / stride, channels].

        The result has one map, or one for each level of a pyramid, from fine to coarse. As
        published the images of a pyramid are padded to a multiple of a number, but boxes are placed
        on its maps as if there were no such padding.

        Args:
            images: float32 [B, height, width, channels], preprocessed.
            stride: one of `strides`; without effect on a pyramid.
            is_training: True: batch norm uses the batch's statistics, if the next one is set too.
            trains_batch_norm: False: batch norm uses its moving statistics in training too.
            style: style of the layers; None: the published one.
        """
        with tf1.variable_scope(self.scopes[0]):
            style = self._style(is_training, trains_batch_norm or self.of_cells, style)
            if self.pyramid is not None:
                images = pad_to_multiple(images, self.pyramid.pad_to_multiple)
            features = self.first_stage(images, style, stride)
            if self.pyramid is None:
                return [features]
            return self.pyramid.maps(features, self._network, is_training, trains_batch_norm)

    def box_features(
        self,
        crops: tf.Tensor,
        is_training: bool,
        trains_batch_norm: bool,
        style: Optional[layers.LayerStyle] = None,
    ) -> tf.Tensor:
        """Compute the features of boxes, [n, height', width', channels'].

        Args:
            crops: [n, height, width, channels], crops of the first stage's features.
            is_training: True: batch norm uses the batch's statistics, if the next one is set too.
            trains_batch_norm: False: batch norm uses its moving statistics in training too.
            style: style of the layers; None: the published one. A pyramid has its own here.
        """
        with tf1.variable_scope(self.scopes[1]):
            if self.pyramid is not None:
                return self.pyramid.box_features(crops, is_training, trains_batch_norm)
            style = self._style(is_training, trains_batch_norm, style)
            return (self.second_stage or self._network.second_stage)(crops, style)

    def restore_map(
        self, variables: Mapping[str, tf.Variable], checkpoint_type: str
    ) -> Dict[str, tf.Variable]:
        """Map names of a checkpoint to variables; see `Detector.restore_map`.

        A part that both stages have is restored from a classifier in the second stage only, because
        the first does not use it.

        Args:
            variables: variables of the model, by name.
            checkpoint_type: `detection`: names are the same; `classification`: names are those of
                the whole network.
        """
        # In this order of scopes: both stages have block4 of a ResNet, and the later one replaces
        # the earlier, as published.
        restored: Dict[str, tf.Variable] = {}
        for scope in self.scopes:
            for name, variable in variables.items():
                if name.startswith(f'{scope}/'):
                    if checkpoint_type == 'classification':
                        name = self._classifier_name(name, scope)
                    restored[name] = variable
        return restored

    def _classifier_name(self, name: str, scope: str) -> str:
        name = name[len(scope) + 1 :]
        for renamed in self.renamed if scope == self.scopes[1] else ():
            ours, whole = (f'{self._network.scope}/{one}/' for one in renamed)
            if name.startswith(ours):
                return whole + name[len(ours) :]
        return f'{name}/{MOVING_AVERAGE}' if self.of_cells else name

    def object_rules(self, variables: Sequence[tf.Variable], whole: bool) -> object_paths.Rules:
        """Build the rules of the paths of both stages, see `object_paths`.

        Args:
            variables: variables of the model.
            whole: True: for a classifier's checkpoint, in which both stages are one network.
        """
        network = self._network
        first, second = (f'{scope}/{network.scope}' for scope in self.scopes)
        if whole:
            classifier = object_paths.CLASSIFIER
            return [
                *object_paths.backbone_rules(network, first, classifier),
                *object_paths.backbone_rules(network, second, classifier, renamed=self.renamed),
            ]
        start = f'{object_paths.MODEL}_feature_extractor_for_'
        if self.pyramid is not None:
            backbone = f'{start}proposal_features/classification_backbone/'
            return [
                *object_paths.backbone_rules(network, first, backbone),
                *self.pyramid.object_rules(variables, first, self.scopes[1], start),
            ]
        return [
            *object_paths.backbone_rules(network, first, f'{start}proposal_features/'),
            *object_paths.backbone_rules(
                network,
                second,
                f'{start}box_classifier_features/',
                first=self.second_part,
                renamed=self.renamed,
            ),
        ]

    def foreign_checkpoint(self, names: Collection[str]) -> str:
        """Describe why a checkpoint is of the other generation; empty if it is not."""
        is_residual = self.network in resnet_v1.ARCHITECTURES
        return generations.foreign(
            names,
            FIRST_SCOPE,
            self.type_name,
            self._network.scope if is_residual else '',
            has_twin=self.pyramid is None,
        )

    @property
    def _network(self) -> registry.Network:
        return registry.get_network(self.network, task='detection')

    def _style(
        self, is_training: bool, trains_batch_norm: bool, style: Optional[layers.LayerStyle]
    ) -> layers.LayerStyle:
        """Return the passed style or the published one, without regularization except for cells."""
        if style is None or self.keeps_style:
            configured = style
            published = self._network.detection_style or self._network.style
            # The published extractors have a decay of 0 that no config changes. NASNet's scope sets
            # its own.
            options = registry.Options() if self.of_cells else registry.Options(weight_decay=0.0)
            style = published(is_training, options)
            if self.scales_batch_norm:
                style = style.with_batch_norm(scale=True)
            if configured is not None:
                style = style.but(
                    regularizer=configured.regularizer, compute_dtype=configured.compute_dtype
                )
        return style if trains_batch_norm else style.frozen()


EXTRACTORS: Registry[Extractor] = Registry('feature extractor')


def find(section: Section[faster_rcnn_pb2.FasterRcnnFeatureExtractor]) -> Extractor:
    """Find the extractor that a config names.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the type is unknown, or does not support the stride or the
            hyperparameters of its pyramid.
    """
    config = section.message
    extractor = EXTRACTORS.get(config.type, section.at('type'))
    if config.first_stage_features_stride not in extractor.strides:
        strides = ' or '.join(map(str, extractor.strides))
        raise section.error('first_stage_features_stride', expected=strides)
    extractor = dataclasses.replace(extractor, type_name=config.type)
    return extractor if extractor.pyramid is None else _with_levels(extractor, section)


def _with_levels(
    extractor: Extractor, section: Section[faster_rcnn_pb2.FasterRcnnFeatureExtractor]
) -> Extractor:
    config = section.message

    def build_style(is_training: bool) -> layers.LayerStyle:
        return hyperparams.build_layer_style(section.child('conv_hyperparams'), is_training)

    levels = Pyramid.from_config(config.fpn)
    neck = pyramid.FeaturePyramid(
        levels, build_style, config.type, section.path, config.pad_to_multiple
    )
    return dataclasses.replace(extractor, pyramid=neck)


def _network_until(name: str, end_point: str) -> FirstStage:
    """Build a network up to an end point, with a stride of 16 or atrous convolutions at 8."""

    def build(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> tf.Tensor:
        network = registry.get_network(name, task='detection')
        options = registry.Options(
            final_endpoint=end_point, output_stride=None if stride == 16 else stride
        )
        return network.features(images, style, options)[end_point]

    return build


def _resnet(name: str) -> FirstStage:
    """Build a network up to block3; block4 is built but unused, as published."""

    def build(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> tf.Tensor:
        network = registry.get_network(name, task='detection')
        points = network.features(images, style, registry.Options(output_stride=stride))
        # block4 has 30 trainable variables without a gradient. Published checkpoints have them.
        return points[f'{network.scope}/block3']

    return build


def _split_resnet(name: str) -> Extractor:
    """Build a ResNet that is split in two, without unused variables.

    Blocks stride in their first unit. This includes the second stage, so crops of 7 x 7 become 4 x
    4.
    """
    last = f'{resnet_v1.ARCHITECTURES[name].scope}/block3'

    def first(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> tf.Tensor:
        return _end_points(name, images, style, last)[last]

    def second(crops: tf.Tensor, style: layers.LayerStyle) -> tf.Tensor:
        options = registry.Options(strides_first=True, sum_activation=style.activation)
        return resnet_v1.resnet_v1_block4(crops, style, options, name)

    return Extractor(name, first, strides=(16,), second_stage=second, second_part='block4')


def _below_pyramid(name: str) -> Extractor:
    """Build a whole network with a pyramid; a ResNet V1 is that of the second generation."""

    def first(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> registry.EndPoints:
        return _end_points(name, images, style)

    return Extractor(name, first, pyramid=pyramid.FeaturePyramid())


def _end_points(
    name: str, images: tf.Tensor, style: layers.LayerStyle, last: Optional[str] = None
) -> registry.EndPoints:
    """Compute the end points of a network of the second generation, up to the last named one."""
    options = registry.Options(
        strides_first=True, sum_activation=style.activation, final_endpoint=last
    )
    return registry.get_network(name, task='detection').features(images, style, options)


def _cells(name: str) -> FirstStage:
    """Build a first stage of cells, whose last two maps are concatenated."""

    def build(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> tf.Tensor:
        del stride  # only one is supported
        network = registry.get_network(name, task='detection')
        return network.first_stage(images, style, registry.Options())

    return build


def _inception_resnet(images: tf.Tensor, style: layers.LayerStyle, stride: int) -> tf.Tensor:
    end_point = inception_resnet_v2.AUXILIARY_END_POINT
    return inception_resnet_v2.inception_resnet_v2_features(
        images, style, output_stride=stride, align_feature_maps=True, final_endpoint=end_point
    )[end_point]


for _size in (50, 101, 152):
    _name = f'resnet_v1_{_size}'
    _type = f'faster_rcnn_resnet{_size}'
    EXTRACTORS.add(_type, Extractor(_name, _resnet(_name)))
    for _other, _extractor in (
        (generations.counterpart(_type), _split_resnet(_name)),
        (generations.with_pyramid(_type), _below_pyramid(_name)),
    ):
        EXTRACTORS.add(_other, dataclasses.replace(_extractor, type_name=_other))
EXTRACTORS.add(
    'faster_rcnn_inception_v2',
    # The published program accepts 8 too, but uses 16.
    Extractor(
        'inception_v2',
        _network_until('inception_v2', 'Mixed_4e'),
        scales_batch_norm=True,
        strides=(16,),
    ),
)
_type = 'faster_rcnn_inception_resnet_v2'
_extractor = Extractor(
    'inception_resnet_v2',
    _inception_resnet,
    renamed=(('Repeat', 'Repeat_2'),),
    second_part=inception_resnet_v2.SECOND_PART,
)
EXTRACTORS.add(_type, _extractor)
EXTRACTORS.add(
    generations.counterpart(_type),
    dataclasses.replace(
        _extractor,
        # At 8 the published program also makes layers atrous that only have as many channels.
        strides=(16,),
        second_stage=functools.partial(
            inception_resnet_v2.build_second_stage, align_feature_maps=True
        ),
        type_name=generations.counterpart(_type),
    ),
)
for _size in ('nas', 'pnas'):
    _name = f'{_size}net_large'
    EXTRACTORS.add(
        f'faster_rcnn_{_size}', Extractor(_name, _cells(_name), of_cells=True, strides=(16,))
    )
for _name in general.NETWORKS:
    _type = generations.with_pyramid(f'faster_rcnn_{_name}')
    _extractor = dataclasses.replace(_below_pyramid(_name), keeps_style=True, type_name=_type)
    EXTRACTORS.add(_type, _extractor)
# These are published without names; the names here are those of the classifiers.
for _suffix in ('', '_075', '_050', '_025'):
    _name = f'mobilenet_v1{_suffix}'
    _type = f'faster_rcnn_{_name}'
    EXTRACTORS.add(_type, Extractor(_name, _network_until(_name, 'Conv2d_11_pointwise')))
    # Not published either; what the pyramid adds is that of the published types with one.
    _type = generations.with_pyramid(_type)
    _extractor = dataclasses.replace(_below_pyramid(_name), type_name=_type)
    EXTRACTORS.add(_type, _extractor)
