package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
	"conclave/workflows"
)

// execute runs a command line of a command with these arguments, and returns its exit code and
// its messages.
func execute(t *testing.T, args cobra.PositionalArgs, line ...string) (code int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	c := &CLI{Stdout: io.Discard, Stderr: &errs}
	root, group := &cobra.Command{Use: "conclave"}, &cobra.Command{Use: "pipeline", RunE: Group}
	cmd := &cobra.Command{Use: "say", Args: args, RunE: func(*cobra.Command, []string) error { return nil }}
	cmd.Flags().String("agent", "", "")
	cmd.Flags().Bool("wait", false, "")
	cmd.Flags().String("id", "", "")
	require.NoError(t, cmd.Flags().MarkHidden("id"))
	group.AddCommand(cmd)
	root.AddCommand(group)
	return c.Execute(t.Context(), root, append([]string{"pipeline", "say"}, line...)), errs.String()
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args cobra.PositionalArgs
		line []string
		says string // empty if the line is accepted
	}{
		"all":                     {Arguments("ID", "TEXT"), []string{"s1", "hello"}, ""},
		"none":                    {Arguments("ID", "TEXT"), nil, "say needs ID and TEXT; see `conclave pipeline say --help`"},
		"one is missing":          {Arguments("ID", "TEXT"), []string{"s1"}, "say needs TEXT; see"},
		"a text without quotes":   {Arguments("ID", "TEXT"), []string{"s1", "two", "words"}, "say takes ID and TEXT, got 3 arguments; put the TEXT in quotes; see"},
		"a query without quotes":  {Arguments("QUERY"), []string{"two", "words"}, "put the QUERY in quotes"},
		"one too many":            {Arguments("FILE"), []string{"a", "b"}, "say takes FILE, got 2 arguments; see"},
		"no arguments":            {Arguments(), []string{"a"}, "say takes no arguments, got 1 argument; see"},
		"an empty text":           {Arguments("ID", "TEXT"), []string{"s1", " "}, "pipeline say: the text is empty; nothing was started"},
		"an ID with a line break": {Arguments("ID"), []string{"s1\n"}, `the ID "s1\n" has characters that no ID has`},
		"an ID in another script": {Arguments("ID"), []string{"ж"}, "`conclave list` lists the sessions"},
		"the longest ID":          {Arguments("ID"), []string{strings.Repeat("x", 1000)}, ""},
		"an ID too long":          {Arguments("ID"), []string{strings.Repeat("x", 1001)}, "has 1001 bytes; IDs have at most 1000"},
		"another argument":        {Arguments("FILE"), []string{"ж"}, ""},
		"the last is optional":    {OptionalLast("ID", "LABEL"), []string{"s1"}, ""},
		"the last is given":       {OptionalLast("ID", "LABEL"), []string{"s1", "agent1.2"}, ""},
		"the first is not":        {OptionalLast("ID", "LABEL"), nil, "say needs ID; see"},
		"more than the last":      {OptionalLast("ID", "LABEL"), []string{"s1", "l", "x"}, "say takes ID and LABEL, got 3 arguments"},
		"the last is empty":       {OptionalLast("ID", "LABEL"), []string{"s1", ""}, "the label is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stderr := execute(t, tt.args, tt.line...)
			if tt.says == "" {
				require.Equal(t, ExitOK, code, stderr)
				return
			}
			require.Equal(t, ExitUsage, code)
			require.Contains(t, stderr, tt.says)
			require.Less(t, len(stderr), 400, "wrong values are shortened")
		})
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line []string
		says string // empty if the line is accepted
	}{
		"a misspelt flag":         {[]string{"--agnet", "a"}, "unknown flag: --agnet; did you mean --agent? See `conclave pipeline say --help`"},
		"a misspelt common flag":  {[]string{"--jsn"}, "did you mean --json?"},
		"a flag like no other":    {[]string{"--zzzzzzzz"}, "unknown flag: --zzzzzzzz; see `conclave pipeline say --help`"},
		"near a hidden flag":      {[]string{"--idd"}, "unknown flag: --idd; see"},
		"a flag without a value":  {[]string{"--agent"}, "flag needs an argument: --agent; see"},
		"a value of a wrong type": {[]string{"--wait=perhaps"}, "--wait"},
		"an empty value":          {[]string{"--agent", ""}, "--agent is given but empty; give it a value, or leave it out"},
		"an unset variable":       {[]string{"--bucket", " "}, "--bucket is given but empty"},
		"an empty prefix":         {[]string{"--prefix", ""}, ""},
		"several":                 {[]string{"--agent", "a", "--wait", "--automation"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stderr := execute(t, Arguments(), tt.line...)
			if tt.says == "" {
				require.Equal(t, ExitOK, code, stderr)
				return
			}
			require.Equal(t, ExitUsage, code)
			require.Contains(t, stderr, tt.says)
		})
	}
}

