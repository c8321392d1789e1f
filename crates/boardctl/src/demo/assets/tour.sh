# Was der Agent in `boardctl demo --tour` tut: ein Jahresbericht, in vier Teile geteilt. Gelesen von agent.sh.

baue_geraete() {
    schreibe befehle/geraete.sh <<'ENDE'
# tagebuch geraete JAHR
case ${1:-} in
    [0-9][0-9][0-9][0-9]) ;;
    *) fehler 'geraete braucht ein JAHR, zum Beispiel 2026' 2 ;;
esac
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
awk -F';' -v jahr="$1" '
    NF == 4 && index($1, jahr "-") == 1 { minuten[$2] += $4 }
    END { for (geraet in minuten) printf "%d;%s\n", minuten[geraet], geraet }
' "$buch" | LC_ALL=C sort -t';' -k1,1nr -k2,2 | awk -F';' '{ printf "%6d min  %s\n", $1, $2 }'
ENDE
    schreibe tests/40-geraete.sh <<'ENDE'
gleich 'geraete eines Jahres' '   115 min  Drehbank
    70 min  Bandsäge
    15 min  Standbohre' tagebuch geraete 2026
gleich 'geraete ohne Jahr' 'tagebuch: geraete braucht ein JAHR, zum Beispiel 2026' tagebuch geraete
ENDE
    haenge_ein geraete neu
    fuege_ein README.md '- `tagebuch neu' '- `tagebuch geraete JAHR` zählt die Minuten eines Jahres je Gerät zusammen'
}

baue_monate() {
    schreibe befehle/monate.sh <<'ENDE'
# tagebuch monate JAHR
case ${1:-} in
    [0-9][0-9][0-9][0-9]) ;;
    *) fehler 'monate braucht ein JAHR, zum Beispiel 2026' 2 ;;
esac
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
awk -F';' -v jahr="$1" '
    NF == 4 && index($1, jahr "-") == 1 { minuten[substr($1, 1, 7)] += $4 }
    END { for (monat in minuten) printf "%s %6d min\n", monat, minuten[monat] }
' "$buch" | LC_ALL=C sort
ENDE
    schreibe tests/41-monate.sh <<'ENDE'
gleich 'monate eines Jahres' '2026-10    170 min
2026-11     30 min' tagebuch monate 2026
gleich 'monate ohne Jahr' 'tagebuch: monate braucht ein JAHR, zum Beispiel 2026' tagebuch monate
ENDE
    haenge_ein monate liste
    fuege_ein README.md '- `tagebuch liste' '- `tagebuch monate JAHR` zählt die Minuten eines Jahres je Monat zusammen'
}

# Einer, der nicht gelingt: so ist zu sehen, dass eine Synthese auch davon berichtet.
scheitere_am_druck() {
    sage 'sucht ein Programm, das PDF schreibt'
    # Die letzte Zeile der Fehlerausgabe wird der Grund auf der Karte.
    sage 'blockiert: der Intent verlangt ein PDF, und hier ist kein Programm, das eines schreibt'
    printf 'Zu entscheiden ist, ob ein solches Programm dazukommt oder eine Textseite genügt.\n'
    exit 1
}

# Eine Synthese wird ausgearbeitet: was erreicht ist und was fehlt, aus dem, was in ihr steht.
baue_bewertung() {
    zitat 'Intent ' | awk -v name="$name" '
        /^### / { titel = substr($0, 5); anzahl++ }
        /^- Stand: / {
            zeile = "- " titel ": " substr($0, 10)
            if (/erfolgreich/) erreicht = erreicht zeile "\n"; else offen = offen zeile "\n"
        }
        /^- Grund: / { offen = offen "  " substr($0, 3) "\n" }
        END {
            printf "# Bewertung: %s\n\n%d Teilaufgaben sind beendet.\n\n", name, anzahl
            printf "## Erreicht\n\n%s\n## Offen\n\n%s", erreicht, offen == "" ? "Nichts.\n" : offen
        }
    ' | schreibe "bewertung/$BOARD_CARD_ID.md"
}

recherchiere_leser() {
    sage 'zählt die Einträge des Beispiels'
    buch=tree/beispiel/tagebuch.txt
    cat <<ENDE
===RESEARCH-REPORT===
job: $BOARD_JOB_ID
---
# $(titel <question.md)

**Antwort:** Die Betreuung und der Verein. Beide brauchen Minuten je Gerät und je Monat; einzelne Einträge liest
im Jahresbericht niemand.

## Belege

- Gezählt: $(awk 'END { print NR }' $buch) Einträge an $(cut -d';' -f2 $buch | sort -u | awk 'END { print NR }') Geräten im Beispiel-Tagebuch.
- \`README.md\` nennt als Zweck, wer wann woran gearbeitet hat; über Kosten sagt das Tagebuch nichts.

## Unsicher bleibt

- Ob der Verein ein bestimmtes Blatt erwartet; gefragt wurde niemand.
===END-RESEARCH-REPORT===
ENDE
}

# Ein Kind des Jahresberichts: Slug, Titel, Ziel und Umfang.
teil() {
    printf '===CHILD===\nslug: %s\nart: intent\n---\n# Intent: %s\n\n## Ziel\n\n%s\n\n## Umfang\n\n- %s\n\n' \
        "$1" "$2" "$3" "$4"
    printf '## Erfolgskriterien\n\n- `sh tests/pruefe.sh` läuft ohne Fehler durch und prüft das Neue mit.\n'
    printf '===END-CHILD===\n'
}

teile_jahresbericht() {
    printf '===SPLIT===\njob: %s\n===CHILD===\nslug: jahresbericht-leser\nart: recherche\n---\n' "$BOARD_JOB_ID"
    printf '# Wer liest den Jahresbericht?\n\n'
    printf 'Wer bekommt den Jahresbericht der Werkstatt zu sehen, und welche Zahlen braucht er?\n===END-CHILD===\n'
    teil jahresbericht-geraete 'Minuten eines Jahres je Gerät' 'Sehen, welches Gerät wie viel Arbeit macht.' \
        'Neuer Befehl `tagebuch geraete JAHR`, die meiste Zeit zuerst.'
    teil jahresbericht-monate 'Minuten eines Jahres je Monat' 'Sehen, wann in der Werkstatt gearbeitet wird.' \
        'Neuer Befehl `tagebuch monate JAHR`, in der Folge der Monate.'
    teil jahresbericht-druck 'Jahresbericht als PDF' 'Ein Blatt, das an der Wand hängen kann.' \
        'Neuer Befehl `tagebuch druck JAHR`, der ein PDF schreibt.'
    printf '===END-SPLIT===\n'
}
