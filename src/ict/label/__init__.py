"""The labeling page: asks for labels in the browser while a model learns from them in another process.

`session` is all that a person can do, without the page; `learner` all that is learned between answers. Together they
run in a loop without a browser: see the docstring of `session`. May import `fit` and all below it.
"""
