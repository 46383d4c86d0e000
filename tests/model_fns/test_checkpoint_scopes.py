from model_fns import checkpoint_scopes
from model_fns.detection.networks.feature_extractors import extractor


def test_the_scope_of_a_detector_is_the_one_that_its_variables_have():
    assert checkpoint_scopes.PREFIXES == {
        'classification': '',
        'detection': 'FeatureExtractor/',
        'segmentation': '',
    }
    assert f'{extractor.SCOPE}/' == checkpoint_scopes.PREFIXES['detection']
