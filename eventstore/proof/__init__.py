"""Proof that the log was not altered: Merkle tree, signed checkpoints, sealing, proofs, verification."""
