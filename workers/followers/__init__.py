"""What goes on as long as its process: relay, sweeper, projector, sealer, tasks of the owner."""
