"""Push delivery: claims, dispatch, results, dead letters and delivery status."""
