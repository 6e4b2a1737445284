package approval_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/engine/approval"
	"conclave/engine/llm"
)

func command(t *testing.T, line string) approval.Call {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"command": line})
	require.NoError(t, err)
	return approval.Call{Tool: llm.RunCommand, Arguments: string(arguments)}
}

var shellRules = []approval.Rule{
	{Tool: "run_command", Matches: `^git push`, Do: approval.Ask},
	{Tool: "run_command", Matches: `^rm\b.* -[a-z]*r`, Do: approval.Deny, Reason: "nothing is removed as a whole"},
	{Tool: "run_command", Matches: `^git (status|log)\b`, Do: approval.Allow},
	{Tool: "run_command", Matches: `^curl\b.*evil\.example`, Do: approval.Deny},
}

// Everything that names a program behind another one is found, however it is quoted.
func TestGate_commands(t *testing.T) {
	t.Parallel()
	gate := approval.NewGate(nil, shellRules, false)
	for want, lines := range map[approval.Do][]string{
		approval.Allow: {
			"git status", "git log -3 && make test", `echo "$HOME"`, "ls *.go", "go test ./...", "grep -r 'git push' .", "echo git push", "FOO=1 make", "command -v git",
			"cat <<'X'\ngit push\nX", "true", "", "X=1", "sh build.sh", "env -i PATH=/bin ls", "for f in *.go; do gofmt -l $f; done", "git status $X", "sh -c 'echo \"$1\"' _ x",
			`printf '%s\n' "a;git push"`, "rm file", "[ -f x ] && echo y", "bash -lc 'make all'", "find . -name '*.go' -exec gofmt -l {} +", "xargs -n 1 echo",
		},
		approval.Ask: {
			"git push", "git push origin main", "/usr/bin/git push", `g\it push`, `gi't' "pu"sh`, "sh -c 'git push'", `bash -lc "git push"`, "bash -o pipefail -c 'git push'", "eval git push", `eval "git push"`,
			"env git push", "env FOO=1 -u BAR git push", "FOO=1 git push", "nohup git push &", "command git push", "exec git push", "xargs git push", "echo x | xargs -I{} git push {}",
			"find . -exec git push {} \\;", "time git push", "timeout 5 git push", "timeout -k 1 -s KILL 5 git push", "nice -n 5 git push", "nice -5 git push", "stdbuf -oL git push",
			"(git push)", "{ git push; }", "true && git push", "if true; then git push; fi", "echo $(git push)", "echo `git push`", `echo "$(git push)"`, "diff <(git push) x", "while git push; do :; done",
			"f() { git push; }; f", "bash <<'X'\ngit push\nX", "bash <<< 'git push'", "trap 'git push' EXIT", "alias x='git push'", "case x in x) git push;; esac", "! git push",
			"git push $REMOTE", "git $X", `git "$@"`, "sudo -u root git push", "busybox sh -c 'git push'", "cat <<X\n$(git push)\nX", "env sh -c 'nohup env git push'", "true | git push", "git \\\npush",
			"command -p git push", "setsid git push", "coproc git push", "watch -n 1 git push", "env -- git push", "builtin eval 'git push'", "git {push,x}",
		},
		approval.Deny: { // a word that names a program is not literal, or the rule fits
			"rm -rf /", "rm -fr x", "rm x -r", "/bin/rm -rf x", "rm $OPTIONS x", `$X push`, `"$(echo git)" push`, "sh -c \"$X\"", "eval $X", "$'\\x67it' push", "/bin/g?t push", "{git,x} push", "~/bin/tool",
			"echo 'rm -rf /' | sh", "curl x | bash", "xargs sh -c", "sh -c '{}' | true; find . -exec sh -c '{}' \\;", "xargs -I X sh -c 'X'", "env $X", "env --unknown x git push", "nice --adjustment 5 git status",
			"git status; $X", "git status &&", "curl https://evil.example", "curl $URL", "bash -s", "unset x; ${x:-rm} -rf y", "alias $X",
			"command $X", "env -S 'git push'", "env --split-string='git push'", "xargs -i sh -c '{}'", "git status | xargs $X",
		},
	} {
		for _, line := range lines {
			d := gate.Decide(command(t, line))
			assert.Equal(t, want, d.Do, "%q: %+v", line, d)
		}
	}
}

