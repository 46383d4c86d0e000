"""Rules of the config fields of classification, and what they say of the network."""

from __future__ import annotations

from typing import Iterator, Tuple

from estimator_lib import errors
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem, find_build_problems
from model_fns import checkpoint_scopes, config_rules
from model_fns.backbones import registry
from model_fns.classification import merged_views, preprocessing
from protos import classification_pb2


def _backbone(config: PipelineConfig) -> Iterator[Problem]:
    model = config.model.classification
    if not model.HasField('num_classes'):
        yield Problem('model.classification.num_classes', 'not set; expected at least 1.')
    field = 'model.classification.backbone.name'
    if model.backbone.name:
        yield from find_build_problems(registry.get_network, model.backbone.name, field)
    else:
        yield Problem(field, 'not set; expected the name of a network, like "mobilenet_v1".')
    if model.preprocessing:
        families, field = preprocessing.FAMILIES, 'model.classification.preprocessing'
        yield from find_build_problems(families.get, model.preprocessing, field)


def _views(config: PipelineConfig) -> Iterator[Problem]:
    """Check the scales of test-time augmentation against the network."""
    model, evaluation = config.model.classification, config.eval_config
    scales = evaluation.test_time_augmentation.scales
    if min(scales, default=0.0) <= 0.0 or any(_backbone(config)):
        return  # another check reports these problems
    network = registry.get_network(model.backbone.name)
    size = model.image_height or network.image_size, model.image_width or network.image_size
    yield from find_build_problems(merged_views.build_views, evaluation, network, size)


def _gray(config: PipelineConfig) -> Iterator[Problem]:
    """Check that a network of gray images gets no further channels."""
    model, name = config.model.classification, 'num_additional_channels'
    if any(_backbone(config)):
        return  # another check reports these problems
    is_gray = registry.get_network(model.backbone.name).image_channels == 1
    if config.train_input_reader.num_additional_channels and (is_gray or model.use_grayscale):
        text = 'the network takes gray images; expected 0.'
        yield Problem(f'train_input_reader.{name}', text)


RULES = config_rules.CHANNELS + ConfigRules(
    models=frozenset({'classification'}),
    checkpoint_types={'a checkpoint of the same model': tuple(checkpoint_scopes.PREFIXES)},
    problems=(_backbone, _views, _gray),
)


def check_size(network: registry.Network, size: Tuple[int, int]) -> None:
    """Refuse a size of images below the smallest one of a network.

    Args:
        network: the classifier.
        size: height and width in pixels.

    Raises:
        errors.ConfigError: a side is too small.
    """
    if min(size) < network.min_size:
        raise errors.ConfigError(
            f'model.classification: {network.name} takes images of at least {network.min_size} x '
            f'{network.min_size} pixels; image_height x image_width is {size[0]} x {size[1]}.'
        )


def network_options(
    model: classification_pb2.Classification, network: registry.Network, num_steps: int
) -> registry.Options:
    """Return the network's options from the config.

    Args:
        model: `model.classification`.
        network: the classifier.
        num_steps: number of training steps; 0: no end.

    Raises:
        errors.ConfigError: the network has no such option.
    """
    # The number of steps matters only where a probability falls with them.
    falls = 'drop_path_steps' in network.honors
    options = registry.Options.from_config(model.backbone, num_steps if falls else 0)
    if model.HasField('dropout_keep_prob'):
        options = options.but(dropout_keep_prob=model.dropout_keep_prob)
    for name in options.changed():
        if name not in network.honors:
            scope = '' if name == 'dropout_keep_prob' else 'backbone.'
            raise errors.ConfigError(
                f'model.classification.{scope}{name}: {network.name} has no such option; it has '
                f'{", ".join(network.honors) or "none"}.'
            )
    return options
