#!/bin/sh
# Installs the units below a prefix, with the paths of the programs there filled in. package.nix calls it, and so do the
# tests, which have no builder of Nix.
#
#   install-units.sh SYSTEMD PREFIX    SYSTEMD is the directory of the units in the source
set -eu
systemd=$1 prefix=$2
units=$prefix/lib/systemd/system

mkdir -p "$units"
for file in "$systemd"/board-agent*.* "$systemd"/board-agent*.d/*.conf; do
    # A drop-in is a link to what several units share; installed are its contents.
    [ -f "$file" ] || continue
    target=$units/${file#"$systemd"/}
    mkdir -p "${target%/*}"
    sed -e "s|/usr/bin/|$prefix/bin/|g" -e "s|/usr/share/|$prefix/share/|g" "$file" >"$target"
done
if grep -rn /usr/ "$units"; then
    echo "install-units.sh: these lines name a path that is not below $prefix" >&2
    exit 1
fi
doc=$prefix/share/doc/board-agent
mkdir -p "$doc"
cp "$systemd/README.md" "$doc/README.systemd.md"
