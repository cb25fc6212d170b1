"""Work after the append: the relay sends messages, actors process them, the sweeper sends lost messages again."""
