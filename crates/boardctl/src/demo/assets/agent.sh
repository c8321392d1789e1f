#!/bin/sh
# Ein Agent nach Drehbuch, damit sich das Board ohne Modell und ohne Netz ausprobieren lässt.
#
# Er bekommt seinen Auftrag auf der Standardeingabe wie jeder andere Agent und arbeitet wirklich: als Builder
# ändert er Dateien und prüft sie, als Reviewer lässt er die Prüfungen laufen und liest den Diff. Was er auf die
# Standardausgabe schreibt, ist seine Schlussnachricht; was er nebenbei tut, sagt er auf der Fehlerausgabe.
set -eu
auftrag=$(cat)

sage() {
    printf '%s\n' "$1" >&2
    [ "${DEMO_SECONDS:-0}" = 0 ] || sleep "$DEMO_SECONDS"
}

# Der Text, der im Auftrag unter der Überschrift $1 zwischen zwei gleich langen Zäunen steht.
zitat() {
    printf '%s\n' "$auftrag" | awk -v titel="$1" '
        stand == 0 && index($0, titel) == 1 { stand = 1; next }
        stand == 1 && /^(```|~~~)/ { match($0, /^[`~]+/); zaun = substr($0, 1, RLENGTH); stand = 2; next }
        stand == 2 && $0 == zaun { exit }
        stand == 2 { print }
    '
}

# Die erste Überschrift eines Textes, ohne „Intent:".
titel() {
    sed -n 's/^#  *\(Intent: *\)\{0,1\}\([^ ].*\)$/\2/p' | sed -n 1p
}

# Schreibt die Standardeingabe in die Datei $1.
schreibe() {
    mkdir -p "$(dirname "$1")"
    cat >"$1"
    sage "schreibt $1"
}

# Fügt in der Datei $1 nach der ersten Zeile, die mit $2 beginnt, die Zeile $3 ein, wenn sie noch fehlt.
fuege_ein() {
    grep -qF -- "$3" "$1" && return
    awk -v nach="$2" -v neu="$3" '
        { print }
        !fertig && index($0, nach) == 1 { print neu; fertig = 1 }
    ' "$1" >"$1.neu"
    cat "$1.neu" >"$1"
    rm "$1.neu"
    sage "ändert $1"
}

# Hängt den Befehl $1 in bin/tagebuch ein: nach dem Befehl $2, oder als ersten.
haenge_ein() {
    case $2 in
        '') nach='case $befehl in' ;;
        *) nach="    $2)" ;;
    esac
    fuege_ein bin/tagebuch "$nach" "    $1) . \"\$hier/befehle/$1.sh\" ;;"
}

. "$(dirname "$0")/tour.sh"

# --- Builder -------------------------------------------------------------------------------------------------

baue_summe() {
    schreibe befehle/summe.sh <<'ENDE'
# tagebuch summe JAHR-MONAT
case ${1:-} in
    [0-9][0-9][0-9][0-9]-[01][0-9]) ;;
    *) fehler 'summe braucht JAHR-MONAT, zum Beispiel 2026-10' 2 ;;
esac
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
awk -F';' -v monat="$1" '
    NF == 4 && index($1, monat "-") == 1 { zahl[$2]++; minuten[$2] += $4 }
    END { for (geraet in zahl) printf "%d;%d;%s\n", minuten[geraet], zahl[geraet], geraet }
' "$buch" | LC_ALL=C sort -t';' -k1,1nr -k3,3 | awk -F';' '
    { printf "%6d min %3d Einträge  %s\n", $1, $2, $3; zahl += $2; minuten += $1 }
    END { printf "%6d min %3d Einträge  zusammen\n", minuten, zahl }
'
ENDE
    schreibe tests/10-summe.sh <<'ENDE'
gleich 'summe im Oktober' '   115 min   2 Einträge  Drehbank
    40 min   1 Einträge  Bandsäge
    15 min   1 Einträge  Standbohre
   170 min   4 Einträge  zusammen' tagebuch summe 2026-10
gleich 'summe eines leeren Monats' '     0 min   0 Einträge  zusammen' tagebuch summe 2025-01
gleich 'summe ohne Monat' 'tagebuch: summe braucht JAHR-MONAT, zum Beispiel 2026-10' tagebuch summe
ENDE
    haenge_ein summe liste
    fuege_ein README.md '- `tagebuch liste' \
        '- `tagebuch summe JAHR-MONAT` zählt Einträge und Minuten je Gerät zusammen'
}

