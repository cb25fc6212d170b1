"""What can be seen of the service from outside: measures and traces. Free where nobody asks for them."""
