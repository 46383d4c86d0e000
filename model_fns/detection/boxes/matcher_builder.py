"""Construction of a matcher from a config."""

from __future__ import annotations

from estimator_lib import errors
from model_fns.detection.boxes import adaptive_matchers, matchers
from model_fns.detection.config_rules import checks
from protos import target_assignment_pb2


def build_matcher(config: target_assignment_pb2.Matcher, where: str) -> matchers.Matcher:
    """Build the matcher that a config describes.

    Args:
        config: configuration message.
        where: path of the message, for error messages.

    Raises:
        errors.ConfigError: the message is empty, or its values contradict each other.
    """
    kind = config.WhichOneof('matcher_oneof')
    if kind is None:
        known = ', '.join(field.name for field in config.DESCRIPTOR.fields)
        raise errors.ConfigError(f'{where}: empty; expected one of {known}.')
    checks.check_part(config, where, checks.matcher_problems(where, config))
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
