package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave/cmd/conclave/devserver"
	"conclave/cmd/conclave/progress"
	"conclave/worker"
	"conclave/workflows/drive"
)

// cli is one invocation: its streams and the flags that all commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	address, namespace, queue string
	bucket, prefix            string
	dataDir                   string
	config                    string
	json, automation          bool

	tools *worker.Tools // of a worker in this process; nil until they are looked at
}

// run carries out one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr}
	root := c.root()
	root.SetArgs(append([]string{}, args...)) // never nil, for which cobra would take the process's own
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return c.report(root.ExecuteContext(ctx))
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "conclave",
		Short: "Take a question to a decision with a team of agents",
		Long: `Conclave takes a question to a decision with a team of LLM agents, durably.

Each agent answers, sees the others' answers under anonymous labels, and either
answers better or votes. When every vote is fresh and one answer has the
majority, the team has decided.

Without an address, commands work on a data directory on this machine: they
join the Temporal server, Web UI and S3 store that run there, or start them for
as long as they need them. With --address (or TEMPORAL_ADDRESS, or a profile in
temporal.toml) they are clients of that cluster.`,
		Example: `  conclave run --offline "Which sorting algorithm should I teach first?"
  OPENAI_API_KEY=… conclave run "How should we split this service?"
  OPENAI_BASE_URL=http://127.0.0.1:11434/v1 conclave run --config team.yaml "…"
  conclave list
  conclave result 20261121-153012-k3f9`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return emptyFlags(cmd) }
	c.commonFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		c.runCommand(), c.startCommand(), c.watchCommand(), c.statusCommand(), c.listCommand(),
		c.resultCommand(), c.transcriptCommand(), c.pullCommand(), c.stepCommand(), c.pipelineCommand(), c.scenarioCommand(),
		c.sayCommand(), c.pauseCommand(), c.resumeCommand(), c.finishCommand(), c.cancelCommand(), c.retryCommand(),
		c.workerCommand(), c.devCommand(), c.configCommand(), c.sandboxCommand(), c.versionCommand(),
		c.stackCommand(), c.attackCommand(),
	)
	return root
}

func (c *cli) commonFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&c.config, "config", "", "team configuration `FILE` (default ./conclave.yaml if present, else the built-in team of three)")
	f.StringVar(&c.address, "address", "", "Temporal `HOST:PORT` of a cluster (default from TEMPORAL_ADDRESS or temporal.toml, else the local stack)")
	f.StringVar(&c.namespace, "namespace", "", "Temporal `NAMESPACE` (default from TEMPORAL_NAMESPACE or temporal.toml, else default)")
	f.StringVar(&c.queue, "task-queue", drive.TaskQueue, "task queue `NAME`")
	f.StringVar(&c.bucket, "bucket", "", "S3 `BUCKET` of a cluster's sessions; credentials and endpoint from AWS_*")
	f.StringVar(&c.prefix, "prefix", "", "key `PREFIX` in the bucket")
	f.StringVar(&c.dataDir, "data-dir", "", "`DIR` of the local stack's files (default $XDG_DATA_HOME/conclave, else ~/.local/share/conclave)")
	f.BoolVar(&c.json, "json", false, "print JSON on stdout")
	f.BoolVar(&c.automation, "automation", false, "no decoration, one line per event, the last line of stdout one JSON object")
}

// stackCommand is the child process of the embedded stack, started by Join.
func (c *cli) stackCommand() *cobra.Command {
	return &cobra.Command{
		Use: devserver.ChildCommand, Hidden: true, Args: cobra.NoArgs, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return devserver.RunChild(cmd.Context(), c.stdin, c.stderr)
		},
	}
}

// maxEcho is how much of a wrong value is repeated in a message, in bytes.
const maxEcho = 80

// arguments demands the named arguments, each of them not empty.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s needs %s; see `%s --help`", cmd.Name(), strings.Join(names[len(args):], " and "), cmd.CommandPath())
		}
		if len(args) > len(names) {
			hint := ""
			if last := lastOf(names); last == "QUERY" || last == "TEXT" || last == "REQUEST" {
				hint = "; put the " + last + " in quotes"
			}
			return fmt.Errorf("%s takes %d argument(s), got %d%s; see `%s --help`",
				cmd.Name(), len(names), len(args), hint, cmd.CommandPath())
		}
		for i, name := range names {
			if strings.TrimSpace(args[i]) == "" {
				return fmt.Errorf("%s: the %s is empty; nothing was started", cmd.Name(), strings.ToLower(name))
			}
			if name == "ID" {
				if err := checkID(args[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// onlyGroups is what a command does that only groups others.
func onlyGroups(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := "; see `" + cmd.CommandPath() + " --help`"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean `" + cmd.CommandPath() + " " + near[0] + "`?"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

func lastOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

// checkID refuses what can be no session's ID, before anybody is asked for it.
func checkID(id string) error {
	const most = 1000 // of a workflow ID
	if len(id) > most {
		return fmt.Errorf("the ID %q has %d bytes; IDs have at most %d", progress.Cut(id, maxEcho), len(id), most)
	}
	if strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return fmt.Errorf("the ID %q has characters that are in no ID; `conclave list` shows those there are", progress.Cut(id, maxEcho))
	}
	return nil
}

// emptyFlags refuses a flag that is given without a value, as by a script whose
// variable is not set: the default is hardly what was meant. An empty prefix is
// the top of the bucket.
func emptyFlags(cmd *cobra.Command) error {
	var empty error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Name != "prefix" && strings.TrimSpace(f.Value.String()) == "" {
			empty = fmt.Errorf("--%s is given but empty; give it a value, or leave it out", f.Name)
		}
	})
	return empty
}

// say prints a line for a person on stderr. What others wrote may be among the
// arguments: it reaches the terminal as plain text.
func (c *cli) say(format string, args ...any) {
	fmt.Fprintln(c.stderr, progress.Plain(fmt.Sprintf(format, args...)))
}

func (c *cli) complain(format string, args ...any) { c.say("conclave: "+format, args...) }

// people reports whether the command is used by a person rather than a script.
func (c *cli) people() bool { return !c.json && !c.automation }
