-- rollable: yes
-- Events that give or take powers, or say what was carried out, are appended by the roles that may do so.

CREATE TABLE appenders (
    topic text NOT NULL,
    role  name NOT NULL,
    PRIMARY KEY (topic, role)
);

COMMENT ON TABLE appenders IS 'Roles that may append events of a topic, beside the owner. `migrate` fills it.';

CREATE FUNCTION refuse_other_appenders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.appenders AS a WHERE a.topic = NEW.topic AND pg_has_role(current_user, a.role, 'USAGE')
    ) AND NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION '% may not append %', current_user, NEW.topic USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;

-- The topics that are left out are those of most events: the condition costs less than a call.
CREATE TRIGGER events_have_their_appenders
    AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.topic NOT IN ('import_staged.v1', 'import_started.v1', 'import_processed.v1'))
    EXECUTE FUNCTION refuse_other_appenders();
