"""`prove browser`: hostile texts on every surface of the page, and pages of other origins, in a real browser."""
