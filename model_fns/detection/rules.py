"""Config rules of detection."""

from __future__ import annotations

from typing import Iterator, Tuple

from estimator_lib import errors
from estimator_lib.config import support
from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem, find_build_problems
from estimator_lib.config.section import Section
from model_fns import config_rules
from model_fns.detection import detector, metrics
from model_fns.detection.architectures.center_net import extractors as center_net_extractors
from model_fns.detection.architectures.center_net import keypoint_search
from model_fns.detection.architectures.faster_rcnn import extractors
from model_fns.detection.config_rules import center_net as center_net_checks
from model_fns.detection.config_rules import two_stage as two_stage_checks
from model_fns.detection.config_rules.checks import check_ssd, size_problems
from model_fns.detection.config_rules.kinds import CENTER_NET, SINGLE_SHOT, TWO_STAGE, is_rotated
from model_fns.detection.networks.feature_extractors import bifpn, efficientnet, extractor
from protos import center_net_pb2, hyperparams_pb2, model_pb2

# Reader fields of masks and keypoints, each with words for messages.
_FIELDS = (
    ('load_instance_masks', 'masks are', 'true'),
    ('num_keypoints', 'keypoints are', 'how many an object has'),
)


def check_instance_readers(config: PipelineConfig) -> Iterator[Problem]:
    """Check that evaluations read the masks and keypoints that their metrics need."""
    try:
        needs = metrics.find_instance_sets(config.eval_config)
    except errors.ConfigError:
        return  # another check reports unknown sets of metrics
    for (field, what, expected), name in zip(_FIELDS, needs):
        for index, reader in enumerate(config.eval_input_reader):
            if name is not None and not getattr(reader, field):
                yield Problem(
                    f'eval_input_reader.{index}.{field}',
                    f'{what} not read, but eval_config asks for {name}; expected {expected}.',
                )


def _names(config: PipelineConfig) -> Iterator[Problem]:
    """Check the names of networks, metrics and steps, and that they fit the model."""
    model = Section(config).child('model')
    section = model.child('ssd.feature_extractor')
    chosen = section.message
    if chosen.type:
        yield from find_build_problems(extractor.get_extractor, chosen.type, section.at('type'))
    if chosen.HasField('bifpn'):
        neck, where = chosen.bifpn, section.at('bifpn.combine_method')
        yield from find_build_problems(bifpn.COMBINATIONS.get, neck.combine_method, where)
        if chosen.type in efficientnet.TYPES:
            yield from find_build_problems(
                efficientnet.check_levels, neck.min_level, neck.max_level
            )
    of_two_stages = model.child('faster_rcnn.feature_extractor')
    if of_two_stages.message.type:
        yield from find_build_problems(extractors.find, of_two_stages)
    yield from _names_of_center_net(model.child('center_net'))
    yield from find_build_problems(metrics.check_config, config.eval_config, is_rotated(config))


def _names_of_center_net(section: Section[center_net_pb2.CenterNet]) -> Iterator[Problem]:
    if section.message.feature_extractor.type:
        yield from find_build_problems(center_net_extractors.find, section)
    for task in section.children('keypoint_estimation_task'):
        mode, field = task.message.candidate_ranking_mode, task.at('candidate_ranking_mode')
        yield from find_build_problems(keypoint_search.RANKINGS.get, mode, field)


def _sides(config: PipelineConfig) -> Iterator[Problem]:
    model = Section(config).child('model.ssd')
    multiple = efficientnet.size_multiple(model.message.feature_extractor)
    yield from size_problems(model, multiple)


def synchronized_fields(model: model_pb2.DetectionModel) -> Tuple[str, ...]:
    """Return paths of the layers whose batch norm has the statistics of all replicas' batches."""
    return tuple(
        part.at(_SYNCHRONIZED)
        for part in support.set_messages(select_rules(model), Section(model, 'model'))
        if isinstance(part.message, hyperparams_pb2.Hyperparams)
        and part.message.HasField(_SYNCHRONIZED)
    )


_SYNCHRONIZED = 'sync_batch_norm'

_COMMON = config_rules.CHANNELS + ConfigRules(
    same_in_readers={
        **dict.fromkeys(('use_display_name', 'load_instance_masks', 'mask_type'), ''),
        **dict.fromkeys(('load_context_features', 'expand_labels_hierarchy'), ''),
        **dict.fromkeys(('num_keypoints', 'use_keypoint_label_map'), ''),
        'max_number_of_boxes': 'train_config.max_number_of_boxes',
    },
    checkpoint_types={'classification': detector.CHECKPOINT_TYPES},
    problems=(_names, check_instance_readers),
)
_SINGLE_SHOT = SINGLE_SHOT + ConfigRules(problems=(check_ssd, _sides)) + _COMMON
_TWO_STAGE = (
    TWO_STAGE
    + ConfigRules(
        problems=(two_stage_checks.check_two_stage,), warnings=(two_stage_checks.find_warnings,)
    )
    + _COMMON
)
_CENTER_NET = (
    CENTER_NET
    + ConfigRules(
        problems=(center_net_checks.check_center_net,), warnings=(center_net_checks.find_warnings,)
    )
    + _COMMON
)


def select_rules(config: model_pb2.DetectionModel) -> ConfigRules:
    """Return the rules of a kind of detector."""
    if config.HasField('center_net'):
        return _CENTER_NET
    return _TWO_STAGE if config.HasField('faster_rcnn') else _SINGLE_SHOT
