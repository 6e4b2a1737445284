package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
)

// versions is what `version --json` prints.
type versions struct {
	Conclave       string `json:"conclave"`
	Commit         string `json:"commit"`
	Modified       bool   `json:"modified"` // built from a changed tree
	Go             string `json:"go"`
	Platform       string `json:"platform"`
	TemporalSDK    string `json:"temporal_sdk"`
	TemporalServer string `json:"temporal_server"` // of the embedded stack
	TemporalUI     string `json:"temporal_ui"`
}

func versionCommand(c *hall.CLI) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "What this program is made of",
		Long:  "Print the version of conclave, of the embedded Temporal server and of what they are built with.",
		Example: `  conclave version
  conclave version --json`,
		Args: hall.Arguments(),
		RunE: func(*cobra.Command, []string) error {
			v := readVersions()
			if c.Scripted() {
				return c.PrintJSON(v)
			}
			_, err := fmt.Fprintf(c.Stdout, "conclave %s (commit %s, %s, %s)\nTemporal SDK %s, embedded server %s, UI %s\n",
				v.Conclave, v.Commit, v.Go, v.Platform, v.TemporalSDK, v.TemporalServer, v.TemporalUI)
			return err
		},
	}
}

// readVersions reads what the linker recorded.
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
	for _, m := range info.Deps {
		switch m.Path {
		case "go.temporal.io/sdk":
			v.TemporalSDK = m.Version
		case "go.temporal.io/server":
			v.TemporalServer = m.Version
		case "github.com/temporalio/ui-server/v2":
			v.TemporalUI = m.Version
		}
	}
	return v
}
