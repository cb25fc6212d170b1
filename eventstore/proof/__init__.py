"""What proves that the log was not altered: the Merkle tree, signed checkpoints, sealing, proofs, verification."""
