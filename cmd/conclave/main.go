package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	acts "conclave/activities/pipeline"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/command/doctor"
	"conclave/cmd/conclave/command/eval"
	"conclave/cmd/conclave/command/files"
	"conclave/cmd/conclave/command/scenario"
	"conclave/cmd/conclave/command/serve"
	"conclave/cmd/conclave/command/start"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/inputs"
	"conclave/cmd/conclave/run/outputs"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/files/overlay"
	sessionflow "conclave/workflows/session"
)

func main() {
	overlay.RunHolder()
	// A closed pipe (`| head -1`) must not end the session. Commands report failed writes
	// to stdout and ignore those to stderr.
	signal.Ignore(syscall.SIGPIPE)
	cobra.EnableCommandSorting = false // help has the order of groups
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(runLine(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func runLine(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli.CLI{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	root := rootCommand(c)
	groupCommands(root)
	return c.Execute(ctx, root, args)
}

func rootCommand(c *cli.CLI) *cobra.Command {
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
	}
	root.AddCommand(start.Commands(c)...)
	kinds := []*runs.Kind{start.Kind(), start.PipelineKind(), scenario.Kind()}
	root.AddCommand(runs.Commands(c, kinds, web.Offer)...)
	root.AddCommand(outputs.Commands(c)...)
	root.AddCommand(inputs.Command(c))
	root.AddCommand(files.PruneCommands(c, kinds)...)
	root.AddCommand(serve.StackCommands(c, kinds)...)
	root.AddCommand(serve.Commands(c, kinds, start.PreparePipeline)...)
	root.AddCommand(
		start.PipelineCommand(c), start.ScheduleCommand(c), scenario.Command(c), start.StepCommand(c),
		files.TranscriptCommand(c), files.PullCommand(c), files.ViewCommand(c, kinds), files.ExportCommand(c),
		teams.Command(c), doctor.ModelsCommand(c), doctor.Command(c, readVersions().ownVersions()),
		evalCommand(c), doctor.CodecCommand(c), versionCommand(c),
	)
	root.AddCommand(doctor.SandboxCommands(c)...)
	root.AddCommand(manCommand(c))
	c.Version = readVersions().Conclave
	root.Version = c.Version
	root.SetVersionTemplate(readVersions().String())
	showFlags(root)
	runs.Complete(c, root, kinds)
	return root
}

func evalCommand(c *cli.CLI) *cobra.Command {
	return eval.Command(c, eval.Kinds{
		Session:  eval.Kind[sessionflow.Result]{Kind: start.Kind(), Await: start.Await},
		Pipeline: eval.Kind[acts.Result]{Kind: start.PipelineKind(), Await: start.AwaitPipeline},
	})
}

// versions is the JSON output of version.
type versions struct {
	Conclave       string `json:"conclave"`
	Commit         string `json:"commit"`
	Modified       bool   `json:"modified"` // built from a changed tree
	Go             string `json:"go"`
	Platform       string `json:"platform"`
	TemporalSDK    string `json:"temporal_sdk"`
	TemporalServer string `json:"temporal_server"` // version of the embedded Temporal server
	TemporalUI     string `json:"temporal_ui"`
}

// String formats the versions for people.
func (v versions) String() string {
	return fmt.Sprintf("conclave %s (commit %s, %s, %s)\nTemporal SDK %s, embedded server %s, UI %s\n",
		v.Conclave, v.Commit, v.Go, v.Platform, v.TemporalSDK, v.TemporalServer, v.TemporalUI)
}

func (v versions) ownVersions() doctor.Versions {
	return doctor.Versions{Conclave: fmt.Sprintf("conclave %s (commit %s, %s)", v.Conclave, v.Commit, v.Platform), SDK: v.TemporalSDK}
}

func versionCommand(c *cli.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and its parts",
		Long:  "Print the versions of conclave, the embedded Temporal server, and the tools that built them.",
		Example: `  conclave version
  conclave version --json`,
		Args: cli.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			v := readVersions()
			if c.Scripted() {
				return c.PrintJSON(v)
			}
			return c.Print(v.String())
		},
	}
}

func readVersions() versions {
	const unknown = "unknown"
	v := versions{
		Conclave: unknown, Commit: unknown, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		TemporalSDK: unknown, TemporalServer: unknown, TemporalUI: unknown,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Conclave = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	parts := map[string]*string{
		"go.temporal.io/sdk": &v.TemporalSDK, "go.temporal.io/server": &v.TemporalServer, "github.com/temporalio/ui-server/v2": &v.TemporalUI,
	}
	for _, m := range info.Deps {
		if part, ok := parts[m.Path]; ok {
			*part = m.Version
		}
	}
	return v
}
