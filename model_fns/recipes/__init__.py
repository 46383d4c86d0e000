"""Facts of data sets, and the decisions on configs that several tasks share."""
