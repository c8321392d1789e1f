#!/bin/sh
# Prüft alle Befehle an einem Tagebuch in einem Wegwerf-Verzeichnis.
set -u
hier=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
ort=$(mktemp -d)
trap 'rm -rf "$ort"' EXIT
TAGEBUCH=$ort/tagebuch.txt
export TAGEBUCH
cp "$hier/beispiel/tagebuch.txt" "$TAGEBUCH"
gut=0 schlecht=0

# gleich NAME ERWARTET BEFEHL…
gleich() {
    name=$1 erwartet=$2
    shift 2
    erhalten=$("$@" 2>&1)
    if [ "$erhalten" = "$erwartet" ]; then
        gut=$((gut + 1))
    else
        schlecht=$((schlecht + 1))
        printf 'FEHLT  %s\n  erwartet: %s\n  erhalten: %s\n' "$name" "$erwartet" "$erhalten"
    fi
}

tagebuch() { sh "$hier/bin/tagebuch" "$@"; }

gleich 'liste eines Geräts' '2026-10-05  Drehbank       25 min  Späneblech gereinigt
2026-10-19  Drehbank       90 min  Lager getauscht' tagebuch liste Drehbank
gleich 'neu ohne Minuten' 'tagebuch: neu braucht GERÄT, TEXT und MINUTEN' tagebuch neu Drehbank Reinigen
gleich 'neu mit Strichpunkt' 'tagebuch: ein Strichpunkt trennt die Felder und darf in keinem stehen' \
    tagebuch neu Drehbank 'a;b' 5

for weitere in "$hier"/tests/[0-9]*.sh; do
    [ -e "$weitere" ] && . "$weitere"
done

printf '%d geprüft, %d fehlgeschlagen\n' $((gut + schlecht)) "$schlecht"
[ "$schlecht" -eq 0 ]
