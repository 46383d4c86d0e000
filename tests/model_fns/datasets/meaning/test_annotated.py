from model_fns.datasets.meaning import annotated


def test_distances_by_hand():
    assert annotated.distance([0, 0, 10, 10], [3, 40, 9, 50]) == 30
    assert annotated.distance([0, 0, 10, 10], [13, 14, 20, 20]) == 5
    assert annotated.distance([0, 0, 10, 10], [5, 5, 20, 20]) == 0
    # The third part is 2 from the second one, and far from the first.
    assert annotated.largest_gap([[0, 0, 1, 4], [0, 10, 1, 14], [0, 16, 1, 20]]) == 6
    assert annotated.largest_gap([[0, 0, 1, 1]]) == 0


def test_the_box_around_boxes():
    assert annotated.enclose([[3, 4, 5, 6], [1, 5, 2, 9]]) == [1, 4, 5, 9]
