"""Reports what an agent does in a turn to live channels, and receives requests to stop it."""
