"""Fast mode. On a GPU: the step as a CUDA graph, fused layers and prefetched batches. On a CPU: bfloat16.

Results agree with the exact step's only statistically. May import `engine` and all below it; `engine` imports nothing
of it.
"""
