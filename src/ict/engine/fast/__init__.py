"""Fast mode. On a GPU: the step as a CUDA graph, fused layers, prefetched batches, Triton kernels. On a CPU: bfloat16.

May import what `engine` may import, and `engine` itself.
"""
