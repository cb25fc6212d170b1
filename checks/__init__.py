"""Rules of this project that tests check in its sources (`make check`), and pages that are generated from them."""
