"""Networks of the years since 2021."""
