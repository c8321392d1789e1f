#!/bin/sh
# Makes the layer that every container has above the Debian root: the package, two users, a checkout of both of them, a
# configuration with a scripted agent. Runs in a mount namespace of its own, so nothing stays mounted.
#
#   provision.sh BASE LAYER PACKAGE SUPPORT    PACKAGE is the .deb, SUPPORT the directory of the agent
set -eu
base=$1 layer=$2 package=$3 support=$4
root=$layer/root

mkdir -p "$layer/upper" "$layer/work" "$root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$root"
mount -t proc proc "$root/proc"

cp "$package" "$root/tmp/board-agent.deb"
chroot "$root" dpkg --install /tmp/board-agent.deb
rm "$root/tmp/board-agent.deb"
chroot "$root" systemctl --quiet enable board-agent.target

# Nobody logs in, and nothing is to be looked after but the board.
for unit in systemd-logind getty.target console-getty systemd-update-utmp systemd-update-utmp-runlevel apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer systemd-networkd systemd-timesyncd; do
    chroot "$root" systemctl --quiet mask "$unit"
done

# The operator and the service are two users of one group, who share the checkout.
chroot "$root" useradd --create-home --groups board-agent,board-agent-drop op
install -d -m 2775 -o root -g root "$root/srv"
chroot "$root" install -d -m 2775 -o op -g board-agent /srv/repo
chroot "$root" runuser -u op -- sh -euc '
    umask 002
    cd /srv/repo
    git init --quiet --shared=group --initial-branch=main
    git config user.name Operator
    git config user.email operator@example.invalid
    mkdir -p src docs/intent docs/research
    echo "# Versuch" >README.md
    echo eins >src/text.txt
    : >docs/intent/.gitkeep
    : >docs/research/.gitkeep
    git add .
    git commit --quiet -m Anfang'

install -D -m 0755 "$support/agent.sh" "$root/usr/local/bin/agent.sh"
mkdir -p "$root/opt/gates"
install -D -m 0644 "$support/config.toml" "$root/etc/board-agent/config.toml"
install -d -m 0700 "$root/etc/credstore"
echo 'secret-of-the-proxy-of-the-tests' >"$root/etc/credstore/board-agent.proxy-secret"

# As an operator does it: what the units may do with the checkout, and that its files stay the group's.
chroot "$root" boardctl check-config
chroot "$root" boardctl drop-ins --install

# What a first boot makes is made by each container's own.
rm -rf "$root/var/lib/board-agent"
