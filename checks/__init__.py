"""Rules of the house, which a look at the sources holds. `make check` runs them."""
