-- rollable: yes
-- The log, what stands beside it, and the platform's account numbers. Tables of views are declared with them, and made
-- by projections/versions/install.py.

-- 1. The log: it can only be inserted into.

CREATE TABLE events (
    position     bigint      NOT NULL PRIMARY KEY,
    stream       text        NOT NULL,
    version      integer     NOT NULL CHECK (version > 0),
    topic        text        NOT NULL,
    recorded_at  timestamptz NOT NULL,
    supplier     text,
    caused_by    text        NOT NULL,
    command_id   text,
    code_version text        NOT NULL,
    state        bytea       NOT NULL,
    CONSTRAINT events_stream_version UNIQUE (stream, version),
    -- Python has years from 1 to 9999. One row beyond them would make every batch that it is in unreadable.
    CONSTRAINT events_recorded_at_is_readable
        CHECK (recorded_at > '0002-01-01Z' AND recorded_at < '9998-01-01Z'),
    -- Every follower reads every event. One that fills a process's memory would end each of them, again and again.
    CONSTRAINT events_are_bounded CHECK (
        octet_length(state) + octet_length(caused_by) + octet_length(code_version)
        + octet_length(coalesce(command_id, '')) + octet_length(coalesce(supplier, '')) < 20000000)
);

COMMENT ON COLUMN events.position IS 'Place in the whole log: dense, in commit order.';
COMMENT ON COLUMN events.version IS 'Place in the stream, from 1, without gaps.';
COMMENT ON COLUMN events.state IS 'The event as JSON; no personal data.';

-- Payloads of which two fit on a page stay in their rows: each piece beside a row costs an index entry to write, and a
-- look-up for each time that it is read. They are compressed already: no second compression by the server.
CREATE TABLE payloads (
    stream         text        NOT NULL,
    sha256         bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL,
    received_bytes integer     NOT NULL,
    content        bytea       NOT NULL,
    subject        text,
    PRIMARY KEY (stream, sha256)
) WITH (toast_tuple_target = 4064);

ALTER TABLE payloads ALTER COLUMN content SET STORAGE EXTERNAL;

COMMENT ON TABLE payloads IS 'Request bodies as received; with their keys, the one thing that may be erased.';
COMMENT ON COLUMN payloads.content IS
    'A zstd frame (RFC 8878) that says whether it needs dictionary 40001 (eventstore/log/payloads-40001.zdict); after a '
    'byte 01 and a nonce of 12 bytes, encrypted with AES-256-GCM by the key of its subject, its stream as associated data.';
COMMENT ON COLUMN payloads.subject IS 'The import stream whose key this is encrypted with; none for the stream''s own.';

CREATE TABLE payload_keys (
    stream    text        NOT NULL PRIMARY KEY,
    key       bytea,
    erased_at timestamptz,
    CHECK ((key IS NULL) = (erased_at IS NOT NULL))
);

COMMENT ON TABLE payload_keys IS
    'By import stream: what its payloads, and those of what was attached to its account, are encrypted with. '
    'A row without key says that the person was erased.';

