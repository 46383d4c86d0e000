"""Feature extractors, box predictors, and the hyperparameters of their layers."""
