-- rollable: yes
-- A time as a position, the same whenever it is asked for. Times rise with positions (0044).

-- The last position whose event was recorded at this time or before, 0 for none. It is looked for from the log's
-- beginning, so that what is appended later does not change the way.
CREATE FUNCTION position_at(moment timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    head   bigint := coalesce((SELECT max(position) FROM events), 0);
    place  bigint := 0;
    stride bigint := 1;
BEGIN
    WHILE stride * 2 <= head LOOP
        stride := stride * 2;
    END LOOP;
    WHILE stride > 0 LOOP
        IF place + stride <= head
           AND (SELECT recorded_at <= moment FROM events WHERE position = place + stride) THEN
            place := place + stride;
        END IF;
        stride := stride / 2;
    END LOOP;
    RETURN place;
END
$$;

-- The same, or NULL where events of this time may still be appended: at the end of the log it waits for the appends
-- that have their time already, and a time that has not passed then is not answered.
CREATE FUNCTION settled_position_at(moment timestamptz) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT coalesce((SELECT recorded_at > moment FROM events ORDER BY position DESC LIMIT 1), false) THEN
        PERFORM pg_advisory_xact_lock_shared(7015001);
        IF moment >= log_time()
           AND NOT coalesce((SELECT recorded_at > moment FROM events ORDER BY position DESC LIMIT 1), false) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN position_at(moment);
END
$$;
