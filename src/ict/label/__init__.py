"""`ict label`: asks for labels in the browser while a model learns from them in another process.

`session` is all that a person can do, without the page; `learner` all that is learned between answers. Together they
run in a loop without a browser: see the docstring of `session`. `service` joins the session with the `source` that a
person sees and the process of `learning`; `app` is its page for the web, behind the `guard`, and `server` runs it. May
import `report`, `fit` and all below them.
"""
