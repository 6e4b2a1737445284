package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/worker/cluster"
)

// Commands returns `conclave serve`, with its subcommand, and `conclave mcp`. The
// pages list and steer runs of the kinds.
func Commands(c *hall.CLI, kinds []*runs.Kind) []*cobra.Command {
	return []*cobra.Command{serveCommand(c, kinds), mcpCommand(c)}
}

// flags are the flags of serve besides the common ones.
type flags struct {
	listen, keys      string
	readOnly, offline bool
}

func serveCommand(c *hall.CLI, kinds []*runs.Kind) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve teams to other programs, as models of OpenAI's API",
		Long: `Serve teams to other programs until interrupted. A team is a model: POST
/v1/chat/completions starts a session with the last user message as the query, and
its answer is the reply. GET /v1/models lists the teams: conclave is the default
one, conclave/NAME one of --worker-config. The pages of all sessions are at /.

A session continues when its client disconnects or this server ends. A request with an
Idempotency-Key, or with metadata.session_id, finds its session again when it is
repeated.

Without an address it joins or starts the local stack and runs a worker. On
loopback any key will do, and other users of this machine are refused. Every
other address needs --keys FILE; ` + "`conclave serve key NAME`" + ` makes a key.`,
		Example: `  conclave serve
  conclave serve --offline
  conclave serve --config team.yaml --listen 127.0.0.1:9000
  conclave serve key alice >> keys && conclave serve --listen 0.0.0.0:8333 --keys keys
  conclave serve --address temporal.example.com:7233 --bucket sessions

  curl http://127.0.0.1:8333/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "conclave", "messages": [{"role": "user", "content": "Tabs or spaces?"}]}'`,
		Args: hall.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), c, kinds, f) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.listen, "listen", DefaultListen, "listen on `HOST:PORT`")
	set.StringVar(&f.keys, "keys", "", "admit only the keys of `FILE`, whose lines are name:sha256-of-key[:team,team[:requests_per_minute[:usd_per_day]]]")
	set.BoolVar(&f.readOnly, "read-only", false, "show sessions, but start and steer none")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	team.WorkerConfigFlag(c, set)
	_ = cmd.MarkFlagFilename("keys")
	cmd.AddCommand(keyCommand(c))
	return cmd
}

// run serves until ctx ends, the server fails, or the local stack ends.
func run(ctx context.Context, c *hall.CLI, kinds []*runs.Kind, f flags) error {
	t, err := c.Target()
	if err != nil {
		return err
	}
	o := Options{Listen: f.listen, ReadOnly: f.readOnly, Kinds: kinds}
	if o.Keys, err = loadKeys(c, f.keys); err != nil {
		return err
	}
	if _, err := access.New(f.listen, o.Keys); err != nil {
		return err
	}
	chosen, err := chooseTeams(ctx, c, t, f.offline)
	if err != nil {
		return err
	}
	logger := cluster.Warnings(c.Stderr)
	return open(ctx, c, t, chosen, logger, func(conn *hall.Connection, offered []desk.Team) error {
		o.Teams, o.AnyUser, o.Version = offered, conn.Stack.OtherUsers, c.Version
		s, err := Start(ctx, conn, o)
		if err != nil {
			return err
		}
		defer s.Stop()
		if err := announce(conn, s, o, chosen); err != nil {
			return err
		}
		return wait(ctx, conn, s)
	})
}

// open connects to the target and calls use. Unless the target is a cluster, it runs a
// worker meanwhile.
func open(ctx context.Context, c *hall.CLI, t hall.Target, chosen teams, logger *slog.Logger, use func(*hall.Connection, []desk.Team) error) error {
	conn, err := c.Connect(ctx, t, logger)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer conn.Close()
	if err := conn.CheckBucket(ctx); err != nil {
		return err
	}
	offered, err := chosen.offer(conn)
	if err != nil {
		return err
	}
	stop, err := team.RunWorker(conn, chosen.worker, "")
	if err != nil {
		return err
	}
	defer stop()
	if chosen.worker == nil {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(50) // it mostly waits for hundreds of callers
		}
	}
	return use(conn, offered)
}

// announced is the JSON output of serve.
type announced struct {
	Address string   `json:"address"`
	Models  []string `json:"models"`
	DataDir string   `json:"data_dir,omitempty"` // data directory of a local stack
	Offline bool     `json:"offline"`
}

func announce(conn *hall.Connection, s *Server, o Options, chosen teams) error {
	out := announced{Address: s.Address, DataDir: conn.Target.DataDir, Offline: chosen.offline}
	for _, t := range o.Teams {
		out.Models = append(out.Models, modelOf(t))
	}
	if o.Keys != nil {
		warnOfTeams(conn.CLI, o.Keys, o.Teams)
	}
	if conn.Scripted() {
		return conn.PrintJSON(out)
	}
	who := "anybody on this machine, with any key or none"
	switch {
	case o.Keys != nil:
		who = "the keys of " + list(names(o.Keys))
	case !o.AnyUser:
		who = "only you and root, with any key or none"
	}
	where := s.Address
	if s.everywhere {
		where += " and the other addresses of this machine"
	}
	_, err := fmt.Fprintf(conn.Stdout, `Pages       %s
OpenAI API  %s/v1
MCP         %s/mcp
Models      %s
Callers     %s
Sessions    %s
Team        %s

%s
Ctrl-C stops; sessions under way go on the next time.
`, where, s.Address, s.Address, list(out.Models), who, conn.Target, chosen.source, howToAsk(s, o, out.Models[0]))
	if chosen.offline {
		conn.Infof("%s", team.OfflineNote)
	}
	return err
}

// howToAsk returns a command line that asks a model of the server.
func howToAsk(s *Server, o Options, model string) string {
	if o.ReadOnly {
		return "This server shows sessions, but starts none (--read-only).\n"
	}
	key := ""
	if o.Keys != nil {
		key = " -H 'Authorization: Bearer KEY'"
	}
	return fmt.Sprintf(`Ask:
  curl %s/v1/chat/completions -H 'Content-Type: application/json'%s \
    -d '{"model": "%s", "messages": [{"role": "user", "content": "…"}]}'
`, s.Address, key, model)
}

// stackCheck is the interval at which serve checks that its stack is still running.
const stackCheck = 2 * time.Second

func wait(ctx context.Context, conn *hall.Connection, s *Server) error {
	tick := time.NewTicker(stackCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.Failed():
			return hall.Exitf(hall.ExitNoAnswer, "serve %s: %w", s.Address, err)
		case <-tick.C:
			if conn.StackEnded() {
				return hall.Exitf(hall.ExitNoAnswer, "the embedded stack has ended; its log is %s, and `conclave serve` starts it again", conn.Stack.LogFile)
			}
		}
	}
}
