-- rollable: yes
-- A write whose outcome is unknown is repeated: an attempt that is there is not written twice. Older rows have no id.
ALTER TABLE refused_attempts ADD COLUMN id uuid UNIQUE;

COMMENT ON COLUMN refused_attempts.id IS 'Drawn by the process that noted the attempt, before its first write.';
