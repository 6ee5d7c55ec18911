from fleet.management.commands import apply


class Command(apply.Command):
    help = f"{apply.Command.help} As `apply`, without --prune: what the file does not name is left alone."
    prunes = False
