"""Results beside what they should equal, or what is promised of them."""
