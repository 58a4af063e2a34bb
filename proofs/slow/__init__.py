"""`prove slow`: a crowd that watches live, of which some stop reading."""