baue_suche() {
    schreibe befehle/suche.sh <<'ENDE'
# tagebuch suche WORT…
[ $# -gt 0 ] || fehler 'suche braucht ein WORT oder mehrere' 2
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
# Die Wörter gehen als Zeilen der Umgebung hinein: -v würde Rückstriche deuten.
WOERTER=$(printf '%s\n' "$@") awk -F';' '
    BEGIN { anzahl = split(tolower(ENVIRON["WOERTER"]), wort, "\n") }
    {
        text = tolower($2 ";" $3)
        for (i = 1; i <= anzahl; i++) if (index(text, wort[i]) == 0) next
        printf "%s  %-12s %4d min  %s\n", $1, $2, $4, $3
        treffer = 1
    }
    END { exit !treffer }
' "$buch" || fehler 'nichts gefunden'
ENDE
    schreibe tests/20-suche.sh <<'ENDE'
lager='2026-10-19  Drehbank       90 min  Lager getauscht'
gleich 'suche im Text' "$lager" tagebuch suche LAGER
gleich 'suche mit zwei Wörtern' "$lager" tagebuch suche lager drehbank
gleich 'suche im Gerät' '2026-10-07  Standbohre     15 min  Riemen nachgespannt' tagebuch suche standb
gleich 'suche nach einem Sternchen' 'tagebuch: nichts gefunden' tagebuch suche '*'
gleich 'suche ohne Wort' 'tagebuch: suche braucht ein WORT oder mehrere' tagebuch suche
ENDE
    haenge_ein suche neu
    fuege_ein README.md '- `tagebuch neu' \
        '- `tagebuch suche WORT…` zeigt die Einträge, in denen alle Wörter vorkommen'
}

baue_csv() {
    # Beim ersten Mal übersieht er den Schutz vor Formeln: so ist zu sehen, wie ein Review zurückgibt.
    formel='s'
    [ -z "$(zitat 'Review-Bericht')$(zitat 'Review report')" ] || formel='s ~ /^[=+@-]/ ? sprintf("%c", 39) s : s'
    sed "s|@FORMEL@|$formel|" <<'ENDE' | schreibe befehle/csv.sh
# tagebuch csv [JAHR]
case ${1:-0000} in
    [0-9][0-9][0-9][0-9]) ;;
    *) fehler 'csv nimmt ein JAHR mit vier Ziffern' 2 ;;