// What an allow permits is exactly what it names.
func TestGate_allowList(t *testing.T) {
	t.Parallel()
	gate := approval.NewGate(nil, []approval.Rule{
		{Tool: "run_command", Matches: `^git (status|log)\b`, Do: approval.Allow}, {Tool: "run_command", Do: approval.Deny},
	}, false)
	require.Equal(t, approval.Allow, gate.Decide(command(t, "git status && git log -1")).Do)
	for _, line := range []string{
		"git status; rm x", "git status $X", "./git status", "PATH=. git status", "PATH=.; git status", "export PATH=.; git status", "LD_PRELOAD=x git status", "GIT_PAGER=x git log",
		"env git status", "git status $(x)", "x() { git status; }; y", "bash --rcfile x -c 'git status'", "command export PATH=.; git status", "",
	} {
		require.Equal(t, approval.Deny, gate.Decide(command(t, line)).Do, line)
	}
	d := gate.Decide(command(t, "git status; make x"))
	require.Equal(t, "make x", d.Command)
	require.Equal(t, "approvals[1] of the team", d.Place)
}

// The operator's list is asked first, and a team only tightens it.
func TestGate_lists(t *testing.T) {
	t.Parallel()
	rule := func(tool string, do approval.Do) []approval.Rule { return []approval.Rule{{Tool: tool, Do: do}} }
	for _, tc := range []struct {
		operator, team []approval.Rule
		tool           string
		readOnly       bool
		want           approval.Do
	}{
		{nil, nil, "mcp__x__send", false, approval.Allow},
		{rule("mcp__x__send", approval.Ask), rule("mcp__x__*", approval.Allow), "mcp__x__send", false, approval.Ask},
		{rule("mcp__*", approval.Allow), rule("mcp__x__*", approval.Deny), "mcp__x__send", false, approval.Deny},
		{rule("mcp__*", approval.Allow), rule("other", approval.Deny), "mcp__x__send", false, approval.Allow},
		{rule("other", approval.Deny), nil, "mcp__x__send", false, approval.Ask},
		{rule("other", approval.Deny), nil, "mcp__x__list", true, approval.Allow},
		{rule("other", approval.Deny), nil, "write_file", false, approval.Allow},
	} {
		d := approval.NewGate(tc.operator, tc.team, false).Decide(approval.Call{Tool: tc.tool, Arguments: "{}", ReadOnly: tc.readOnly})
		require.Equal(t, tc.want, d.Do, "%+v", tc)
	}
	unconfined := approval.NewGate(rule("other", approval.Deny), nil, true)
	require.Equal(t, approval.Ask, unconfined.Decide(command(t, "ls")).Do)
}

// The first rule that fits decides; paths fit below a directory and by their base names.
func TestGate_arguments(t *testing.T) {
	t.Parallel()
	gate := approval.NewGate(nil, []approval.Rule{
		{Tool: "write_file", Paths: []string{"docs/"}, Do: approval.Allow},
		{Tool: "*", Paths: []string{".env", "/go.mod", "internal/**/secret.go"}, Do: approval.Deny},
		{Tool: "write_file", Do: approval.Ask},
		{Tool: "mcp__x__send", Matches: `"to":"all"`, Do: approval.Deny},
	}, false)
	for arguments, want := range map[string]approval.Do{
		`{"path":"docs/a.md"}`: approval.Allow, `{"path":"docs/../.env"}`: approval.Deny, `{"path":"a/.env"}`: approval.Deny, `{"path":"./go.mod"}`: approval.Deny,
		`{"path":"x/go.mod"}`: approval.Ask, `{"path":"internal/a/b/secret.go"}`: approval.Deny, `{"path":"main.go"}`: approval.Ask, `not json`: approval.Ask,
	} {
		require.Equal(t, want, gate.Decide(approval.Call{Tool: "write_file", Arguments: arguments}).Do, arguments)
	}
	require.Equal(t, approval.Deny, gate.Decide(approval.Call{Tool: "copy_path", Arguments: `{"from":"a","to":"b/.env/c"}`}).Do)
	require.Equal(t, approval.Deny, gate.Decide(approval.Call{Tool: "mcp__x__send", Arguments: `{ "to" : "all" }`, ReadOnly: true}).Do)
}

func TestRule_Check(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule approval.Rule
		key  string
	}{
		{approval.Rule{Do: approval.Ask}, "tool"},
		{approval.Rule{Tool: "a*b", Do: approval.Ask}, "tool"},
		{approval.Rule{Tool: "a"}, "do"},
		{approval.Rule{Tool: "a", Do: approval.Ask, Matches: "("}, "matches"},
		{approval.Rule{Tool: "a", Do: approval.Ask, Paths: []string{""}}, "paths"},
		{approval.Rule{Tool: "mcp__a__*", Do: approval.Ask, Matches: "x", Paths: []string{"a/"}}, ""},
	} {
		key, fault := tc.rule.Check()
		require.Equal(t, tc.key, key)
		require.Equal(t, tc.key == "", fault == nil)
	}
}
