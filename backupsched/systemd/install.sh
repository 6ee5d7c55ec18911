#!/bin/sh
# Installs the units of the scheduler for a package in /opt/backupsched (another place: the first argument). Run it as
# root; run it again after an upgrade. It makes the account, starts nothing, and changes no drop-in of yours.
set -eu
home="${1:-/opt/backupsched}"
here="$(cd "$(dirname "$0")" && pwd)"
units="${UNITS:-/etc/systemd/system}"

case "$home" in
*[!A-Za-z0-9/._+@-]* | [!/]* | "") echo "$home: name an absolute path of letters, digits and / . _ + @ - only: others mean something else in units" >&2; exit 2 ;;
esac
[ -x "$home/bin/backupsched" ] || { echo "$home/bin/backupsched is missing: install the package there, or name its place" >&2; exit 2; }
[ -w "$units" ] || { echo "$units cannot be written: run this as root" >&2; exit 2; }
if [ -z "${UNITS:-}" ] && ! getent passwd backupsched >/dev/null; then
    useradd --system --home-dir /var/lib/backupsched --shell /usr/sbin/nologin backupsched
fi
[ -n "${UNITS:-}" ] || install -d -o backupsched -g backupsched -m 0711 /var/lib/backupsched
for unit in "$here"/backupsched*.service "$here"/backupsched.target; do
    sed "s|/opt/backupsched/bin/|$home/bin/|" "$unit" >"$units/.$$.new"
    chmod 644 "$units/.$$.new"
    mv "$units/.$$.new" "$units/$(basename "$unit")"
done
echo "installed in $units. What to do next:"
echo "  set up, as the account that runs it: runuser -u backupsched -- $home/bin/backupsched init"
echo "  let workers write your repositories: systemctl edit backupsched-worker@ (ReadWritePaths=/srv/backups)"
echo "  start it: systemctl daemon-reload && systemctl enable --now backupsched.target"
