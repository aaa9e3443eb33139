"""GPU operations that libraries lack or run slowly, in Triton. Importing them needs Triton."""
