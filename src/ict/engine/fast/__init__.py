"""Fast mode on a GPU: the step as a CUDA graph, fused layers, prefetched batches, Triton kernels.

May import what `engine` may import, and `engine` itself.
"""
