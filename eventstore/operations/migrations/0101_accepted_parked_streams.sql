-- rollable: yes
-- An event that cannot be read stays so: an operator says that the streams it parks are known.
ALTER TABLE parked_streams ADD COLUMN accepted_at timestamptz, ADD COLUMN accepted_by text;

COMMENT ON COLUMN parked_streams.accepted_at IS 'Since when an operator knows that the stream stays left out; it is reported no more.';
