import pytest

from model_fns.backbones import registry
from model_fns.backbones.hub_weights import family, mobile
from tests.model_fns.backbones.hub_weights import drawn_weights, recorded_weights

# Logits of timm 1.0.31's `tf_efficientnetv2_b0` with `channel_multiplier=0.3, num_classes=10`, see
# `drawn_weights`.
V2 = """
    -0.62645 0.35162 -0.20037 0.43935 0.47973 0.17570 -0.23881 0.26136 0.20406 -0.13460
    -0.61125 0.29929 -0.27169 0.51174 0.40410 0.11443 -0.21531 0.17527 0.16415 -0.16577
"""
# (output channels, blocks, expansion, whether there are gates) of each stage of that model.
V2_STAGES = (
    (8, 1, 1, False),
    (8, 2, 4, False),
    (16, 2, 4, False),
    (32, 3, 4, True),
    (32, 5, 6, True),
    (56, 8, 6, True),
)


def v2_shapes():
    """List the tensors of the small EfficientNetV2."""

    def list_layers(inputs, outputs, expansion, gated):
        wide = inputs * expansion
        if gated:
            yield 'conv_pw', (wide, inputs, 1, 1)
            yield 'conv_dw', (wide, 1, 3, 3)
            yield 'conv_pwl', (outputs, wide, 1, 1)
        elif expansion > 1:
            yield 'conv_exp', (wide, inputs, 3, 3)
            yield 'conv_pwl', (outputs, wide, 1, 1)
        else:
            yield 'conv', (outputs, inputs, 3, 3)

    def list_tensors():
        yield 'conv_stem.weight', (8, 3, 3, 3)
        yield from drawn_weights.norm('bn1', 8)
        inputs = 8
        for stage, (outputs, count, expansion, gated) in enumerate(V2_STAGES):
            for block in range(count):
                name, wide = f'blocks.{stage}.{block}', inputs * expansion
                layers = list_layers(inputs, outputs, expansion, gated)
                for number, (layer, shape) in enumerate(layers, start=1):
                    yield f'{name}.{layer}.weight', shape
                    yield from drawn_weights.norm(f'{name}.bn{number}', shape[0])
                if gated:
                    hidden = inputs // 4
                    reduced, expanded = (hidden, wide, 1, 1), (wide, hidden, 1, 1)
                    yield from drawn_weights.layer(f'{name}.se.conv_reduce', reduced)
                    yield from drawn_weights.layer(f'{name}.se.conv_expand', expanded)
                inputs = outputs
        yield 'conv_head.weight', (384, inputs, 1, 1)
        yield from drawn_weights.norm('bn2', 384)
        yield from drawn_weights.layer('classifier', (10, 384))

    return dict(list_tensors())


def test_logits_of_efficientnet_v2_are_those_of_timm():
    tensors = drawn_weights.draw(v2_shapes())
    options = registry.Options(depth_multiplier=0.3)
    recorded_weights.check_drawn('efficientnetv2_b0', tensors, (65, 96), V2, options)


@pytest.mark.parametrize('kind', [mobile.EFFICIENTNET, mobile.EFFICIENTNET_V2, mobile.MOBILENET_V3])
def test_an_unknown_part(kind):
    with pytest.raises(family.UnknownNameError, match=r'^blocks\.0\.0\.attention\.weight$'):
        family.map_tensors(kind, {'blocks.0.0.attention.weight': (8, 4)})
