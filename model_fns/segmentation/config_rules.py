"""Config rules of segmentation."""

from __future__ import annotations

from typing import Any, Iterator

from estimator_lib.config.rules import ConfigRules, PipelineConfig, Problem, find_build_problems
from estimator_lib.config.section import Section
from model_fns import checkpoint_scopes, config_rules
from model_fns.segmentation.data import presets
from model_fns.segmentation.networks import backbones


def _problems(config: PipelineConfig) -> Iterator[Problem]:
    section = Section(config).child('model.segmentation')
    model = section.message
    if model.backbone.name:
        yield from find_build_problems(backbones.get_backbone, model.backbone.name)
    else:
        yield section.problem(
            'backbone.name',
            'not set; expected the name of a network, like "mobilenet_v2".',
        )
    yield from find_build_problems(presets.from_config, model)


def _find_warnings(config: PipelineConfig) -> Iterator[str]:
    model = config.model.segmentation
    views = (model.evaluation, model.export)
    if model.predict_with_upsampled_logits or any(_is_one_pass(view) for view in views):
        return
    yield (
        'model.segmentation.predict_with_upsampled_logits has no effect without an evaluation or '
        'an export of one pass at scale 1: the mean over several passes is taken of resized logits.'
    )


def _is_one_pass(view: Any) -> bool:
    """Return whether an evaluation or export runs once per image, at scale 1."""
    return list(view.scales) in ([], [1.0]) and not view.add_flipped_images


RULES = config_rules.CHANNELS + ConfigRules(
    models=frozenset({'segmentation'}),
    checkpoint_types={'a checkpoint of the same model': tuple(checkpoint_scopes.PREFIXES)},
    problems=(_problems,),
    warnings=(_find_warnings,),
)
