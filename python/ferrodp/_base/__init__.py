"""The doors: what every room of the package may import, and which import nothing above them but `ferrodp.errors`.

`_validate` (numbers), `_arrays`, `_trees` (trees of arrays), `_casting` (mixed dtypes), `_examples` (what a refusal
offers), `_html` and `_pictures` (how tables and pictures look), `_public` (what public modules list), `_fork` (the
generation of this process).
"""
