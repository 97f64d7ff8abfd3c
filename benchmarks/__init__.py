"""What Potluck's speed is measured with: ``make bench`` and ``make bench-data``."""
