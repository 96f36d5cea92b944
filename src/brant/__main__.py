"""The program: `brant` and `python -m brant`."""

import signal
import sys

# Until main() can say something better: Ctrl-C amid the imports would print where Python was. An ignored one stays so.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from brant.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
