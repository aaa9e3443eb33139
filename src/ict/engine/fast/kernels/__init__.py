"""Operations for a GPU that libraries do not have, or do slowly. Importing them needs Triton."""
