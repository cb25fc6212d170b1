-- rollable: no, relay and workers of the version before cannot read what this one takes in
-- Small payloads are compressed with a dictionary of names from now on, which comes with the software: a third of their
-- bytes less. What is there already stays as it is.

COMMENT ON COLUMN payloads.content IS
    'A zstd frame (RFC 8878) that says whether it needs dictionary 40001 (eventstore/log/payloads-40001.zdict); after a '
    'byte 01 and a nonce of 12 bytes, encrypted with AES-256-GCM by the key of its subject, its stream as associated data.';
