"""`prove soak`: two hundred agents at an even pace for minutes, and a fault each second."""
