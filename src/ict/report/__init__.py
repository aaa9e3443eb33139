"""What all HTML reports share: the skeleton of the page, its style, and the figures in its colors.

`page` makes a document of sections, `style` is its CSS and `figures` draws SVG. Imports nothing else of this package.
"""
