-- rollable: yes
-- A role of the service can neither restore, nor hide the tables that stop the intake behind its own temporary ones.

CREATE OR REPLACE FUNCTION is_log_compared() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM public.log_comparisons
        WHERE started_at = pg_postmaster_start_time() AND file = pg_relation_filepath('public.events')
    );
END
$$;

CREATE OR REPLACE FUNCTION refuse_while_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM public.intake_stops WHERE ended_at IS NULL) THEN
        RAISE EXCEPTION 'intake is stopped' USING ERRCODE = 'LG002';
    END IF;
    IF NOT public.is_log_compared() AND NOT (
        coalesce(current_setting('importledger.is_restoring', true), '') = 'on'
        AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the log is not compared with its checkpoints yet' USING ERRCODE = 'LG003';
    END IF;
    RETURN NULL;
END
$$;
