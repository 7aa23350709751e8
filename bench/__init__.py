"""How fast and how big. Never imported by the rooms."""
