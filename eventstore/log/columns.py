"""What is asked of the table `events`, said once: its columns in the order of a leaf, and how far the log is."""

SELECT_EVENTS = """
SELECT position, stream, version, topic, recorded_at, supplier, caused_by, command_id, code_version, state
FROM events
"""
"""Events by all of their columns; a condition and an order follow."""

SELECT_HEAD = "SELECT coalesce(max(position), 0) AS head FROM events"
"""The last position of the log; 0 for an empty one."""
