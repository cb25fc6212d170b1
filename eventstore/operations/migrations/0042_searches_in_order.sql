-- rollable: yes
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

-- Where it is not named, Postgres looks among a session's temporary relations first: one of the same name as what this
-- function reads was read with the rights of the schema's owner.
ALTER FUNCTION synchronous_standbys() SET search_path = pg_catalog, pg_temp;
