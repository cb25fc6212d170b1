-- rollable: yes
-- Keys may have a rate, in requests per second; 0 for none.

ALTER TABLE access_key ADD COLUMN rate_per_s integer NOT NULL DEFAULT 0;
