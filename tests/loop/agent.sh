#!/bin/sh
# The scripted agent of the loop tests. What it does follows from the card's id:
#   ok-*      writes a file; the review finds it ready
#   back-*    the same, but the first review sends it back
#   nothing-* changes nothing        fail-*  ends with exit code 3 after a change
#   slow-*    works for a while, a researcher too      hang-*  works until it is stopped
#   loop-*    (codex events) never stops to use tools
#   noisy-*   prints 150,000 lines first
#   mute-*    the reviewer gives no verdict
# A planner's round follows from the topic's first word; the second is the slug:
#   sofort  proposes the intent at once        frage   asks first
#   stumm   says nothing of use until somebody writes "bitte jetzt"
#   ewig    asks again and again               langsam works until it is stopped, once
# A slug that the board calls taken gets "-zwei"; a revision carries the slug of its card.
#   told-*    keeps what it was told: the builder as a file, the reviewer what it was told of its role
#   reply-* gives as its answer what stands under its name beside this script; a draft's slug names it
set -eu
prompt=$(cat)
mode=${1:-text}

say() {
    if [ "$mode" = codex ]; then
        printf '{"type":"item.completed","item":{"id":"m","type":"agent_message","text":"%s"}}\n' "$1"
        printf '{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":10,"output_tokens":20}}\n'
    else
        printf '%s\n' "$1"
    fi
}

tool() {
    printf '{"type":"item.completed","item":{"id":"t","type":"command_execution","command":"true","status":"completed","exit_code":0}}\n'
}

# What stands in the file of this name, of this job and commit.
reply() {
    sed -e "s/@JOB@/$BOARD_JOB_ID/" -e "s/@COMMIT@/${BOARD_COMMIT:-}/" "$(dirname "$0")/replies/$1"
    exit 0
}

case $BOARD_JOB_TYPE:$BOARD_CARD_ID in
builder:*) ;;
*:reply-*) reply "$BOARD_CARD_ID" ;;
esac

case $BOARD_JOB_TYPE in
builder)
    case $BOARD_CARD_ID in
    nothing-*) say 'Nichts zu tun.'; exit 0 ;;
    fail-*) echo halb >>src/text.txt; echo 'das ging schief' >&2; exit 3 ;;
    slow-*) echo langsam >>src/text.txt; sleep "${AGENT_SECONDS:-1}" ;;
    hang-*)
        echo angefangen >>src/text.txt
        # One that is gone on with is done at once.
        [ "$(grep -c '^angefangen$' src/text.txt)" -gt 1 ] || sleep 600 ;;
    told-*) mkdir -p src; printf '%s\n' "$prompt" >src/prompt.txt ;;
    noisy-*) seq -f 'Zeile %g von vielen, so lang wie eine gewoehnliche Ausgabe' 1 150000 ;;
    loop-*)
        echo Schleife >>src/text.txt
        while :; do tool; sleep 0.05; done ;;
    esac
    mkdir -p src
    echo "gebaut: $BOARD_CARD_ID" >>"src/$BOARD_CARD_ID.txt"
    if [ "$mode" = codex ]; then tool; tool; fi
    say "Die Datei src/$BOARD_CARD_ID.txt ist ergaenzt."
    ;;
review)
    decision=bereit
    findings=Keine.
    case $BOARD_CARD_ID in
    back-*) [ "$(wc -l <"tree/src/$BOARD_CARD_ID.txt")" -gt 1 ] || decision=zurueck ;;
    told-*) findings=$(printf '%s\n' "$prompt" | grep '^Rolle: ' || echo 'Keine Rolle.') ;;
    mute-*) say 'Dazu sage ich nichts.'; exit 0 ;;
    esac
    [ -e "tree/src/$BOARD_CARD_ID.txt" ] || decision=zurueck
    printf '%s\n' '===REVIEW-REPORT===' "commit: $BOARD_COMMIT" "entscheidung: $decision" '---' \
        "# Review $BOARD_CARD_ID" '' '## Umfang und Methoden' '' 'Gelesen.' '' '## Befunde' '' "$findings" '' \
        '## Unsicherheiten' '' 'Keine.' '' '## Entscheidung' '' "$decision" '' '## Empfehlungen' '' 'Keine.' \
        '===END-REVIEW-REPORT==='
    ;;
research)
    case $BOARD_CARD_ID in slow-*) sleep "${AGENT_SECONDS:-1}" ;; esac
    printf '%s\n' '===RESEARCH-REPORT===' "job: $BOARD_JOB_ID" '---' '# Antwort' '' 'So ist es.' '===END-RESEARCH-REPORT==='
    ;;
draft)
    topic=$(printf '%s\n' "$prompt" | sed -n 's/^.*Operator: //p' | head -n 1)
    kind=${topic%% *}
    slug=${topic#* }
    said=$(printf '%s\n' "$prompt" | grep -c '^Operator: ' || true)
    own=$(printf '%s\n' "$prompt" | sed -n 's/^.*muss `\([a-z0-9-]*\)` sein.*$/\1/p' | head -n 1)
    if [ -n "$own" ]; then
        printf '%s\n' '===DRAFT-INTENT===' "slug: $own" '---' "# Intent: $own, überarbeitet" '' \
            "Berichte: $(printf '%s\n' "$prompt" | grep -c 'Review-Bericht' || true)" '===END-DRAFT-INTENT==='
        exit 0
    fi
    case $kind in
    reply) reply "$slug" ;;
    frage) [ "$said" -gt 1 ] || kind=ewig ;;
    stumm) case $prompt in *'bitte jetzt'*) ;; *) say 'Dazu fällt mir nichts ein.'; exit 0 ;; esac ;;
    langsam) case $prompt in *'bitte jetzt'*) ;; *) sleep 600 ;; esac ;;
    esac
    if [ "$kind" = ewig ]; then
        printf '%s\n' '===DRAFT-QUESTION===' "Wie viele? ($said)" 'optionen: 10 | 25 | alle' '===END-DRAFT-QUESTION==='
        exit 0
    fi
    case $prompt in *"Der Slug „$slug“ ist vergeben"*) slug=$slug-zwei ;; esac
    printf '%s\n' '===DRAFT-INTENT===' "slug: $slug" '---' "# Intent: $slug" '' 'Ausgearbeitet.' '===END-DRAFT-INTENT==='
    ;;
*) say "Diese Rolle spielt das Skript nicht: $BOARD_JOB_TYPE" ;;
esac
