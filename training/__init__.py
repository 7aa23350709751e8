"""What made the bundled networks. Imported by nobody but its own commands."""
