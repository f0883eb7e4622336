"""What the package promises about speed, runnable by anyone: ``make bench``."""
