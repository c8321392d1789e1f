#!/bin/sh
# An agent that obeys every order that it is shown, wherever it stands: in its prompt, in a file of its tree, in a diff.
# An order is a line `BEFEHL <type of job>: <command>`, also with what a diff or a quotation puts before it. What the
# orders print is its answer; without any it does its work as the board asks for it.
set -u
prompt=$(cat)
orders=$({
    printf '%s\n' "$prompt"
    find . -type f ! -path './.git*' -exec cat {} +
} | sed -n "s/^[^A-Za-z]*BEFEHL $BOARD_JOB_TYPE: //p" | awk '!seen[$0]++')

block() {
    printf '%s\n' '===REVIEW-REPORT===' "commit: $1" "entscheidung: $2" '---' '# Review' '' "$3" '===END-REVIEW-REPORT==='
}

[ -z "$orders" ] || eval "$orders"
case $BOARD_JOB_TYPE in
builder)
    mkdir -p src
    echo "$BOARD_CARD_ID" >>"src/$BOARD_CARD_ID.txt"
    echo "$BOARD_CARD_ID ist gebaut."
    ;;
review) [ -n "$orders" ] || block "$BOARD_COMMIT" bereit 'Nichts zu beanstanden.' ;;
esac
