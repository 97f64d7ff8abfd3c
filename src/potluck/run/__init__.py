"""One experiment on disk: everything needed to resume, report and predict."""
