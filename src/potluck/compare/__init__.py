"""Methods side by side: a grid of runs, carried out as the hardware allows, and the table that comes of it."""
