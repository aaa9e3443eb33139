"""Tables with columns of any kind: what each column is, what is learned of it, and the numbers it becomes.

`kinds` decides what a column is, `learn` fits medians and categories by scikit-learn, and `table_inputs` holds them as
plain data and applies them. May import the rest of `data` and all below it. Frames are pandas'.
"""
