"""Further formats that the converter reads."""
