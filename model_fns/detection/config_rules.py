"""Rules of the config fields of detection."""

from __future__ import annotations

from typing import Iterator

from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem, problems_of
from model_fns import config_rules
from model_fns.detection import detector, metrics
from model_fns.detection.config_rules_checks import check_ssd, doubts
from model_fns.detection.config_rules_fields import FIELD_SUPPORT
from model_fns.detection.config_rules_values import VALUES
from model_fns.detection.networks.feature_extractors import extractor


def _names(config: PipelineConfig) -> Iterator[Problem]:
    """What is chosen by a name."""
    chosen = config.model.ssd.feature_extractor
    # Whose neck is refused belongs to models whose types are not known either.
    if chosen.type and not chosen.HasField('bifpn'):
        yield from problems_of(extractor.get_extractor, chosen.type, f'{extractor.WHERE}.type')
    yield from problems_of(metrics.check_config, config.eval_config)


RULES = (
    config_rules.EVERY_TASK
    + FIELD_SUPPORT
    + VALUES
    + ConfigRules(
        same_in_readers={
            **dict.fromkeys(('use_display_name', 'load_instance_masks', 'mask_type'), ''),
            'num_keypoints': '',
            'max_number_of_boxes': 'train_config.max_number_of_boxes',
        },
        checkpoint_types={'classification': detector.CHECKPOINT_TYPES},
        problems=(check_ssd, _names),
        doubts=(doubts,),
    )
)
