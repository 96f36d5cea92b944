"""`python -m brant` is `brant`."""

import sys

from brant.cli.main import main

sys.exit(main())
