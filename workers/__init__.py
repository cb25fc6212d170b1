"""What happens after the append: the relay rings, actors process, the sweeper re-rings what was lost."""
