"""`prove limits`: requests that are too large, too deep, too many-headed or too slow, and what they cost the others."""
