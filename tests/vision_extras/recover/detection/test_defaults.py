"""Published defaults by type."""

from vision_extras.recover.detection import defaults


def test_pyramids_have_another_loss_than_stacked_maps():
    plain = defaults.build('ssd_mobilenet_v2', 'convolutional_box_predictor')
    pyramid = defaults.build('ssd_mobilenet_v1_fpn', 'weight_shared_convolutional_box_predictor')
    losses = [each.model.ssd.loss.classification_loss for each in (plain, pyramid)]
    assert [each.WhichOneof('classification_loss') for each in losses] == [
        'weighted_sigmoid',
        'weighted_sigmoid_focal',
    ]
    overrides = [
        each.model.ssd.feature_extractor.override_base_feature_extractor_hyperparams
        for each in (plain, pyramid)
    ]
    assert overrides == [False, True]
