"""Construction of a matcher from a config."""

from __future__ import annotations

from estimator_lib.config.section import Section
from model_fns.detection.boxes import adaptive_matchers, matchers
from model_fns.detection.config_rules import checks
from protos import target_assignment_pb2


def build_matcher(section: Section[target_assignment_pb2.Matcher]) -> matchers.Matcher:
    """Build the matcher that a config describes.

    Args:
        section: configuration message.

    Raises:
        errors.ConfigError: the message is empty, or its values contradict each other.
    """
    config = section.message
    kind = config.WhichOneof('matcher_oneof')
    if kind is None:
        known = ', '.join(field.name for field in config.DESCRIPTOR.fields)
        raise section.error('', f'empty; expected one of {known}.')
    checks.check_part(section)
    if kind == 'bipartite_matcher':
        return matchers.BipartiteMatcher()
    if kind == 'atss_matcher':
        return adaptive_matchers.AtssMatcher(config.atss_matcher.candidates_per_map)
    if kind == 'dynamic_matcher':
        dynamic = config.dynamic_matcher
        return adaptive_matchers.DynamicMatcher(
            dynamic.max_anchors,
            dynamic.classification_weight,
            dynamic.localization_weight,
            dynamic.static_steps,
        )
    matcher = config.argmax_matcher
    return matchers.ArgMaxMatcher(
        None if matcher.ignore_thresholds else matcher.matched_threshold,
        None if matcher.ignore_thresholds else matcher.unmatched_threshold,
        matcher.negatives_lower_than_unmatched,
        matcher.force_match_for_each_row,
    )