esac
[ -e "$buch" ] || fehler "noch kein Tagebuch: $buch"
awk -F';' -v jahr="${1:-}" '
    function feld(s) {
        s = @FORMEL@
        if (s !~ /[",]|^ | $/) return s
        gsub(/"/, "\"\"", s)
        return "\"" s "\""
    }
    BEGIN { printf "datum,geraet,text,minuten\r\n" }
    NF == 4 && (jahr == "" || index($1, jahr "-") == 1) {
        printf "%s,%s,%s,%d\r\n", $1, feld($2), feld($3), $4
    }
' "$buch"
ENDE
    schreibe tests/30-csv.sh <<'ENDE'
zeile() { tagebuch csv 2026 | tr -d '\r' | sed -n "$1p"; }
gleich 'csv mit Spaltennamen' 'datum,geraet,text,minuten' zeile 1
gleich 'csv mit Komma' '2026-10-07,Bandsäge,"Sägeblatt gewechselt, altes entsorgt",40' zeile 4
gleich 'csv mit Anführungszeichen' '2026-11-02,Bandsäge,"Führung ""oben"" neu eingestellt",30' zeile 6
leeres() { tagebuch csv 2019 | tr -d '\r'; }
gleich 'csv eines leeren Jahres' 'datum,geraet,text,minuten' leeres
gleich 'csv mit falschem Jahr' 'tagebuch: csv nimmt ein JAHR mit vier Ziffern' tagebuch csv 19
ENDE
    [ "$formel" = s ] || schreibe tests/31-csv-formel.sh <<'ENDE'
formel() {
    printf '2026-12-01;Drehbank;=1+1;5\n' >"$ort/formel.txt"
    TAGEBUCH=$ort/formel.txt sh "$hier/bin/tagebuch" csv | tr -d '\r' | sed -n 2p
}
gleich 'csv mit einer Formel' "2026-12-01,Drehbank,'=1+1,5" formel
ENDE
    haenge_ein csv ''
    fuege_ein README.md '## Befehle' ''
    fuege_ein README.md '## Befehle' '- `tagebuch csv [JAHR]` schreibt die Einträge für eine Tabellenkalkulation'
}

# Für Aufträge, die in keinem Drehbuch stehen.
baue_notiz() {
    {
        printf '# %s\n\n' "$name"
        printf 'Umgesetzt nach docs/intent/%s.md. Festgehalten wurden die Erfolgskriterien:\n\n' "$BOARD_CARD_ID"
        zitat 'Intent ' | awk '/^## /{ drin = /^## Erfolg/ } drin && /^[-•*]/ { print }'
    } | schreibe "notizen/$BOARD_CARD_ID.md"
}

baue() {
    name=$(zitat 'Intent ' | titel)
    name=${name:-$BOARD_CARD_ID}
    sage "liest den Intent: $name"
    case $BOARD_CARD_ID in
        tagebuch-monatssumme) baue_summe ;;
        tagebuch-suche) baue_suche ;;
        tagebuch-csv-export) baue_csv ;;
        jahresbericht-geraete) baue_geraete ;;
        jahresbericht-monate) baue_monate ;;
        jahresbericht-druck) scheitere_am_druck ;;
        *-synthese) baue_bewertung ;;
        *) baue_notiz ;;
    esac
    # Eine Zeile je Lauf, damit auch ein zweiter etwas hinterlässt.
    notiz=$({ zitat 'Notiz des Operators'; zitat 'Note of the operator'; } | sed -n 1p)
    mkdir -p aenderungen
    printf -- '- %s\n' "${notiz:-$name}" >>"aenderungen/$BOARD_CARD_ID.md"
    sage 'lässt die Prüfungen laufen'
    if ergebnis=$(sh tests/pruefe.sh 2>&1); then
        printf '%s\n\nUmgesetzt wie im Intent beschrieben, mit eigener Prüfung.\n\nsh tests/pruefe.sh: %s\n' \
            "$name" "$ergebnis"
    else
        printf 'Die Prüfungen laufen nicht durch:\n\n%s\n' "$ergebnis"
        exit 1
    fi
}

# --- Reviewer ------------------------------------------------------------------------------------------------

# Ob der Export einen Text, der wie eine Formel beginnt, mit einem Hochkomma schützt.
formel_geschuetzt() {
    versuch=$(mktemp)
    printf '2026-12-01;Drehbank;=1+1;5\n' >"$versuch"
    TAGEBUCH=$versuch sh tree/bin/tagebuch csv | grep -q ",'=1+1,"
    gefunden=$?
    rm -f "$versuch"
    return $gefunden
}

