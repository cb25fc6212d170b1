-- rollable: yes
-- Payloads of which two fit on a page stay in their rows: most do, and each piece beside a row costs an index entry to
-- write, and a look-up for each time that it is read. Larger ones lie beside their rows, as those from before this do.

ALTER TABLE payloads SET (toast_tuple_target = 4064);
