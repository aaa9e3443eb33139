"""A trained model as a folder, as ONNX, and the temperature of its probabilities.

May import `experiment`, `report` and all below them.
"""
