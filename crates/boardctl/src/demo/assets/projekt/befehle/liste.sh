# tagebuch liste [GERÄT]
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
awk -F';' -v geraet="${1:-}" '
    geraet == "" || $2 == geraet { printf "%s  %-12s %4d min  %s\n", $1, $2, $4, $3 }
' "$buch"
