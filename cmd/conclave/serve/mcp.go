package serve

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/mcpserver"
	"conclave/cmd/conclave/team"
	"conclave/worker/cluster"
)

func mcpCommand(c *hall.CLI) *cobra.Command {
	var offline bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve teams to a coding agent, as an MCP server on standard input and output",
		Long: `Serve the Model Context Protocol on standard input and output, until the input ends.
The client's model gets the tools ask_team, session_status, session_result, say,
decide_now and session_diff; the answers and files of sessions are resources.

With base "." ask_team gives the team the files of the client's root, if the client
grants one; session_diff is the change that the answer makes to them.

ask_team returns the answer, or after wait_seconds (45) the session's ID, with which
session_result waits again: no time limit of a client loses an answer. A session
that is not over when the client ends continues with the next run, watch, dev, serve
or mcp on the same data directory, or with the workers of a cluster.

CONCLAVE_CONFIG names the team's file where a launcher takes --config for its own.`,
		Example: `  conclave mcp
  conclave mcp --offline
  conclave mcp --config team.yaml
  CONCLAVE_CONFIG=team.yaml npx @modelcontextprotocol/inspector --cli conclave mcp --method tools/list`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runMCP(cmd.Context(), c, offline) },
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	team.WorkerConfigFlag(c, cmd.Flags())
	return cmd
}

// configVariable names the team's file where a launcher takes the flag --config for its own.
const configVariable = "CONCLAVE_CONFIG"

// runMCP serves until the input or ctx ends. It writes only the protocol to stdout.
func runMCP(ctx context.Context, c *hall.CLI, offline bool) error {
	if c.Config == "" {
		c.Config = os.Getenv(configVariable)
	}
	t, err := c.Target()
	if err != nil {
		return err
	}
	chosen, err := chooseTeams(ctx, c, t, offline)
	if err != nil {
		return err
	}
	logger := cluster.Warnings(c.Stderr)
	return open(ctx, c, t, chosen, logger, func(conn *hall.Connection, offered []desk.Team) error {
		d := desk.New(conn, offered, "stdio")
		err := mcpserver.Run(ctx, d, mcpserver.Options{Version: c.Version, Local: true}, mcpserver.Lines(c.Stdin, c.Stdout))
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}
