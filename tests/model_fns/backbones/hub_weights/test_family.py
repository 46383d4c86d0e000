import pytest

from model_fns.backbones.hub_weights import family

SHAPES = {
    'a.weight': (8, 4, 3, 5),
    'a.bias': (8,),
    'b.weight': (8, 1, 3, 5),
    'c.pointwise_conv2d.weight': (8, 4, 1, 1),
    'd.weight': (10, 8),
    'n.weight': (8,),
    'n.bias': (8,),
    'n.running_mean': (8,),
    'n.running_var': (8,),
    'n.num_batches_tracked': (),
}


def map_shapes(**options):
    def scopes(modules):
        return {name: name.upper() for name in modules}

    kind = family.Family('Net', (), {}, {}, scopes, **options)
    return {
        name: (tensor.source, tensor.shape)
        for name, tensor in family.map_tensors(kind, SHAPES).items()
    }


def test_names_and_shapes_by_hand():
    assert map_shapes() == {
        'A/weights': ('a.weight', (3, 5, 4, 8)),
        'A/biases': ('a.bias', (8,)),
        'B/depthwise_weights': ('b.weight', (3, 5, 8, 1)),
        'C.POINTWISE_CONV2D/pointwise_weights': ('c.pointwise_conv2d.weight', (1, 1, 4, 8)),
        'D/weights': ('d.weight', (8, 10)),
        'N/gamma': ('n.weight', (8,)),
        'N/beta': ('n.bias', (8,)),
        'N/moving_mean': ('n.running_mean', (8,)),
        'N/moving_variance': ('n.running_var', (8,)),
    }


def test_a_convolution_as_the_head():
    assert map_shapes(convolutional_head=True)['D/weights'] == ('d.weight', (1, 1, 8, 10))


def test_no_gamma():
    assert 'N/gamma' not in map_shapes(has_gamma=False)


def test_a_tensor_of_another_network():
    kind = family.Family('Net', (), {}, {}, lambda modules: {'a': 'A'})
    with pytest.raises(family.UnknownNameError, match=r'^b\.weight$'):
        family.map_tensors(kind, SHAPES)


@pytest.mark.parametrize('name', ['n.scale', 'a.scale', 'a.weight'])
def test_a_tensor_that_no_layer_has(name):
    kind = family.Family('Net', (), {}, {}, lambda modules: dict.fromkeys('abdn', 'X'))
    shapes = {'n.running_mean': (8,), name: (8,)}
    with pytest.raises(family.UnknownNameError):
        family.map_tensors(kind, shapes)
