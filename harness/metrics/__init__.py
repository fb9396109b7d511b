"""One file, one metric, with its quantities, units and directions."""
