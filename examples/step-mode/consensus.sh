#!/bin/sh
# Takes three agents to consensus with nothing but `conclave step`:
#
#   sh examples/step-mode/consensus.sh DIR "QUERY" [--offline]
#
# Every round launches whoever is next, at once, and waits for them all. A round
# that is cut off loses nothing: run the same line again. CONCLAVE names another
# binary, MAX_ROUNDS another limit.
set -u

here=$(dirname "$0")
conclave=${CONCLAVE:-conclave}
[ $# -ge 2 ] || { echo "usage: $0 DIR QUERY [--offline]" >&2; exit 1; }
dir=$1 query=$2
shift 2
mkdir -p "$dir" || exit 1

# A round: one process for each agent that is named.
launch() {
    pids=
    for agent in "$@"; do
        echo "round $round: $agent" >&2
        "$conclave" step --automation --session-dir "$dir" --config "$here/$agent.yaml" \
            $options "$query" >/dev/null &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || failed=$((failed + 1))
    done
}

options=$* round=1 failed=0 pids='' next=''
trap 'kill $pids 2>/dev/null; exit 4' INT TERM
# Who has not begun is unknown to the directory; of the others --check knows.
for agent in agent_a agent_b agent_c; do
    [ -d "$dir/agents/$agent/001" ] || next="$next $agent"
done
[ -n "$next" ] || next=$("$conclave" step --check --next --session-dir "$dir")

while [ -n "$next" ]; do
    [ "$round" -le "${MAX_ROUNDS:-10}" ] || { echo "no consensus in time" >&2; exit 3; }
    [ "$failed" -le 5 ] || { echo "too many steps failed" >&2; exit 2; }
    launch $next
    round=$((round + 1))
    next=$("$conclave" step --check --next --session-dir "$dir")
done

report=$("$conclave" step --check --session-dir "$dir") || { echo "$report" >&2; exit 2; }
winner=$(printf '%s\n' "$report" | sed -n 's/^ *"winner": "\(.*\)",$/\1/p')
step=$(printf '%s\n' "$report" | sed -n 's/^ *"winner_step": \([0-9]*\),$/\1/p')
echo "consensus: $winner" >&2
cat "$dir/agents/$winner/$(printf '%03d' "$step")/answer.json"
