package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"conclave/activities"
	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/chat"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/api/mcp"
	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/local"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/web"
	"conclave/engine/config"
	"conclave/worker/cluster"
)

// Commands returns `conclave serve`, with its subcommand, and `conclave mcp`. The
// pages list and steer runs of the kinds, and hooks start pipelines that were prepared.
func Commands(c *cli.CLI, kinds []*runs.Kind, prepare PreparePipeline) []*cobra.Command {
	return []*cobra.Command{serveCommand(c, kinds, prepare), mcpCommand(c)}
}

// flags are the flags of serve besides the common ones.
type flags struct {
	listen, keys      string
	hooks             string
	readOnly, offline bool
}

func serveCommand(c *cli.CLI, kinds []*runs.Kind, prepare PreparePipeline) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve teams to other programs, as models of OpenAI's API",
		Long: `Serve teams to other programs until interrupted. A team is a model: POST
/v1/chat/completions starts a session with the last user message as the query, and
its answer is the reply. GET /v1/models lists the teams: conclave is the default
one, conclave/NAME one of --worker-config. The pages of all sessions are at /;
/healthz and /readyz need no key.

A session continues when its client disconnects or this server ends. A request with an
Idempotency-Key, or with metadata.session_id, finds its session again when it is
repeated.

Without an address it joins or starts the local stack and runs a worker. On
loopback any key will do, and other users of this machine are refused. Every
other address needs --keys FILE; ` + "`conclave serve key NAME`" + ` makes a key.

With --hooks FILE a signed POST to /hooks/NAME starts a session or a pipeline, once for each
delivery. Its signature is its key: GitHub's, or that of the Standard Webhooks specification.`,
		Example: `  conclave serve
  conclave serve --offline
  conclave serve --model gpt-5.2
  conclave serve --config team.yaml --listen 127.0.0.1:9000
  conclave serve key alice >> keys && conclave serve --listen 0.0.0.0:8333 --keys keys
  conclave serve --address temporal.example.com:7233 --bucket sessions
  ISSUES_SECRET=… conclave serve --hooks hooks.yaml

  curl http://127.0.0.1:8333/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model": "conclave", "messages": [{"role": "user", "content": "Tabs or spaces?"}]}'`,
		Args: cli.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runServer(cmd.Context(), c, kinds, f, prepare) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	teams.ModelFlags(c, set)
	set.StringVar(&f.listen, "listen", DefaultListen, "listen on `HOST:PORT`")
	set.StringVar(&f.keys, "keys", "", "admit only the keys of `FILE`, whose lines are name:sha256-of-key[:team,team[:requests_per_minute[:usd_per_day]]]")
	set.StringVar(&f.hooks, "hooks", "", "start runs for signed deliveries, as `FILE` says")
	set.BoolVar(&f.readOnly, "read-only", false, "show sessions, but start and steer none")
	set.BoolVar(&f.offline, "offline", false, "replace every model by the built-in deterministic one: no key, no network")
	teams.WorkerConfigFlag(c, set)
	_ = cmd.MarkFlagFilename("keys")
	_ = cmd.MarkFlagFilename("hooks", "yaml", "yml", "json")
	cmd.AddCommand(keyCommand(c))
	return cmd
}

// runServer serves until ctx ends, the server fails, or the local stack ends.
func runServer(ctx context.Context, c *cli.CLI, kinds []*runs.Kind, f flags, prepare PreparePipeline) error {
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
	if f.hooks != "" && f.readOnly {
		return errors.New("--hooks starts runs, and --read-only starts none; leave one of them out")
	}
	chosen, err := chooseTeams(ctx, c, t, f.offline, false)
	if err != nil {
		return err
	}
	if o.Hooks, err = loadHooks(f.hooks, slices.Collect(maps.Keys(chosen.named))); err != nil {
		return err
	}
	for name, h := range o.Hooks {
		if h.Pipeline == "" {
			continue
		}
		if h.start, err = prepare(ctx, c, t, h.Pipeline, f.offline); err != nil {
			return fmt.Errorf("the hook %s: %w", name, err)
		}
		o.Hooks[name] = h
	}
	o.Offline = f.offline
	logger := cluster.Warnings(c.Stderr)
	return openTarget(ctx, c, t, chosen, logger, func(conn *cli.Connection, offered []gateway.Team) error {
		o.Teams, o.AnyUser, o.Version = offered, conn.Stack.OtherUsers, c.Version
		s, err := Start(ctx, conn, o)
		if err != nil {
			return err
		}
		defer s.Stop()
		if err := announceServer(conn, s, o, chosen); err != nil {
			return err
		}
		return conn.AwaitEnd(ctx, "serve", s.Failed())
	})
}

// openTarget connects to the target and calls use. Unless the target is a cluster, it runs a
// worker meanwhile.
func openTarget(ctx context.Context, c *cli.CLI, t cli.Target, chosen servedTeams, logger *slog.Logger, use func(*cli.Connection, []gateway.Team) error) error {
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
	offered, err := OfferTeams(conn, chosen.named)
	if err != nil {
		return err
	}
	stop, err := teams.RunWorker(conn, chosen.worker, "")
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
	Hooks   []string `json:"hooks,omitempty"` // addresses of the hooks
}

