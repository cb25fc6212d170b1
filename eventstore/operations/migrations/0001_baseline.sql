-- rollable: yes
-- The log, the tables beside it, and the platform's account numbers. Tables of views are declared with the views, and
-- created by projections/versions/install.py.

-- 1. The log: append-only.

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
    -- Python has years from 1 to 9999. A row outside of them would make every batch with it unreadable.
    CONSTRAINT events_recorded_at_is_readable
        CHECK (recorded_at > '0002-01-01Z' AND recorded_at < '9998-01-01Z'),
    -- Every follower reads every event. An event that fills the memory of a process would end all followers repeatedly.
    CONSTRAINT events_are_bounded CHECK (
        octet_length(state) + octet_length(caused_by) + octet_length(code_version)
        + octet_length(coalesce(command_id, '')) + octet_length(coalesce(supplier, '')) < 2000000)
);

COMMENT ON COLUMN events.position IS 'Number in the whole log: from 1, without gaps, in commit order.';
COMMENT ON COLUMN events.version IS 'Number in the stream: from 1, without gaps.';
COMMENT ON COLUMN events.state IS 'The event as JSON; no personal data.';

-- Payloads up to half a page are stored in their rows. TOAST would cost an index entry per write and a look-up per read.
-- The server does not compress them, since they are compressed already.
CREATE TABLE payloads (
    stream         text        NOT NULL,
    sha256         bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL,
    received_bytes integer     NOT NULL CHECK (received_bytes >= 0),
    content        bytea       NOT NULL,
    subject        text,
    PRIMARY KEY (stream, sha256),
    CONSTRAINT payloads_are_bounded CHECK (octet_length(content) < 20000000)  -- bodies have at most 10 MiB
) WITH (toast_tuple_target = 4064);

ALTER TABLE payloads ALTER COLUMN content SET STORAGE EXTERNAL;

COMMENT ON TABLE payloads IS 'Request bodies as received. Only payloads and their keys can be erased.';
COMMENT ON COLUMN payloads.content IS
    'zstd frame (RFC 8878), which names its dictionary (40001 is eventstore/log/payloads-40001.zdict). If encrypted: byte '
    '01, nonce of 12 bytes, AES-256-GCM with the key of the subject and the stream as associated data.';
COMMENT ON COLUMN payloads.subject IS 'Import stream whose key encrypts the content; NULL for the payload''s own stream.';

CREATE TABLE payload_keys (
    stream    text        NOT NULL PRIMARY KEY,
    key       bytea,
    erased_at timestamptz,
    CHECK ((key IS NULL) = (erased_at IS NOT NULL)),
    CHECK (octet_length(key) = 32)
);

COMMENT ON TABLE payload_keys IS
    'Keys of import streams, for their payloads and those of records of the same account. '
    'A row without a key means that the person was erased.';

