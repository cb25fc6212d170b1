"""The command importbook. Exit codes: 0 success, 1 something was refused, failed or differs, 2 wrong use or nothing
done, 130 interrupted, 141 nobody reads the output any more."""

OK, SOMETHING_WRONG, NOTHING_DONE, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 130, 141
