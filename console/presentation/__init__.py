"""How pages say it: texts, formats, lists, timelines."""