pruefe() {
    sage 'liest den Diff'
    umfang=$(awk '
        /^\+\+\+ / { datei = $2; sub(/^b\//, "", datei); reihe[++n] = datei; next }
        /^--- / { next }
        /^\+/ { plus[datei]++ }
        /^-/ { minus[datei]++ }
        END { for (i = 1; i <= n; i++) printf "- `%s` (+%d, −%d)\n", reihe[i], plus[reihe[i]], minus[reihe[i]] }
    ' diff.patch)
    sage 'lässt die Prüfungen laufen'
    befunde='' entscheidung=bereit
    ergebnis=$(sh tree/tests/pruefe.sh 2>&1) || {
        entscheidung=zurueck
        befunde='1. **hoch:** Die Prüfungen laufen nicht durch.'
    }
    if [ -e tree/befehle/csv.sh ] && ! formel_geschuetzt; then
        entscheidung=zurueck
        befunde='1. **hoch:** Ein Text, der mit `=` beginnt, steht ungeschützt im Export; ein Tabellenprogramm rechnet
   ihn aus. Der Intent verlangt ein Hochkomma davor. Fundstelle: `befehle/csv.sh`, Funktion `feld`.
2. **mittel:** Eine Prüfung dafür fehlt unter `tests/`.'
    fi
    if [ "$entscheidung" = bereit ]; then
        schluss='Der Commit erfüllt den Intent. Über Merge und Deployment entscheidet ein Mensch.'
        rat='- Nach dem Merge einmal mit dem echten Tagebuch der Werkstatt aufrufen.'
    else
        schluss='Zurück in die Planung: ein Erfolgskriterium ist nicht erfüllt.'
        rat='- Die Befunde in den nächsten Auftrag aufnehmen und von diesem Commit aus weiterarbeiten.'
    fi
    cat <<ENDE
===REVIEW-REPORT===
commit: $BOARD_COMMIT
entscheidung: $entscheidung
---
# Review: $(titel <intent.md)

## Umfang und Vorgehen

Gelesen wurden der Intent und der Diff; die Prüfungen liefen im Baum des Commits.

$umfang

\`sh tests/pruefe.sh\`: $(printf '%s' "$ergebnis" | tail -n 1)

## Befunde nach Priorität

${befunde:-Keine. Gesucht wurde nach fehlenden Prüfungen, unbehandelten Aufrufen und Änderungen am Tagebuch selbst.}

## Unsicherheiten

- Verhalten mit anderen awk-Fassungen als der hier installierten wurde nicht geprüft.

## Entscheidung

$schluss

## Empfehlungen

$rat
===END-REVIEW-REPORT===
ENDE
}

# --- Researcher ----------------------------------------------------------------------------------------------

recherchiere() {
    sage 'liest die Frage'
    case $BOARD_CARD_ID in
        jahresbericht-leser) recherchiere_leser ;;
        *) recherchiere_ablage ;;
    esac
}

recherchiere_ablage() {
    versuch=$(mktemp -d)
    sage 'lässt 40 Aufrufe von neu gleichzeitig schreiben'
    i=0
    while [ $i -lt 40 ]; do
        TAGEBUCH=$versuch/buch.txt sh tree/bin/tagebuch neu Drehbank "Versuch $i" 5 &
        i=$((i + 1))
    done
    wait
    zeilen=$(awk 'END { print NR }' "$versuch/buch.txt")
    ganze=$(awk -F';' 'NF == 4' "$versuch/buch.txt" | awk 'END { print NR }')
    rm -rf "$versuch"
    cat <<ENDE
===RESEARCH-REPORT===
job: $BOARD_JOB_ID
---
# $(titel <question.md)

**Antwort:** Ja, mit einer Datei je Werkstatt. Auf einem Rechner trägt die Textdatei auch gleichzeitige Einträge;
über ein Netzlaufwerk hinweg ist das nicht gesichert.

## Belege

- Gemessen: 40 gleichzeitige Aufrufe von \`neu\` ergaben $zeilen Zeilen, davon $ganze mit vier Feldern.
- \`befehle/neu.sh\` hängt eine Zeile mit einem einzigen printf an (\`>>\`); kurze Anfügungen an eine lokale Datei
  überschreiben einander nicht.
- \`befehle/liste.sh\` liest die Datei einmal von vorn; eine halb geschriebene letzte Zeile fiele beim nächsten
  Aufruf nicht mehr auf.

## Möglichkeiten

| Ablage | lesbar ohne Programm | Sicherung | Arbeit beim Umstieg |
| --- | --- | --- | --- |
| eine Datei je Werkstatt | ja | kopieren | gering: ein Befehl, der mehrere liest |
| gemeinsame Datei mit Sperre | ja | kopieren | mittel; Sperren über ein Netzlaufwerk sind heikel |
| SQLite | nein | Sicherung des Programms | hoch: jeder Befehl ändert sich |

## Unsicher bleibt

- Das Verhalten auf dem Netzlaufwerk des Vereins; dort wurde nichts gemessen.
===END-RESEARCH-REPORT===
ENDE
}

# --- Planner -------------------------------------------------------------------------------------------------

# Aus einem Satz ein Name wie in einer Adresse.
name_aus() {
    printf '%s' "$1" | sed 's/ä/ae/g; s/Ä/ae/g; s/ö/oe/g; s/Ö/oe/g; s/ü/ue/g; s/Ü/ue/g; s/ß/ss/g' |
        tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/^-*//' | cut -c1-40 | sed 's/-*$//'
}

# Was gesagt wurde, ohne wer es gesagt hat.
gespraech() {
    { zitat 'Gespräch'; zitat 'Conversation'; } | sed \
        -e 's/^[*# ]*Operator[^:]*:[* ]*//' -e 's/^[*# ]*Planner[^:]*:[* ]*//' -e '/^[[:space:]]*$/d'
}

frage() {
    cat <<ENDE
===DRAFT-QUESTION===
$1
optionen: $2
===END-DRAFT-QUESTION===
ENDE
}

entwirf() {
    runde=$(printf '%s\n' "$auftrag" |
        sed -n -e 's/.*ist Runde \([0-9]*\).*/\1/p' -e 's/.*is round \([0-9]*\).*/\1/p' | sed -n 1p)
    vorher=$(zitat 'Bisheriger Intent')$(zitat 'Intent so far')
    sage "liest das Gespräch, Runde ${runde:-1}"
    if [ -n "$vorher" ]; then
        fest=$(printf '%s\n' "$auftrag" |
            sed -n -e 's/.*`slug` muss `\([a-z0-9-]*\)`.*/\1/p' -e 's/.*`slug` must be `\([a-z0-9-]*\)`.*/\1/p' |
            sed -n 1p)
        printf '===DRAFT-INTENT===\nslug: %s\n---\n%s\n\n## Nachtrag aus dem Review\n\n' "$fest" "$vorher"
        printf -- '- Die Befunde des letzten Berichts sind behoben und durch eine Prüfung belegt.\n'
        printf '===END-DRAFT-INTENT===\n'
        return
    fi
    case ${runde:-1} in
        1) frage 'Wer soll das vor allem benutzen?' 'alle in der Werkstatt | die Betreuung | der Verein | noch offen' ;;
        2) frage 'Woran erkennst du, dass es fertig ist? Ein Beispiel mit erwarteter Ausgabe hilft am meisten.' keine ;;
        *)
            thema=$(gespraech | sed -n 1p)
            name=$(name_aus "$thema")
            cat <<ENDE
===DRAFT-INTENT===
slug: ${name:-neuer-auftrag}
---
# Intent: ${thema:-Neuer Auftrag}

## Ziel

${thema:-Ein neuer Auftrag.} Das Gespräch, aus dem dieser Intent entstanden ist, liegt neben der Karte.

## Umfang

- Ein eigener Befehl unter \`befehle/\`, eingehängt in \`bin/tagebuch\`, beschrieben in der README.
- Eine Prüfung unter \`tests/\`, die das im Gespräch genannte Beispiel nachrechnet.

## Explizit ausgeschlossen

- Keine Änderung am Format des Tagebuchs.

## Annahmen

- Eine POSIX-Shell und awk genügen.

## Offene Risiken

- Der Intent stammt aus wenigen Antworten; vor dem Start sollte ihn ein Mensch lesen.

## Erfolgskriterien

- \`sh tests/pruefe.sh\` läuft ohne Fehler durch und prüft das Neue mit.
===END-DRAFT-INTENT===
ENDE
            ;;
    esac
}

teile() {
    sage 'liest den Intent und teilt ihn auf'
    case $BOARD_CARD_ID in
        jahresbericht)
            teile_jahresbericht
            return
            ;;
    esac
    name=$(titel <intent.md)
    cat <<ENDE
===SPLIT===
job: $BOARD_JOB_ID
===CHILD===
slug: $(printf '%s' "$BOARD_CARD_ID" | cut -c1-60)-messung
art: recherche
---
# Was braucht „$name" mindestens?

Welche der Anforderungen werden im Alltag der Werkstatt gebraucht, welche können warten?
===END-CHILD===
===CHILD===
slug: $(printf '%s' "$BOARD_CARD_ID" | cut -c1-60)-kern
art: intent
---
# Intent: $name, der Kern

## Ziel

Der kleinste Teil, der für sich nützlich ist.

## Umfang

- Der Befehl ohne seine Sonderfälle, mit Prüfung.

## Erfolgskriterien

- \`sh tests/pruefe.sh\` läuft ohne Fehler durch.
===END-CHILD===
===END-SPLIT===
ENDE
}

case $BOARD_JOB_TYPE in
    builder) baue ;;
    review) pruefe ;;
    research) recherchiere ;;
    draft) entwirf ;;
    split) teile ;;
    *)
        printf 'dieses Drehbuch kennt keinen Auftrag %s\n' "$BOARD_JOB_TYPE" >&2
        exit 1
        ;;
esac
