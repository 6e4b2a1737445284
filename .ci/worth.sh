#!/bin/sh
# worth.sh OUTDIR measures whether a team is worth its tokens, on generated questions,
# and leaves an evaluation of each kind in OUTDIR. The model is that of .ci/weights.sh with
# weights of four bits, or WORTH_MODEL at OPENAI_BASE_URL. The script may be interrupted: its
# next run continues.
#
# WORTH_QUESTIONS is the number of questions of each kind, 60 by default. The outcomes of the
# small model for that number are recorded in docs/worth and are not paid for again. WORTH_KINDS
# lists the kinds, of those of conclave eval gen --kinds.
set -eu

out=${1:?usage: worth.sh OUTDIR}
here=$(cd "$(dirname "$0")" && pwd)
conclave=${CONCLAVE_BIN:-$here/../bin/conclave}
mkdir -p "$out"
out=$(cd "$out" && pwd)

default=60
most=${WORTH_QUESTIONS:-$default}
kinds=${WORTH_KINDS:-code choice arithmetic}
# recorded is empty for other models and other questions, whose outcomes are not recorded.
recorded=
test -n "${OPENAI_BASE_URL:-}" || test "$most" != "$default" || recorded=$here/../docs/worth
for kind in $kinds; do
	test -d "$out/$kind" || test ! -d "$recorded/$kind" || cp -r "$recorded/$kind" "$out/$kind"
done

# leave records the outcomes, also those of an interrupted run, and ends the server.
server=
leave() {
	for kind in $kinds; do
		test -z "$recorded" || test ! -s "$out/$kind/samples.jsonl" || {
			mkdir -p "$recorded/$kind" && cp "$out/$kind/eval.json" "$out/$kind/samples.jsonl" "$recorded/$kind/"
		}
	done
	test -z "$server" || kill "$server"
}
trap leave EXIT
trap 'exit 130' INT TERM # without it a signal would end the script and not the server

if test -n "${OPENAI_BASE_URL:-}"; then
	model=${WORTH_MODEL:?name the model at OPENAI_BASE_URL in WORTH_MODEL}
	backend="type: openai, model: '$model', base_url: '$OPENAI_BASE_URL'${OPENAI_API_KEY:+, api_key_env: OPENAI_API_KEY}"
else
	models=$out/../models
	"$here/weights.sh" "$models" || exit $?
	weights=$models/qwen2.5-coder-0.5b-q4_0.gguf
	test -f "$weights" || python3 "$here/requantize.py" "$models" qwen2.5-coder-0.5b.gguf "$weights" || exit $?
	port=${WORTH_PORT:-8199} slots=16 threads=${WORTH_THREADS:-2}
	if test -x "$out/../llama-server"; then # make llama builds it
		"$out/../llama-server" -m "$weights" --host 127.0.0.1 --port "$port" -c $((4096 * slots)) -np "$slots" -t "$threads" -tb "$threads" --jinja >"$out/server.log" 2>&1 &
	else
		PYTHONPATH=$models/python python3 "$here/serve-weights.py" "$weights" "$port" $((4096 * slots)) "$slots" "$threads" >"$out/server.log" 2>&1 &
	fi
	server=$!
	until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do
		kill -0 "$server" || { tail -n 3 "$out/server.log" >&2; exit 2; }
		sleep 1
	done
	backend="type: llamacpp, model: qwen2.5-coder-0.5b-instruct, base_url: 'http://127.0.0.1:$port/v1', context_window: 4096, silent_timeout_seconds: 3600"
fi

# The agents of a small model have no tools and reply in text. They have no seed, so that the
# repetition of a call whose reply was cut off can end differently.
team() { # orchestrator settings
	echo 'agents:'
	for n in 1 2 3; do
		echo "  - {id: agent_$n, tools: {files: false}, backend: {$backend, params: {temperature: 0.7, repeat_penalty: 1.1, max_tokens: 450}}}"
	done
	echo "orchestrator: {max_steps_per_agent: 4, max_new_answers_per_agent: 1, max_revotes: 0, think_first: \"on\", text_answers: always$1}"
}
team '' >"$out/text.yaml"
team ', ballot: checks_decide' >"$out/checks_decide.yaml"

cd "$out"
for kind in $kinds; do
	"$conclave" eval gen --seed 7 --count "$most" --kinds "$kind" >"$kind.jsonl"
	arms=plain,single,first-vote,majority:match,team
	test "$kind" != code || arms=$arms,team=checks_decide.yaml
	"$conclave" --data-dir "$out/data" eval run "$kind.jsonl" --config text.yaml --arms "$arms" \
		--concurrency 8 --id "$kind" --out "$out/$kind" >"$kind.txt" ||
		test $? = 2 # the first answers of a small model may all be unreadable
done
