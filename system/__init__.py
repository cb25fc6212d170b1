"""Access to the operating system: interpreter, memory, processors, child processes, object stores."""
