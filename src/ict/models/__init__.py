"""Trained models: as a folder, and as an ONNX file.

May import `experiment`, `report` and all below them.
"""
