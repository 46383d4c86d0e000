"""Configs that recoveries of single-shot detectors begin with."""

from vision_extras.recover.detection import defaults


def test_bases_have_the_training_of_the_package_and_no_sizes():
    plain = defaults.build('ssd_mobilenet_v2', 'convolutional_box_predictor')
    pyramid = defaults.build('ssd_mobilenet_v1_fpn', 'weight_shared_convolutional_box_predictor')
    for config in (plain, pyramid):
        ssd = config.model.ssd
        assert ssd.loss.classification_loss.HasField('weighted_sigmoid_focal')
        assert ssd.matcher.argmax_matcher.matched_threshold == 0.5
        assert not ssd.HasField('anchor_generator') and not ssd.HasField('image_resizer')
        assert not ssd.feature_extractor.HasField('fpn')
        assert ssd.feature_extractor.conv_hyperparams.batch_norm.decay < 0.98
    overrides = [
        each.model.ssd.feature_extractor.override_base_feature_extractor_hyperparams
        for each in (plain, pyramid)
    ]
    assert overrides == [False, True]
