"""Write the page of evidence: `python -m tests.evidence`."""

from tests.evidence import PAGE, evidence_page

PAGE.write_text(evidence_page(), "utf-8")
