"""Measure a book: from six tables to accounts, and from accounts to a certificate. Exit code 1 if a bar is missed.

python -m bench.book --accounts 1000000 --forms
"""

import argparse
import sys

from bench.proof import proved
from bench.tables import mapped


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench BOOK=1 ACCOUNTS= ARGS=", description=__doc__)
    parser.add_argument("--accounts", type=int, default=100_000, help="accounts to push [default: %(default)s]")
    parser.add_argument("--forms", nargs="*", default=("csv", "xlsx", "parquet"), help="tables [default: all forms]")
    options = parser.parse_args()
    bars = [bar for form in options.forms for bar in mapped(form)] + proved(options.accounts)
    for bar in bars:
        print(bar.line)
    return int(not all(bar.is_met for bar in bars))


if __name__ == "__main__":
    sys.exit(main())
