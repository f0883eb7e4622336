"""The forms in which models write calls as text, one file each."""
