-- The index of searches gathers new entries in a list, which its owner alone may have put in order: the projector asks
-- for it, so that no append does it when the list is full.
CREATE FUNCTION put_searches_in_order() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT gin_clean_pending_list(x.indexrelid)
    FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_am AS a ON a.oid = i.relam
    WHERE x.indrelid = to_regclass('public.account_search') AND a.amname = 'gin';
$$;