CREATE TABLE remembered_answers (
    command_id     text        NOT NULL PRIMARY KEY,
    request_sha256 bytea       NOT NULL,
    status         integer     NOT NULL,
    body           bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE remembered_answers IS
    'First answers to requests with an Idempotency-Key, stored together with their events.';
COMMENT ON COLUMN remembered_answers.command_id IS
    'SHA-256 of organisation, method, path and key; the same in events.';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log is append-only: % on % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER events_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- 2. Appending. The service's roles append only through these functions, which run with the rights of the schema's
-- owner. A role that could insert rows could use the last possible position, and no event could follow.

CREATE FUNCTION log_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT clock_timestamp()$$;

-- Append one batch. Takes the log's lock, and numbers the events without gaps in commit order. `base` is the position
-- before the first event. `at` is the time of all events: it is read while the lock is held, and is never before the time
-- of the previous event, so times rise with positions, whatever the clocks of the writers.
-- If another writer has appended to a stream, or a stream with a new key has one, raises LG001 with the numbers (from 1)
-- of the conflicting events. Nothing of the batch is stored then.
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

    -- If every payload belongs to a new stream, its key was new as well, so no other append can have the payload.
    -- No check for conflicts and no order is needed.
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
    -- A separate statement: in the statement of the lock, the snapshot would be older than the lock.
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

-- append_events with remembered answers. `answer_numbers` are the numbers (from 1) of their events. An existing answer is
-- a conflict of its event. All writers insert answers before payloads and events, to avoid deadlocks.
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

-- Create a key for each of these import streams that has none.
CREATE FUNCTION add_payload_keys(streams text[], keys bytea[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    INSERT INTO payload_keys (stream, key)
    SELECT s, k FROM unnest(streams, keys) AS new (s, k)
    WHERE NOT EXISTS (SELECT FROM payload_keys WHERE payload_keys.stream = s)
    ORDER BY s
    ON CONFLICT DO NOTHING
$$;

REVOKE ALL ON FUNCTION append_events, append_answered_events, add_payload_keys FROM PUBLIC;

-- Roles that may append events about rights, users and results of tasks.
CREATE TABLE appenders (
    topic text NOT NULL,
    role  name NOT NULL,
    kind  text NOT NULL,
    PRIMARY KEY (topic, role, kind)
);

COMMENT ON TABLE appenders IS 'Roles that may append events of a topic, besides the owner. Filled by `migrate`.';
COMMENT ON COLUMN appenders.kind IS
    'Prefix of the streams with such events. In another stream, the event would make the stream unreadable.';

-- Checks the session's user: within `append_events` the current user is the schema's owner.
-- Tables are qualified, also those of Postgres: a temporary table of the same name would hide them.
CREATE FUNCTION refuse_other_appenders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.appenders AS a
        WHERE a.topic = NEW.topic AND a.kind = split_part(NEW.stream, '/', 1)
          AND pg_has_role(session_user, a.role, 'USAGE')
          AND (NEW.version = 1 OR EXISTS (  -- no gaps: after the largest version, no event could follow
              SELECT FROM public.events AS e WHERE e.stream = NEW.stream AND e.version = NEW.version - 1))
    ) AND NOT pg_has_role(session_user, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION '% may not append %', session_user, NEW.topic USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;

-- Most events have the excluded topics, and a condition costs less than a call.
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

-- An event that cannot be decoded is shown as stored, and does not affect other rows.
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

-- Last position whose event was recorded at this time or before; 0 for none. The binary search starts at the log's
-- beginning, so later events do not change its steps.
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

-- The same, or NULL if events of this time may still be appended. At the end of the log it waits for appends that have
-- their time already.
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

-- 4. Seals: the Merkle tree over the log's events, in tiles, and signed checkpoints of that tree. If a log has lost its
-- end and continues, its later checkpoints belong to another branch.

CREATE TABLE log_tiles (
    level  smallint NOT NULL,
    index  bigint   NOT NULL,
    hashes bytea    NOT NULL,
    PRIMARY KEY (level, index)
);

ALTER TABLE log_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;

COMMENT ON TABLE log_tiles IS 'Up to 256 hashes each. Level 0 has the hashes of the events, in order.';

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
COMMENT ON COLUMN log_checkpoints.continues IS 'First checkpoint of a branch: last position that was kept of the older branch.';
COMMENT ON COLUMN log_checkpoints.lost IS 'First checkpoint of a branch: last position that was signed on the older branch.';

CREATE TRIGGER log_checkpoints_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Public keys that have sealed the log. Proofs contain them.
CREATE TABLE log_keys (
    origin   text        NOT NULL PRIMARY KEY,
    verifier text        NOT NULL,
    used_at  timestamptz NOT NULL
);

COMMENT ON TABLE log_keys IS
    'Verifier keys by the origin of their checkpoints. Not secret. Auditors compare them with a key that they got elsewhere.';
COMMENT ON COLUMN log_keys.used_at IS 'Time of the first seal that this table knows.';

CREATE TRIGGER log_keys_are_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON log_keys
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE statement_requests (
    id           uuid        NOT NULL PRIMARY KEY,
    body         text        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed       text,
    refusal      text,
    mac          text        NOT NULL DEFAULT '',
    -- A row that the sealer cannot read would stop it: no process has made the row, so none deletes it.
    CONSTRAINT statement_requests_are_readable CHECK (
        requested_at > '0002-01-01Z' AND requested_at < '9998-01-01Z' AND octet_length(body) < 4000000)
);

COMMENT ON TABLE statement_requests IS
    'Statements to sign. The process that requested one deletes its row with the answer; the sealer deletes old rows.';
COMMENT ON COLUMN statement_requests.mac IS 'MAC of id, body and requested_at. A request without it is not signed.';

-- Stops of the intake: a log that does not continue its signed checkpoints accepts no events until an operator decides.
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

COMMENT ON TABLE intake_stops IS 'Periods without appends, because the log does not continue a signed checkpoint. At most one is in force.';
COMMENT ON COLUMN intake_stops.note IS 'The signed checkpoint that the log does not continue. A stop that has ended is not repeated for it.';
COMMENT ON COLUMN intake_stops.ended_for IS 'Reason of the operator.';

-- After each start of the server, the log must be compared with its checkpoints before the first append. A copy of the
-- database has another file or another start, so it must be compared as well.
CREATE TABLE log_comparisons (
    started_at   timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    file         text        NOT NULL DEFAULT pg_relation_filepath('events'),
    compared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_by  text,
    accepted_for text,
    PRIMARY KEY (started_at, file)
);

COMMENT ON TABLE log_comparisons IS 'First comparison of the log with its checkpoints after each start of the server.';
COMMENT ON COLUMN log_comparisons.file IS 'File of the table events. A copied database or table has another file.';
COMMENT ON COLUMN log_comparisons.accepted_for IS 'Reason of an operator who let intake continue without a comparison.';

-- The log of a new database is empty: no comparison is needed.
INSERT INTO log_comparisons DEFAULT VALUES;

-- The service's roles cannot append during a restore, and cannot hide these tables behind temporary ones.
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

-- 5. Followers of the log.

CREATE TABLE checkpoints (
    follower   text        NOT NULL PRIMARY KEY,
    position   bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE checkpoints IS 'Position of each follower of the log.';

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
    'Versions of each projection: the live one and others.';
COMMENT ON COLUMN projection_versions.position IS
    'Last position in its tables. A live version that is written with the append is always at the end of the log.';
COMMENT ON COLUMN projection_versions.differences IS 'Rows that differed from the log at the last verification.';

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

COMMENT ON TABLE parked_streams IS 'Streams that a projection skips, from the event on that it could not project.';
COMMENT ON COLUMN parked_streams.accepted_at IS
    'Time since which an operator accepts that the stream is skipped. It is not reported any more.';

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
    'Work of the service''s processes that fails at present. Rows that are not updated for a while are ignored.';

-- Each database role reports and deletes its own troubles. All roles read all of them.
ALTER TABLE troubles ENABLE ROW LEVEL SECURITY;
CREATE POLICY troubles_are_read_by_all ON troubles FOR SELECT USING (true);
CREATE POLICY troubles_are_reported_by_their_role ON troubles FOR INSERT WITH CHECK (role = session_user);
CREATE POLICY troubles_are_repeated_by_their_role ON troubles FOR UPDATE USING (role = session_user)
    WITH CHECK (seen_at <= clock_timestamp());  -- else the trouble would never end
CREATE POLICY troubles_are_ended_by_their_role ON troubles FOR DELETE
    USING (role = session_user OR seen_at < clock_timestamp() - interval '1 hour');

-- A GIN index collects new entries in a pending list, which only the owner may clean. The projector does so through this
-- function, so that no append has to when the list is full.
CREATE FUNCTION put_searches_in_order() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_catalog.gin_clean_pending_list(x.indexrelid)
    FROM pg_catalog.pg_index AS x
    JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
    JOIN pg_catalog.pg_am AS a ON a.oid = i.relam
    WHERE x.indrelid = pg_catalog.to_regclass('public.account_search') AND a.amname = 'gin'
$$;
REVOKE ALL ON FUNCTION put_searches_in_order() FROM PUBLIC;

-- Reconciliations of runs.
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

COMMENT ON TABLE reconciliations IS 'Jobs that reconcile a run, and their results. Deleting a row cancels the job.';
COMMENT ON COLUMN reconciliations.reached IS 'Position of the last event of the run when the job was requested.';
COMMENT ON COLUMN reconciliations.after_place IS 'JSON: last account in totals. The next portion begins after it.';
COMMENT ON COLUMN reconciliations.requested_at IS 'Time of the last request for the job. Jobs without requests are deleted.';

-- 6. Refused requests by account: outside the log, so that they can be deleted after 90 days and with the person.

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

COMMENT ON TABLE refused_attempts IS 'Refused requests about an account: time, operation, codes and paths, but no values.';
COMMENT ON COLUMN refused_attempts.problems IS 'code@path of each problem. The name of an undocumented field is *.';
COMMENT ON COLUMN refused_attempts.id IS 'Random id, so that the process can repeat the insert.';

-- 7. Users of the console: personal data, which events must not hold, and sessions. All rows can be deleted.

CREATE TABLE user_details (
    user_id       text        NOT NULL PRIMARY KEY,
    email         text        NOT NULL,
    name          text        NOT NULL DEFAULT '',
    password_hash text        NOT NULL DEFAULT '',
    openid        text        UNIQUE,
    written_at    timestamptz NOT NULL,
    mac           text        NOT NULL DEFAULT '',
    organisation  text        NOT NULL DEFAULT '',
    password_number integer   NOT NULL DEFAULT 0,
    saved_filters text        NOT NULL DEFAULT ''
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
    at      timestamptz NOT NULL CHECK (at > '0002-01-01Z' AND at < '9998-01-01Z'),
    content text        NOT NULL
);
CREATE INDEX typed_reasons_of_subject ON typed_reasons (subject);
CREATE INDEX typed_reasons_of_user ON typed_reasons (user_id);

COMMENT ON TABLE user_details IS 'Personal data of users of the console. Deleting a row erases the person.';
COMMENT ON COLUMN user_details.password_hash IS 'Argon2id hash; empty until a password is set.';
COMMENT ON COLUMN user_details.openid IS 'Issuer and subject of an OpenID provider.';
COMMENT ON COLUMN user_details.organisation IS
    'An address is unique within an organisation, so a new user shows nothing about other organisations.';
COMMENT ON COLUMN user_details.mac IS
    'MAC of user_id, openid, password_hash and password_number, by a key that is not in the database. Without it, neither can be used to sign in.';
COMMENT ON COLUMN user_details.password_number IS 'Rises with each password. If the log counts more, this is a former password.';
COMMENT ON COLUMN user_details.saved_filters IS 'Saved filters of lists as JSON, encrypted by a key that is not in the database.';
COMMENT ON TABLE sign_in_links IS 'Links that sign in once, by the SHA-256 of their token. Using a link deletes it.';
COMMENT ON TABLE user_sessions IS 'Open sessions, by the SHA-256 of the token in the cookie. Ending a session deletes it.';
COMMENT ON COLUMN user_sessions.mac IS 'MAC of all other columns. A session without it is not accepted.';
COMMENT ON TABLE failed_sign_ins IS 'Consecutive failed sign-ins, by the SHA-256 of e-mail or network address.';
COMMENT ON TABLE typed_reasons IS 'Reasons that users have typed, by the id in events. Deleted with their subject or their user.';
COMMENT ON COLUMN typed_reasons.subject IS 'Stream of the person, or of the object, that the reason is about.';

CREATE TABLE owner_task_progress (
    task_id    text        NOT NULL PRIMARY KEY,
    done       bigint      NOT NULL DEFAULT 0,
    total      bigint      NOT NULL DEFAULT 0,
    outcome    text        NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL
);

COMMENT ON TABLE owner_task_progress IS 'Progress of owner''s tasks in events, and their result as JSON. Can be deleted.';

-- 8. Books of importers: uploaded files, encrypted, and the steps that were run on them. An erasure deletes files and key.

CREATE TABLE books (
    book         text        NOT NULL PRIMARY KEY,
    supplier     text        NOT NULL,
    run          text        NOT NULL,
    organisation text        NOT NULL,
    user_id      text        NOT NULL,
    key          bytea       CHECK (octet_length(key) = 32),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    touched_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    erased_at    timestamptz,
    erased_by    text        NOT NULL DEFAULT '',
    CHECK ((key IS NULL) = (erased_at IS NOT NULL)),
    CONSTRAINT books_are_readable CHECK (
        touched_at > '0002-01-01Z' AND touched_at < '9990-01-01Z'
        AND (erased_at IS NULL OR erased_at > '0002-01-01Z' AND erased_at < '9990-01-01Z'))
);
CREATE UNIQUE INDEX books_of_run ON books (organisation, supplier, run) WHERE erased_at IS NULL;
CREATE INDEX books_in_time ON books (created_at, book);

CREATE TABLE book_files (
    file       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    book       text        NOT NULL REFERENCES books,
    name       text        NOT NULL CHECK (octet_length(name) <= 200),
    size       bigint      NOT NULL CHECK (size BETWEEN 0 AND 2000000000),
    received   bigint      NOT NULL DEFAULT 0,
    is_whole   boolean     NOT NULL DEFAULT false,
    step       text        NOT NULL DEFAULT '',
    digest     text        NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (book, name, is_whole)
);

CREATE TABLE book_chunks (
    file    bigint  NOT NULL REFERENCES book_files ON DELETE CASCADE,
    number  integer NOT NULL,
    content bytea   NOT NULL CHECK (octet_length(content) < 2000000),
    digest  bytea   NOT NULL,
    PRIMARY KEY (file, number)
);
ALTER TABLE book_chunks ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE book_steps (
    number       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    step         text        NOT NULL UNIQUE,
    book         text        NOT NULL REFERENCES books,
    kind         text        NOT NULL,
    command      text        NOT NULL,
    arguments    text        NOT NULL,
    user_id      text        NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state        text        NOT NULL,
    percent      integer,
    exit_code    integer,
    error        text        NOT NULL DEFAULT '',
    started_at   timestamptz,
    ended_at     timestamptz,
    approved_by  text        NOT NULL DEFAULT '',
    approved_at  timestamptz,
    approval     text        NOT NULL DEFAULT '',
    counts       text        NOT NULL DEFAULT '{}',
    preview      text        NOT NULL DEFAULT '',
    output       bytea       NOT NULL DEFAULT '',
    mac          text        NOT NULL DEFAULT '',
    holder       text        NOT NULL DEFAULT '',
    expires_at   timestamptz,
    runner       integer     NOT NULL DEFAULT 0,
    attempt      integer     NOT NULL DEFAULT 0,
    lease_until  timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX book_steps_of_book ON book_steps (book, number);
CREATE UNIQUE INDEX book_steps_live ON book_steps (book) WHERE state IN ('waiting', 'running', 'pausing');
CREATE INDEX book_steps_to_run ON book_steps (number) WHERE state IN ('waiting', 'running', 'pausing');

COMMENT ON TABLE books IS 'Books that importers prepare in the console. A row without a key was erased.';
COMMENT ON TABLE book_files IS 'Files of a book: uploaded, or written by a step. Deleted with an erasure.';
COMMENT ON TABLE book_chunks IS
    'Up to 1 MiB of a file: nonce of 12 bytes, AES-256-GCM of a zstd frame with the key of the book.';
COMMENT ON COLUMN book_chunks.digest IS 'HMAC of the data with the key of the book.';
COMMENT ON TABLE book_steps IS 'Commands of importbook that api processes run on the files of a book.';
COMMENT ON COLUMN book_steps.command IS 'The command; empty after an erasure, since names of files can be names of persons.';
COMMENT ON COLUMN book_steps.approval IS 'MAC of step, preview, user_id, approved_by and approved_at.';
COMMENT ON COLUMN book_steps.output IS 'Beginning and end of the output, encrypted with the key of the book.';
COMMENT ON COLUMN book_steps.mac IS 'MAC of step, kind, arguments, book, supplier, organisation, holder and expires_at.';
COMMENT ON COLUMN book_steps.runner IS 'Random number of the api process that runs the step.';
COMMENT ON COLUMN book_steps.holder IS 'User with whose rights the step runs.';

-- 9. The platform.

CREATE SCHEMA platform;

-- Account numbers are a keyed permutation of this sequence: unique, and not guessable.
CREATE SEQUENCE platform.account_sequence;

CREATE TABLE platform.account_number_key AS
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) AS key;

-- 10. State of the server that the service's roles may read.

-- Number of standbys that a commit may wait for; NULL if the schema's owner may not see it. Through this function, the
-- service's roles need no right to see queries of other sessions.
CREATE FUNCTION synchronous_standbys() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN bool_or(sync_state IS NULL) THEN NULL
           ELSE count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END
    FROM pg_stat_replication
$$;
REVOKE ALL ON FUNCTION synchronous_standbys() FROM PUBLIC;

-- 11. Statistics contain samples of values: none for columns that can be erased, and for credentials.

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
    ALTER COLUMN saved_filters SET STATISTICS 0,
    ALTER COLUMN openid SET STATISTICS 0;
ALTER TABLE typed_reasons ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE owner_task_progress ALTER COLUMN outcome SET STATISTICS 0;
ALTER TABLE reconciliations
    ALTER COLUMN after_place SET STATISTICS 0,
    ALTER COLUMN totals SET STATISTICS 0,
    ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE books ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE book_files ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE book_chunks ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE book_steps
    ALTER COLUMN command SET STATISTICS 0,
    ALTER COLUMN arguments SET STATISTICS 0,
    ALTER COLUMN output SET STATISTICS 0,
    ALTER COLUMN mac SET STATISTICS 0;
