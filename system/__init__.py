"""The system below: interpreter, memory, processors, child processes, object stores."""
