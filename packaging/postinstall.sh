#!/bin/sh
# Also runs after an upgrade. It starts nothing that did not run before. It waits for no start, which can take long.
set -e
systemd-sysusers sqlstore.conf
install -d -o sqlstore -g sqlstore -m 0700 /var/lib/sqlstore
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$(systemctl is-active sqlstore.service)" in
active | activating | reloading) ;;
*) exit 0 ;;
esac
if setpriv --reuid=sqlstore --regid=sqlstore --init-groups \
	sqlstore config check --config-file /etc/sqlstore/sqlstore.yaml >/dev/null; then
	systemctl restart --no-block sqlstore.service || echo "sqlstore: run 'systemctl restart sqlstore'" >&2
else
	echo "sqlstore: the old version still runs, because the new one refuses the settings (see above)." >&2
	echo "Correct /etc/sqlstore/sqlstore.yaml, then run 'systemctl restart sqlstore'." >&2
fi
