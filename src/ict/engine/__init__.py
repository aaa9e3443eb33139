"""The machinery: one step, one loop, one checkpoint, for every algorithm."""