func announceServer(conn *cli.Connection, s *Server, o Options, chosen servedTeams) error {
	out := announced{Address: s.Address, DataDir: conn.Target.DataDir, Offline: chosen.offline}
	for _, t := range o.Teams {
		out.Models = append(out.Models, modelOf(t))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Hooks)) {
		out.Hooks = append(out.Hooks, s.Address+"/hooks/"+name)
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
		who = "the keys of " + strings.Join(callerNames(o.Keys), ", ")
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
`, where, s.Address, s.Address, strings.Join(out.Models, ", "), who, conn.Target, chosen.source, howToAsk(s, o, out.Models[0]))
	if len(out.Hooks) > 0 {
		conn.Infof("Hooks       %s", strings.Join(out.Hooks, ", "))
	}
	if chosen.offline {
		conn.Infof("%s", teams.OfflineNote)
	}
	return err
}

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

// stopTime is how long running replies may take when the server stops.
const stopTime = 2 * time.Second

// DefaultListen is the default address of the server.
const DefaultListen = "127.0.0.1:8333"

// Server is a running server.
type Server struct {
	Address string // http://HOST:PORT, as this machine reaches it

	everywhere bool // it listens on all addresses of this machine
	http       *http.Server
	health     cluster.Health
	failed     chan error

	requests sync.RWMutex // held for reading by each request
}

// Options configure a server.
type Options struct {
	Listen   string // address as HOST:PORT
	Keys     *access.Keys
	AnyUser  bool // admit any user of this machine; for loopback without keys
	AnyPort  bool // another port if that of Listen is taken
	ReadOnly bool
	Teams    []gateway.Team
	Kinds    []*runs.Kind // kinds of the runs that the pages list and steer
	Version  string       // version of conclave

	Hooks   map[string]Hook // runs that deliveries start, by name
	Offline bool            // the built-in model plays the agents of pipelines that hooks start
}

// Start starts a server for the sessions of a connection.
func Start(ctx context.Context, conn *cli.Connection, o Options) (*Server, error) {
	gate, err := access.New(o.Listen, o.Keys)
	if err != nil {
		return nil, err
	}
	listener, err := listenAt(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Server{failed: make(chan error, 1)}
	s.Address, s.everywhere = addressOf(listener.Addr())
	if gate.Open() && !o.AnyUser {
		if listener, err = local.ForThisUser(listener, conn.Warnf, "give callers keys with --keys"); err != nil {
			return nil, err
		}
	}
	conn.Pages = s.Address
	d := gateway.New(conn, o.Teams, listener.Addr().String())
	mux := http.NewServeMux()
	page := func(r *http.Request, session string) string { return s.reachedAddress(r) + "/sessions/" + session }
	pages := ownPages(d, web.New(conn, web.Options{Kinds: o.Kinds, ReadOnly: o.ReadOnly, Desk: d}))
	mux.Handle("/", pages)
	api := chat.New(d, page, o.ReadOnly)
	mux.Handle("/v1", api)
	mux.Handle("/v1/", api)
	mux.Handle("/mcp", mcp.Handler(d, mcp.Options{Version: o.Version, ReadOnly: o.ReadOnly}))
	open := http.NewServeMux() // a load balancer's probes have no key
	s.health.Ready(hideReason(cluster.TemporalCheck(conn.Client)))
	s.health.AddRoutes(open)
	open.Handle("POST /hooks/{name}", &hookDesk{conn: conn, desk: d, hooks: o.Hooks, kinds: o.Kinds, offline: o.Offline}) // a sender signs, and has no key
	open.Handle("/", gate.Handler(mux))
	s.http = boundedServer(s.countRequests(open))
	go func() {
		err := s.http.Serve(boundedListener{listener})
		s.failed <- cli.Exitf(cli.ExitNoAnswer, "serve %s: %w", s.Address, err)
	}()
	return s, nil
}

// hideReason hides the addresses in a check's error, because everybody can read it.
func hideReason(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if check(ctx) != nil {
			return errors.New("Temporal does not answer") //nolint:staticcheck // Temporal is a name
		}
		return nil
	}
}

// addressOf returns an address at which this machine can reach a listener. everywhere reports
// whether the listener listens on all addresses.
func addressOf(listens net.Addr) (address string, everywhere bool) {
	host, port, _ := net.SplitHostPort(listens.String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host, everywhere = "127.0.0.1", true
	}
	return "http://" + net.JoinHostPort(host, port), everywhere
}

// reachedAddress returns the address at which the client reached the server. If the server listens
// on all addresses, it is the Host of the request.
func (s *Server) reachedAddress(r *http.Request) string {
	if s.everywhere && r.Host != "" {
		return "http://" + r.Host
	}
	return s.Address
}

// countRequests makes Stop wait for running requests.
func (s *Server) countRequests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.RLock()
		defer s.requests.RUnlock()
		handler.ServeHTTP(w, r)
	})
}

// listenAt listens on the address. With AnyPort it falls back to another port of the same host.
func listenAt(ctx context.Context, o Options) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", o.Listen)
	if err != nil && o.AnyPort {
		host, _, _ := net.SplitHostPort(o.Listen)
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen", o.Listen, err)
	}
	return l, nil
}

// Stop stops the server. Running replies break off, but their sessions continue.
func (s *Server) Stop() {
	s.health.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
		s.requests.Lock() // their connections are broken: they end, and record it
		defer s.requests.Unlock()
	}
}

// Failed returns a channel that receives the error if the server ends unexpectedly.
func (s *Server) Failed() <-chan error { return s.failed }

func serveDevTeams(ctx context.Context, conn *cli.Connection, kinds []*runs.Kind, p preparedDev) (*Server, error) {
	teams := map[string]config.Team{}
	maps.Copy(teams, p.Settings.Teams)
	teams[activities.DefaultTeam] = p.standard
	offered, err := OfferTeams(conn, teams)
	if err != nil {
		return nil, err
	}
	return Start(ctx, conn, Options{
		Listen: DefaultListen, AnyPort: true, AnyUser: conn.Stack.OtherUsers, Version: conn.Version, Kinds: kinds, Teams: offered,
	})
}
