"""`python -m kokoro_ane VERB ...`: the console command without its script."""

from kokoro_ane.cli import main

raise SystemExit(main())
