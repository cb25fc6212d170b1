-- rollable: yes
-- How many standbys a commit may wait for, NULL where the schema's owner may not see it. The service's role asks through
-- this function, so that it need not see other sessions' queries.
CREATE FUNCTION synchronous_standbys() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT CASE WHEN bool_or(sync_state IS NULL) THEN NULL
           ELSE count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END
    FROM pg_stat_replication
$$;
REVOKE ALL ON FUNCTION synchronous_standbys() FROM PUBLIC;