CREATE TABLE remembered_answers (
    command_id     text        NOT NULL PRIMARY KEY,
    request_sha256 bytea       NOT NULL,
    status         integer     NOT NULL,
    body           bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE remembered_answers IS
    'First answers to requests with an Idempotency-Key, stored with the events that they speak of.';
COMMENT ON COLUMN remembered_answers.command_id IS
    'SHA-256 of organisation, method, path and key, which events carry too.';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER events_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- 2. Appending. The service's roles append through these functions alone, which run with the rights of the schema's
-- owner: a role that could insert a row of its own could take the last position there is, and nothing could follow.

CREATE FUNCTION log_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT clock_timestamp()$$;

-- One batch into the log. Takes the log's lock, and numbers the events densely in commit order: `base` is the position
-- before the first. `at` is the time of all events of the append. It is taken while the lock is held and never before
-- that of the event before it, so that times rise with positions, whatever clocks the writers have.
-- A stream that somebody else has appended to, or that has a key already where a new one is given, raises LG001 with
-- the numbers (from 1) of the conflicting events; nothing of the batch is stored then.
CREATE FUNCTION append_events(
    streams text[], versions integer[], topics text[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[],
    OUT base bigint, OUT at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    conflicts text;
BEGIN
    IF cardinality(key_streams) > 0 THEN
        INSERT INTO payload_keys (stream, key)
        SELECT * FROM unnest(key_streams, keys) AS new (s, k)
        ORDER BY s;  -- the same order everywhere, or two batches with the same streams deadlock
    END IF;

    -- Where all payloads are those of streams that are new, their keys were new, so that no other append can have one
    -- of them: none is looked for first, and they need no order.
    IF cardinality(payload_streams) = cardinality(key_streams) THEN
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT s, d, now(), z, c, u
        FROM unnest(payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects)
            AS new (s, d, z, c, u);
    ELSE
        INSERT INTO payloads (stream, sha256, recorded_at, received_bytes, content, subject)
        SELECT s, d, now(), z, c, u
        FROM unnest(payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects)
            AS new (s, d, z, c, u)
        ORDER BY s, d
        ON CONFLICT DO NOTHING;
    END IF;

    PERFORM pg_advisory_xact_lock(7015001);
    -- A statement of its own: in one with the lock, the snapshot would be older than the lock.
    SELECT events.position, events.recorded_at INTO base, at FROM events ORDER BY events.position DESC LIMIT 1;
    base := coalesce(base, 0);
    at := greatest(at, log_time());

    INSERT INTO events (position, stream, version, topic, recorded_at, supplier, caused_by, command_id,
                        code_version, state)
    SELECT base + n, s, v, t, append_events.at, u, c, i, append_events.code_version, b
    FROM unnest(streams, versions, topics, suppliers, causes, command_ids, states)
        WITH ORDINALITY AS new (s, v, t, u, c, i, b, n);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(streams, versions) WITH ORDINALITY AS new (s, v, n)
    WHERE EXISTS (SELECT FROM events WHERE events.stream = new.s AND events.version = new.v)
       OR (new.s = ANY (key_streams) AND (EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = new.s)
                                          OR EXISTS (SELECT FROM payloads WHERE payloads.stream = new.s)));
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;

-- As append_events, with answers: `answer_numbers` are the numbers (from 1) of the events that they speak of.
-- An answer that is there already is a conflict of its event. Answers come before payloads and log, everywhere.
CREATE FUNCTION append_answered_events(
    streams text[], versions integer[], topics text[], suppliers text[], causes text[],
    command_ids text[], code_version text, states bytea[],
    payload_streams text[], payload_digests bytea[], payload_sizes integer[],
    payload_contents bytea[], payload_subjects text[], key_streams text[], keys bytea[],
    answer_ids text[], answer_numbers integer[], answer_digests bytea[], answer_statuses integer[],
    answer_bodies bytea[],
    OUT base bigint, OUT at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    conflicts text;
BEGIN
    INSERT INTO remembered_answers (command_id, request_sha256, status, body)
    SELECT i, d, s, b
    FROM unnest(answer_ids, answer_digests, answer_statuses, answer_bodies) AS new (i, d, s, b)
    ORDER BY i;

    SELECT * INTO base, at
    FROM append_events(streams, versions, topics, suppliers, causes, command_ids, code_version, states,
                       payload_streams, payload_digests, payload_sizes, payload_contents, payload_subjects,
                       key_streams, keys);
EXCEPTION WHEN unique_violation THEN
    SELECT string_agg(n::text, ',') INTO conflicts
    FROM unnest(answer_ids, answer_numbers) AS new (i, n)
    JOIN remembered_answers ON remembered_answers.command_id = new.i;
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'LG001', DETAIL = coalesce(conflicts, '');
END
$$;

-- Give a key to each of these import streams that has none.
CREATE FUNCTION add_payload_keys(streams text[], keys bytea[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    INSERT INTO payload_keys (stream, key)
    SELECT s, k FROM unnest(streams, keys) AS new (s, k)
    WHERE NOT EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = s)
    ORDER BY s
    ON CONFLICT DO NOTHING
$$;

REVOKE ALL ON FUNCTION append_events, append_answered_events, add_payload_keys FROM PUBLIC;

-- Events that give or take powers, or say what was carried out, are appended by the roles that may do so.
CREATE TABLE appenders (
    topic text NOT NULL,
    role  name NOT NULL,
    kind  text NOT NULL,
    PRIMARY KEY (topic, role, kind)
);

COMMENT ON TABLE appenders IS 'Roles that may append events of a topic, beside the owner. `migrate` fills it.';
COMMENT ON COLUMN appenders.kind IS
    'Prefix of the streams that have such events. Any other stream would be unreadable: its key could not be revoked.';

-- The session's user is asked: within `append_events` the current user is the schema's owner.
-- Tables are named with their schemas, those of Postgres too: a temporary one of the same name would be found first.
CREATE FUNCTION refuse_other_appenders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.appenders AS a
        WHERE a.topic = NEW.topic AND a.kind = split_part(NEW.stream, '/', 1)
          AND pg_has_role(session_user, a.role, 'USAGE')
          AND (NEW.version = 1 OR EXISTS (  -- after a gap up to the last number there could be no other event
              SELECT FROM public.events AS e WHERE e.stream = NEW.stream AND e.version = NEW.version - 1))
    ) AND NOT pg_has_role(session_user, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION '% may not append %', session_user, NEW.topic USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;

-- The topics that are left out are those of most events: the condition costs less than a call.
CREATE TRIGGER events_have_their_appenders
    AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.topic NOT IN ('import_staged.v1', 'import_started.v1', 'import_processed.v1')
                       OR NOT starts_with(NEW.stream, 'import/'))
    EXECUTE FUNCTION refuse_other_appenders();

-- 3. Reading the log.

CREATE VIEW stored_events AS
SELECT stream AS originator_id, version AS originator_version, position AS notification_id, topic, state
FROM events;

COMMENT ON VIEW stored_events IS 'The log under the column names of the eventsourcing library, for its reads.';

-- What cannot be read concerns its own row alone: whoever reads the log in SQL sees what is stored there.
CREATE FUNCTION readable_event(state bytea) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN convert_from(state, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN jsonb_build_object('unreadable', encode(state, 'escape'));
END
$$;

CREATE VIEW readable_events AS
SELECT position, stream, version, topic, recorded_at, supplier, caused_by, command_id, code_version,
       readable_event(state) AS event
FROM events;

COMMENT ON VIEW readable_events IS 'The log for people who read SQL.';

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

-- 4. Seals: the Merkle tree over the log's events, in tiles, and signed checkpoints of that tree. A log that has lost
-- its end may go on openly: its checkpoints from then on belong to another branch.

CREATE TABLE log_tiles (
    level  smallint NOT NULL,
    index  bigint   NOT NULL,
    hashes bytea    NOT NULL,
    PRIMARY KEY (level, index)
);

ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

COMMENT ON TABLE log_tiles IS 'Up to 256 hashes side by side; level 0 are those of the events, in order.';

CREATE TABLE log_checkpoints (
    branch    integer     NOT NULL DEFAULT 0,
    size      bigint      NOT NULL,
    note      text        NOT NULL,
    sealed_at timestamptz NOT NULL,
    continues bigint,
    lost      bigint,
    PRIMARY KEY (branch, size)
);

COMMENT ON TABLE log_checkpoints IS 'Signed notes (C2SP tlog-checkpoint); copies are kept outside of the database.';
COMMENT ON COLUMN log_checkpoints.continues IS 'Of the first of a branch: up to which position the older branch was kept.';
COMMENT ON COLUMN log_checkpoints.lost IS 'Of the same: up to which position the older branch had been signed.';

CREATE TRIGGER log_checkpoints_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The public halves of the keys that have sealed the log, so that whoever writes a proof can put them beside it.
CREATE TABLE log_keys (
    origin   text        NOT NULL PRIMARY KEY,
    verifier text        NOT NULL,
    used_at  timestamptz NOT NULL
);

COMMENT ON TABLE log_keys IS
    'Verifier keys by the origin of their checkpoints. Not secret; who verifies compares them with the one that they were given.';
COMMENT ON COLUMN log_keys.used_at IS 'When it has sealed first, as far as this table knows.';

CREATE TRIGGER log_keys_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_keys
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE statement_requests (
    id           uuid        NOT NULL PRIMARY KEY,
    body         text        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed       text,
    refusal      text,
    mac          text        NOT NULL DEFAULT ''
);

COMMENT ON TABLE statement_requests IS
    'Statements that wait to be signed: who asks deletes its row with the answer, the sealer deletes what nobody fetched.';
COMMENT ON COLUMN statement_requests.mac IS 'Over id, body and requested_at. A request without it is not signed.';

-- A log that does not continue what was signed takes nothing in until an operator has decided.
CREATE TABLE intake_stops (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stopped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    size       bigint      NOT NULL,
    note       text        NOT NULL,
    reason     text        NOT NULL,
    ended_at   timestamptz,
    ended_by   text,
    ended_for  text
);

CREATE UNIQUE INDEX intake_stops_in_force ON intake_stops ((ended_at IS NULL)) WHERE ended_at IS NULL;

COMMENT ON TABLE intake_stops IS 'Times in which nothing is appended, since the log does not continue a signed checkpoint. One is in force at most.';
COMMENT ON COLUMN intake_stops.note IS 'The signed checkpoint that the log does not continue; a stop that was ended is not repeated for it.';
COMMENT ON COLUMN intake_stops.ended_for IS 'Reason that the operator gave.';

-- Nothing is appended before this log was compared with its checkpoints since the server has started. A copy of the
-- database has other files or another start: it must be compared itself.
CREATE TABLE log_comparisons (
    started_at   timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    file         text        NOT NULL DEFAULT pg_relation_filepath('events'),
    compared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_by  text,
    accepted_for text,
    PRIMARY KEY (started_at, file)
);

COMMENT ON TABLE log_comparisons IS 'First comparisons of the log with its checkpoints, one for each start of a server.';
COMMENT ON COLUMN log_comparisons.file IS 'File of the events: a database or a table that was copied has another one.';
COMMENT ON COLUMN log_comparisons.accepted_for IS 'Reason of an operator who lets the intake continue without a comparison.';

-- The log of a new database is empty.
INSERT INTO log_comparisons DEFAULT VALUES;

-- A role of the service can neither restore, nor hide the tables that stop the intake behind its own temporary ones.
CREATE FUNCTION is_log_compared() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM public.log_comparisons
        WHERE started_at = pg_postmaster_start_time() AND file = pg_relation_filepath('public.events')
    );
END
$$;

CREATE FUNCTION refuse_while_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM public.intake_stops WHERE ended_at IS NULL) THEN
        RAISE EXCEPTION 'intake is stopped' USING ERRCODE = 'LG002';
    END IF;
    IF NOT public.is_log_compared() AND NOT (
        coalesce(current_setting('importledger.is_restoring', true), '') = 'on'
        AND pg_has_role(session_user, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID), 'USAGE')
    ) THEN
        RAISE EXCEPTION 'the log is not compared with its checkpoints yet' USING ERRCODE = 'LG003';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_wait_while_stopped
    BEFORE INSERT ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_while_stopped();

-- 5. What follows the log.

CREATE TABLE checkpoints (
    follower   text        NOT NULL PRIMARY KEY,
    position   bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE checkpoints IS 'How far each follower of the log has come.';

CREATE TABLE projection_versions (
    name        text        NOT NULL,
    version     integer     NOT NULL,
    state       text        NOT NULL CHECK (state IN ('building', 'ready', 'live', 'retired')),
    position    bigint      NOT NULL,
    definition  text        NOT NULL,
    built_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at  timestamptz,
    verified_at timestamptz,
    differences bigint,
    PRIMARY KEY (name, version)
);

CREATE UNIQUE INDEX projection_versions_live ON projection_versions (name) WHERE state = 'live';

COMMENT ON TABLE projection_versions IS
    'The versions of each projection: which is live, and which stand beside it.';
COMMENT ON COLUMN projection_versions.position IS
    'Up to where its tables are made; a live one that is written with the append is always at the head.';
COMMENT ON COLUMN projection_versions.differences IS 'Rows that the last verification found to differ from the log.';

CREATE TABLE parked_streams (
    name      text        NOT NULL,
    version   integer     NOT NULL,
    stream    text        NOT NULL,
    position  bigint      NOT NULL,
    error     text        NOT NULL,
    parked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_at timestamptz,
    accepted_by text,
    PRIMARY KEY (name, version, stream)
);

COMMENT ON TABLE parked_streams IS 'Streams that a projection leaves out, from an event on that it could not take in.';
COMMENT ON COLUMN parked_streams.accepted_at IS
    'Since when an operator knows that the stream stays left out; it is reported no more.';

CREATE TABLE troubles (
    process    text        NOT NULL,
    name       text        NOT NULL,
    error      text        NOT NULL,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    times      integer     NOT NULL,
    is_waiting boolean     NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    role       name        NOT NULL DEFAULT session_user,
    PRIMARY KEY (role, process, name)
);

COMMENT ON TABLE troubles IS
    'Work of the service''s processes that fails at present. Rows that are not repeated for a while count for nothing.';

-- Each database role reports, and takes back, its own troubles; all roles read all of them.
ALTER TABLE troubles ENABLE ROW LEVEL SECURITY;
CREATE POLICY troubles_are_read_by_all ON troubles FOR SELECT USING (true);
CREATE POLICY troubles_are_reported_by_their_role ON troubles FOR INSERT WITH CHECK (role = session_user);
CREATE POLICY troubles_are_repeated_by_their_role ON troubles FOR UPDATE USING (role = session_user);
CREATE POLICY troubles_are_ended_by_their_role ON troubles FOR DELETE
    USING (role = session_user OR seen_at < clock_timestamp() - interval '1 hour');

-- The index of searches gathers new entries in a list, which its owner alone may have put in order: the projector asks
-- for it, so that no append does it when the list is full.
CREATE FUNCTION put_searches_in_order() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.gin_clean_pending_list(x.indexrelid)
    FROM pg_catalog.pg_index AS x
    JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
    JOIN pg_catalog.pg_am AS a ON a.oid = i.relam
    WHERE x.indrelid = pg_catalog.to_regclass('public.account_search') AND a.amname = 'gin'
$$;
REVOKE ALL ON FUNCTION put_searches_in_order() FROM PUBLIC;

-- Runs that a worker adds up.
CREATE TABLE reconciliations (
    supplier      text        NOT NULL,
    run           text        NOT NULL,
    job           text        NOT NULL UNIQUE,
    reached       bigint      NOT NULL,
    accounts      bigint      NOT NULL,
    accounts_done bigint      NOT NULL DEFAULT 0,
    after_place   text        NOT NULL DEFAULT '',
    totals        text        NOT NULL DEFAULT '{}',
    code_version  text        NOT NULL DEFAULT '',
    worker        integer     NOT NULL DEFAULT 0,
    attempt       integer     NOT NULL DEFAULT 0,
    lease_until   timestamptz NOT NULL DEFAULT '-infinity',
    asked_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    worked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    delivered_at  timestamptz,
    error         text        NOT NULL DEFAULT '',
    PRIMARY KEY (supplier, run)
);

COMMENT ON TABLE reconciliations IS 'Runs that a worker adds up, or has added up: deleting a row cancels the job.';
COMMENT ON COLUMN reconciliations.reached IS 'Position of the last event of the run when the job was requested.';
COMMENT ON COLUMN reconciliations.after_place IS 'JSON: the account after which the next portion begins. The accounts up to it are in totals.';
COMMENT ON COLUMN reconciliations.requested_at IS 'When a request last asked for the job. One that nobody asks for is deleted.';

-- 6. What was refused, by account: outside the log, so that it can be deleted after 90 days and with the person.

CREATE TABLE refused_attempts (
    number                  bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    supplier                text        NOT NULL,
    external_account_number text        NOT NULL,
    attempted_at            timestamptz NOT NULL,
    operation               text        NOT NULL,
    code                    text        NOT NULL,
    problems                text[]      NOT NULL,
    id                      uuid        UNIQUE
);

CREATE INDEX refused_attempts_of_account ON refused_attempts (external_account_number, supplier, number);
CREATE INDEX refused_attempts_of_supplier ON refused_attempts (supplier, number);
CREATE INDEX refused_attempts_in_time ON refused_attempts USING brin (attempted_at);

COMMENT ON TABLE refused_attempts IS 'Requests about an account that were refused: when, which, codes and paths; no values.';
COMMENT ON COLUMN refused_attempts.problems IS 'code@path of each; the name of an undocumented field is *.';
COMMENT ON COLUMN refused_attempts.id IS 'Drawn by the process that noted the attempt, before its first write.';

-- 7. People who use the console: what events must not hold of them, and what opens a session. All of it can be deleted.

CREATE TABLE user_details (
    user_id       text        NOT NULL PRIMARY KEY,
    email         text        NOT NULL,
    name          text        NOT NULL DEFAULT '',
    password_hash text        NOT NULL DEFAULT '',
    openid        text        UNIQUE,
    written_at    timestamptz NOT NULL,
    mac           text        NOT NULL DEFAULT '',
    organisation  text        NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX user_details_email ON user_details (lower(email), organisation);

CREATE TABLE sign_in_links (
    token_sha256 bytea       NOT NULL PRIMARY KEY,
    user_id      text        NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX sign_in_links_of_user ON sign_in_links (user_id);

CREATE TABLE user_sessions (
    token_sha256 bytea       NOT NULL PRIMARY KEY,
    session      text        NOT NULL UNIQUE,
    user_id      text        NOT NULL,
    began_at     timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    mac          text        NOT NULL DEFAULT ''
);
CREATE INDEX user_sessions_of_user ON user_sessions (user_id);

CREATE TABLE failed_sign_ins (
    who_sha256 bytea       NOT NULL PRIMARY KEY,
    failures   integer     NOT NULL,
    last_at    timestamptz NOT NULL
);
CREATE INDEX failed_sign_ins_in_time ON failed_sign_ins (last_at);

CREATE TABLE typed_reasons (
    reason  text        NOT NULL PRIMARY KEY,
    user_id text        NOT NULL,
    subject text        NOT NULL,
    at      timestamptz NOT NULL,
    content text        NOT NULL
);
CREATE INDEX typed_reasons_of_subject ON typed_reasons (subject);
CREATE INDEX typed_reasons_of_user ON typed_reasons (user_id);

COMMENT ON TABLE user_details IS 'By user id: what events do not hold of people who use the console. Deleting a row erases the person.';
COMMENT ON COLUMN user_details.password_hash IS 'argon2id; empty until a password was set.';
COMMENT ON COLUMN user_details.openid IS 'Issuer and subject of an OpenID provider.';
COMMENT ON COLUMN user_details.organisation IS
    'Within which the address is that of one user: whoever adds a user learns nothing of other organisations.';
COMMENT ON COLUMN user_details.mac IS
    'Over user_id, openid and password_hash, by a key that is not in the database. Without it, neither of the two signs anybody in.';
COMMENT ON TABLE sign_in_links IS 'Links that sign in once, by the SHA-256 of what is in them; using one deletes it.';
COMMENT ON TABLE user_sessions IS 'Open sessions, by the SHA-256 of what is in the cookie; ending one deletes it.';
COMMENT ON COLUMN user_sessions.mac IS 'Over all other columns. A session without it opens nothing.';
COMMENT ON TABLE failed_sign_ins IS 'How often signing in has failed in a row, by SHA-256 of the address that was typed or came.';
COMMENT ON TABLE typed_reasons IS 'Reasons that users have typed, by the id that events carry; deleted with their subject or their user.';
COMMENT ON COLUMN typed_reasons.subject IS 'The stream that the reason is about: of an import, the person''s.';

CREATE TABLE owner_task_progress (
    task_id    text        NOT NULL PRIMARY KEY,
    done       bigint      NOT NULL DEFAULT 0,
    total      bigint      NOT NULL DEFAULT 0,
    outcome    text        NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL
);

COMMENT ON TABLE owner_task_progress IS 'By task: events looked at of how many, and the outcome as JSON. Can be deleted.';

-- 8. The platform.

CREATE SCHEMA platform;

-- Account numbers are a keyed permutation of this sequence: never drawn twice, never guessable.
CREATE SEQUENCE platform.account_sequence;

CREATE TABLE platform.account_number_key AS
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) AS key;

-- 9. What the service's role may know of the server without its owner's rights.

-- How many standbys a commit may wait for, NULL where the schema's owner may not see it. The service's role asks through
-- this function, so that it need not see other sessions' queries.
CREATE FUNCTION synchronous_standbys() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN bool_or(sync_state IS NULL) THEN NULL
           ELSE count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END
    FROM pg_stat_replication
$$;
REVOKE ALL ON FUNCTION synchronous_standbys() FROM PUBLIC;

-- 10. Statistics hold samples of values: none of what can be erased, and of what opens a session.

ALTER TABLE payloads ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE payload_keys ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE remembered_answers
    ALTER COLUMN command_id SET STATISTICS 0,
    ALTER COLUMN request_sha256 SET STATISTICS 0,
    ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE refused_attempts
    ALTER COLUMN external_account_number SET STATISTICS 0,
    ALTER COLUMN problems SET STATISTICS 0;
ALTER TABLE parked_streams ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE user_details
    ALTER COLUMN email SET STATISTICS 0,
    ALTER COLUMN name SET STATISTICS 0,
    ALTER COLUMN password_hash SET STATISTICS 0,
    ALTER COLUMN openid SET STATISTICS 0;
ALTER TABLE typed_reasons ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE owner_task_progress ALTER COLUMN outcome SET STATISTICS 0;
ALTER TABLE reconciliations
    ALTER COLUMN after_place SET STATISTICS 0,
    ALTER COLUMN totals SET STATISTICS 0,
    ALTER COLUMN error SET STATISTICS 0;