func TestCheckText(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckText("TEXT", "ä", 2, ""))
	require.EqualError(t, CheckText("TEXT", "abc", 2, "shorten it"), "the TEXT has 3 bytes, at most 2 are accepted; shorten it")
	require.ErrorContains(t, CheckText("TEXT", "\xff", 2, ""), "the TEXT is not UTF-8 text; convert it, for instance with iconv")
	require.NoError(t, checkQuery("QUERY", strings.Repeat("x", workflows.MaxInput)))
	require.ErrorContains(t, checkQuery("QUERY", strings.Repeat("x", workflows.MaxInput+1)), "put large material where the agents can read it")
}

func TestChooseRunID(t *testing.T) {
	t.Parallel()
	id, err := ChooseRunID("--session-id", "my-session")
	require.NoError(t, err)
	require.Equal(t, "my-session", id)
	id, err = ChooseRunID("--session-id", "")
	require.NoError(t, err)
	require.NoError(t, artifact.CheckSessionID(id))
	long := "../" + strings.Repeat("x", 500)
	_, err = ChooseRunID("--session-id", long)
	require.ErrorContains(t, err, "use --session-id: ")
	require.Less(t, len(err.Error()), 300)
	require.NotContains(t, err.Error(), long)
}

// A printed command line reaches the same target when a person copies it.
func TestCLI_CommandLine(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct {
		cli  CLI
		args []string
	}{
		"conclave status s1":                                {CLI{}, []string{"s1"}},
		"conclave status 'it'\\''s here'":                   {CLI{}, []string{"it's here"}},
		"conclave status s1 --address h:7233 --namespace n": {CLI{Address: "h:7233", Namespace: "n"}, []string{"s1"}},
		"conclave status s1 --bucket b --prefix p/":         {CLI{Bucket: "b", Prefix: "p/"}, []string{"s1"}},
		"conclave status s1 --data-dir '/my data'":          {CLI{DataDir: "/my data"}, []string{"s1"}},
		"conclave status s1 --task-queue other":             {CLI{Queue: "other"}, []string{"s1"}},
	} {
		if tt.cli.Queue == "" {
			tt.cli.Queue = workflows.TaskQueue
		}
		require.Equal(t, want, tt.cli.CommandLine("status", tt.args...))
	}
}

func TestCLI_PrintJSON(t *testing.T) {
	t.Parallel()
	value := map[string]any{"status": "done", "text": "a\u009bb <c>"}
	for want, c := range map[string]CLI{
		"{\n  \"status\": \"done\",\n  \"text\": \"a\\u009bb \\u003cc\\u003e\"\n}\n": {JSON: true},
		"{\"status\":\"done\",\"text\":\"a\\u009bb \\u003cc\\u003e\"}\n":             {Automation: true},
	} {
		var out bytes.Buffer
		c.Stdout = &out
		require.NoError(t, c.PrintJSON(value))
		require.Equal(t, want, out.String())
	}
	c := CLI{Stdout: io.Discard}
	require.ErrorContains(t, c.PrintJSON(func() {}), "encode the output")
}

// full is an output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A failed write gives an error although the work is done.
func TestCLI_Print_fails(t *testing.T) {
	t.Parallel()
	c := CLI{Stdout: full{}}
	err := c.PrintJSON(1)
	require.Equal(t, ExitNoAnswer, ExitCode(err))
	require.ErrorContains(t, err, "print the output: no space left on device")
}

// Messages cannot move the cursor of a terminal.
func TestCLI_messages(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	c := CLI{Stderr: &errs}
	c.Infof("%s is done", "s1\x1b[2J")
	c.Warnf("%d left", 2)
	require.NotContains(t, errs.String(), "\x1b")
	require.True(t, strings.HasSuffix(errs.String(), "conclave: 2 left\n"))
	require.False(t, c.Interactive(), "a buffer is no terminal")
	require.False(t, c.CanConfirm())
	require.False(t, c.Scripted())
	require.True(t, (&CLI{JSON: true}).Scripted())
	require.True(t, (&CLI{Automation: true}).Scripted())
}

func TestTable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ID    STATUS\ns1    done\nlong  running  now\n", Table("ID\tSTATUS\ns1\tdone\t\nlong\trunning\tnow\n"))
	require.Empty(t, Table(""))
}

// help completes the names of subcommands, and refuses unknown ones.
func TestHelp_completes(t *testing.T) {
	t.Parallel()
	root := commandTree()
	help := helpCommand(root)
	names, _ := help.ValidArgsFunction(help, nil, "")
	require.Contains(t, strings.Join(names, " "), "pipeline")
	require.NotContains(t, strings.Join(names, " "), "secret", "hidden commands are not offered")
	names, _ = help.ValidArgsFunction(help, []string{"pipeline"}, "")
	require.Len(t, names, 1)
	require.True(t, strings.HasPrefix(names[0], "validate"))
	names, _ = help.ValidArgsFunction(help, []string{"nosuch"}, "")
	require.Empty(t, names)
}

// A wrapped error keeps its exit code and its cause.
func TestExitf_wraps(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	err := Exitf(ExitTimeout, "ended: %w", cause)
	require.ErrorIs(t, err, cause)
	require.Equal(t, "ended: cause", err.Error())
	require.Equal(t, ExitTimeout, ExitCode(err))
	var age Age
	require.Equal(t, "age", age.Type())
}
