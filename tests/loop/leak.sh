#!/bin/sh
# An agent that tells everything it can get hold of: its key, its login, and the environment of every process that it
# sees. It speaks the events of codex. What it does beside that is in the card's id:
#   message-*  the builder tells it in its summary, the reviewer in its report
#   file-*     the builder writes it into files
#   fail-*     the same, and fails with it on stderr
#   mute-*     the reviewer tells it and gives no verdict
set -u
cat >/dev/null
login=$(cat "$CODEX_HOME/auth.json")
token=$(printf '%s' "$login" | sed 's/^.*"access_token":"\(.*\)"}}$/\1/; s/\\"/"/g; s/\\\\/\\/g')
found=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sed -n 's/^CANARY_TOKEN=//p' | head -n 1)
all="$CANARY_KEY | $token | $found | $login"

json() { printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | sed ':more; N; $!b more; s/\n/\\n/g'; }
item() { printf '{"type":"item.completed","item":{"id":"i","type":"%s","text":"%s","command":"%s"}}\n' "$1" "$2" "$2"; }
say() {
    item agent_message "$(json "$1")"
    printf '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\n'
}

printf '{"type":"turn.started"}\n'
printf '%s\n' "$all" >&2
printf '%s\n' "$all"
item command_execution "$(json "$all")"
item command_execution "$(json "$(json "$all")")"

case $BOARD_JOB_TYPE in
builder)
    mkdir -p src docs/board
    echo "key ${#CANARY_KEY} login ${#token} environment ${#found}" >src/got.txt
    case $BOARD_CARD_ID in
    file-* | fail-*)
        printf '%s\n' "$all" >src/leak.txt
        printf '%s\n' "$all" >docs/board/leak.yaml
        ;;
    esac
    case $BOARD_CARD_ID in fail-*) printf '%s\n' "$all" >&2; exit 3 ;; esac
    say "Fertig: $all"
    ;;
review)
    case $BOARD_CARD_ID in mute-*) say "Kein Urteil: $all"; exit 0 ;; esac
    say "===REVIEW-REPORT===
commit: $BOARD_COMMIT
entscheidung: bereit
---
# Review

## Umfang und Methoden

$all

## Befunde

$all

## Unsicherheiten

Keine.

## Entscheidung

bereit

## Empfehlungen

Keine.
===END-REVIEW-REPORT==="
    ;;
esac
