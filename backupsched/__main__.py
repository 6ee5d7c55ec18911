import sys

from backupsched.command_line import main

sys.argv[0] = "backupsched"
sys.exit(main())
