#!/bin/sh
# Boots one container. Runs in a mount namespace of its own, so that its mounts go with its last process.
#
#   boot.sh LOWER DIR NAME GROUP...    LOWER is the overlay's lowerdir, DIR holds upper, work, root and disks/
set -eu
lower=$1 dir=$2 name=$3
shift 3
# Control groups of its own: two containers of one group would take each other's processes for theirs.
for group; do
    mkdir -p "$group"
    echo $$ >"$group/cgroup.procs"
done
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
# Disks of its own, each an image named after where it is mounted. Nothing is written to them but what is synced.
mkdir -p "$dir/disk"
for image in "$dir"/disks/*.img; do
    [ -e "$image" ] || continue
    at=$dir/root/$(basename "$image" .img | tr + /)
    mkdir -p "$at"
    mount -o loop,commit=300 "$image" "$dir/disk"
    if [ -d "$dir/disk/lost+found" ]; then
        rmdir "$dir/disk/lost+found"
        cp -a "$at/." "$dir/disk/"
        sync -f "$dir/disk"
    fi
    mount --move "$dir/disk" "$at"
done
# Whatever control groups the host has, the container has those of today.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
exec systemd-nspawn --directory="$dir/root" --boot --register=no --keep-unit --machine="$name" --private-network \
    --quiet --link-journal=no
