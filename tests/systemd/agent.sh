#!/bin/sh
# The scripted agent of the tests on systemd. What it does follows from the card's id:
#   ok-*      writes a file; the review finds it ready
#   gate-*    waits first until the test opens its gate, a file in /opt/gates
#   slow-*    the same after a second
#   hang-*    works until it is stopped; one that is gone on with is done at once
#   deaf-*    ignores SIGTERM and leaves processes that left its group and session
#   mute-*    says nothing for ever
#   lines-*   as a builder prints 150,000 lines, one of 200 kB and bytes that are no text
#   fail-*    ends with exit code 3
#   greedy-*  takes memory until it is stopped
#   key-*     as a builder tells how long the key is that it got, and what it sees of the operator's home
#   nix-*     as a builder evaluates the flake of the checkout, alone and by the nix daemon
set -eu
prompt=$(cat)

# The test decides when it goes on; nothing waits for ever.
gate() {
    turns=0
    until [ -e "/opt/gates/$BOARD_CARD_ID" ]; do
        [ "$turns" -lt 6000 ] || exit 9
        turns=$((turns + 1))
        sleep 0.05
    done
}

case $BOARD_CARD_ID in
gate-*) gate ;;
slow-*) sleep 1 ;;
deaf-*)
    trap '' TERM
    setsid sh -c 'trap "" TERM; (sh -c "trap \"\" TERM; while :; do sleep 1; done # stray of agent.sh" &) ; exit 0' </dev/null >/dev/null 2>&1
    gate ;;
mute-*) while :; do sleep 1; done ;;
fail-*) echo 'das ging schief' >&2; exit 3 ;;
greedy-*) exec tail /dev/zero ;;
esac

case $BOARD_JOB_TYPE in
builder)
    case $BOARD_CARD_ID in
    lines-*)
        seq -f 'Zeile %g von vielen, so lang wie eine gewoehnliche Ausgabe' 1 150000
        head -c 200000 /dev/zero | tr '\0' x
        echo
        head -c 4096 /dev/urandom
        echo ;;
    hang-*)
        echo angefangen >>src/text.txt
        # One that is gone on with is done at once.
        [ "$(grep -c '^angefangen$' src/text.txt)" -gt 1 ] || sleep 600 ;;
    key-*)
        printf '%s' "${TEST_KEY:-}" | wc -c >src/key.txt
        ls -A /home/op >src/home.txt 2>&1 || true ;;
    nix-*)
        wanted=nixosConfigurations.demo.config.networking.hostName
        nix-instantiate --eval --strict --expr "((import ./flake.nix).outputs { self = { }; }).$wanted" >src/eval.txt
        # The whole tree goes through the daemon into the store, and the flake is read there.
        nix --extra-experimental-features 'nix-command flakes' eval --raw "path:$PWD#$wanted" >src/flake.txt
        nix-store --query --hash "$(nix-store --add flake.nix)" >src/store.txt ;;
    esac
    mkdir -p src
    echo "gebaut: $BOARD_CARD_ID" >>"src/$BOARD_CARD_ID.txt"
    echo "Die Datei src/$BOARD_CARD_ID.txt ist ergaenzt."
    ;;
review)
    decision=bereit
    [ -e "tree/src/$BOARD_CARD_ID.txt" ] || decision=zurueck
    printf '%s\n' '===REVIEW-REPORT===' "commit: $BOARD_COMMIT" "entscheidung: $decision" '---' \
        "# Review $BOARD_CARD_ID" '' '## Umfang und Methoden' '' 'Gelesen.' '' '## Befunde' '' 'Keine.' '' \
        '## Unsicherheiten' '' 'Keine.' '' '## Entscheidung' '' "$decision" '' '## Empfehlungen' '' 'Keine.' \
        '===END-REVIEW-REPORT==='
    ;;
research)
    printf '%s\n' '===RESEARCH-REPORT===' "job: $BOARD_JOB_ID" '---' '# Antwort' '' 'So ist es.' '===END-RESEARCH-REPORT==='
    ;;
draft)
    # A planner's round follows from the topic: `sofort SLUG` proposes the intent, `frage SLUG` asks first.
    topic=$(printf '%s\n' "$prompt" | sed -n 's/^.*Operator: //p' | head -n 1)
    slug=${topic#* }
    said=$(printf '%s\n' "$prompt" | grep -c '^Operator: ' || true)
    if [ "${topic%% *}" = frage ] && [ "$said" -le 1 ]; then
        printf '%s\n' '===DRAFT-QUESTION===' 'Wie viele?' 'optionen: 10 | 25 | alle' '===END-DRAFT-QUESTION==='
    else
        printf '%s\n' '===DRAFT-INTENT===' "slug: $slug" '---' "# Intent: $slug" '' 'Ausgearbeitet.' '===END-DRAFT-INTENT==='
    fi
    ;;
*) echo "Diese Rolle spielt das Skript nicht: $BOARD_JOB_TYPE" ;;
esac
