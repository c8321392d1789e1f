#!/bin/sh
# An agent that looks at its home and leaves what it can in it. What it found is in its worktree, or in its report.
# A card `wait-*` is held until somebody makes the file `weiter` in its worktree.
set -u
cat >/dev/null
cd "$HOME" && before=$(find . ! -type d | sort | tr '\n' ' ') && cd - >/dev/null
login=$(cat "$HOME/.codex/auth.json")

mkdir -p "$HOME/.codex" "$HOME/.config" "$HOME/.claude"
for name in .profile .bashrc .codex/config.toml .codex/hooks.json .codex/AGENTS.md .claude/settings.json .config/x mine; do
    echo "$BOARD_CARD_ID" >"$HOME/$name"
done
ln -s /etc/passwd "$HOME/link"
# A login that it renews, as a runtime does, or tries to smuggle something into.
printf '{"who":"new-%s"}' "$BOARD_CARD_ID" >"$HOME/.codex/auth.json"

say() {
    printf '{"type":"item.completed","item":{"id":"m","type":"agent_message","text":"%s"}}\n' "$1"
    printf '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\n'
}
printf '{"type":"turn.started"}\n'
case $BOARD_JOB_TYPE in
builder)
    mkdir -p src
    echo bereit >src/bereit.txt
    case $BOARD_CARD_ID in
    wait-*)
        tries=0
        while [ ! -e weiter ] && [ $tries -lt 600 ]; do
            sleep 0.1
            tries=$((tries + 1))
            printf '{"type":"item.updated"}\n'
        done
        rm -f weiter
        ;;
    esac
    printf '%s\n%s\n%s\n' "$before" "$login" "$(cat "$HOME/mine")" >"src/$BOARD_CARD_ID.txt"
    say Gebaut.
    ;;
review)
    say "===REVIEW-REPORT===\ncommit: $BOARD_COMMIT\nentscheidung: bereit\n---\n# Review\n\nHOME: ${before}ENDE\n===END-REVIEW-REPORT==="
    ;;
esac
