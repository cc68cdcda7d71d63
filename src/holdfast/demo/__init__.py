"""A small shop, copied for four days, on which things go wrong on the fourth."""
