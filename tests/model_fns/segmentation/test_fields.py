"""Names that exported models and records are read by."""

from model_fns.segmentation import fields


def test_published_names_of_outputs():
    assert fields.OUTPUTS == (
        'SemanticPredictions',
        'SemanticProbabilities',
        'InstanceCenters',
        'CenterOffsets',
        'EdgePredictions',
    )


def test_heads_are_scopes_of_checkpoints():
    heads = (
        fields.SEMANTIC_HEAD,
        fields.INSTANCE_CENTER_HEAD,
        fields.OFFSET_HEAD,
        fields.EDGE_HEAD,
    )
    assert heads == ('semantic', 'instance_center', 'offset', 'edge')
