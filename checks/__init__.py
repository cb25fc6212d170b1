"""Rules of the house, which a look at the sources holds; `make check` runs them. Also pages made from the sources."""
