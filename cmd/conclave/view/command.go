package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/live"
	"conclave/cmd/conclave/page"
	"conclave/cmd/conclave/record"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/artifact"
)

// flags are the flags of view besides the common ones.
type flags struct {
	listen   string
	readOnly bool
	output   string // path of the file
}

// Command returns `conclave view`. It lists and steers runs of the kinds.
func Command(c *hall.CLI, kinds []*runs.Kind) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "view [ID|DIR]",
		Short: "Open the page of a session: the decision, the reasons, the story",
		Long: `Serve the page of a session on this machine until interrupted, and print its address.
The page shows the decision and why it was taken, the board, the story over time, any
two answers beside each other, every step, the cost and the files. It follows a running
session, which it can also steer unless --read-only is given.

ID is that of a session, or of the run of a pipeline or a scenario. DIR is a directory that
pull has copied, one of step mode, or that of a scenario's run. Without an argument the page
lists all sessions and runs. With --output the page of one of them is written to a file that
needs no server and no network.

Without an address the session is looked for in the local stack; of a cluster, name
its bucket with --bucket. It never runs a step.`,
		Example: `  conclave view
  conclave view 20261121-153012-k3f9
  conclave view ./session
  conclave view ./shop/scenarios/checkout/runs/20261121-153012-k3f9
  conclave view --output page.html 20261121-153012-k3f9
  conclave view --bucket sessions --prefix team-a 20261121-153012-k3f9`,
		Args: hall.OptionalLast("ID|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			of := ""
			if len(args) > 0 {
				of = args[0]
			}
			return run(cmd.Context(), c, kinds, of, f)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "serve on the loopback `ADDRESS`")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "show the page without messages, pauses and decisions")
	cmd.Flags().StringVar(&f.output, "output", "", "write the page of the session to `FILE` and end")
	return cmd
}

func run(ctx context.Context, c *hall.CLI, kinds []*runs.Kind, of string, f flags) error {
	if f.output != "" && of == "" {
		return errors.New("--output writes the page of one session; name it")
	}
	if host, _, err := net.SplitHostPort(f.listen); err != nil || !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("--listen %s is not a loopback address with a port; give one such as 127.0.0.1:8333, or use `conclave serve` for others", f.listen)
	}
	if info, err := os.Stat(of); of != "" && err == nil && info.IsDir() {
		return viewDir(ctx, c, of, f)
	}
	if of != "" && hall.CheckRunID(of) != nil {
		return fmt.Errorf("view %s: there is no such directory, and no session has such an ID; `conclave list` lists them", of)
	}
	return withStore(ctx, c, func(conn *hall.Connection) error { return viewStored(ctx, conn, kinds, of, f) })
}

// withStore connects to the local stack or a cluster. If only a bucket is named, it connects to the
// bucket.
func withStore(ctx context.Context, c *hall.CLI, use func(*hall.Connection) error) error {
	t, err := c.Target()
	if c.Bucket != "" && (err != nil || !t.Cluster) {
		conn, err := c.ConnectStore(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return use(conn)
	}
	if err != nil {
		return err
	}
	return c.With(ctx, t, use)
}

// viewStored shows the session with an ID, or all sessions.
func viewStored(ctx context.Context, conn *hall.Connection, kinds []*runs.Kind, id string, f flags) error {
	path := "/"
	if id != "" {
		kind, layout, err := find(ctx, conn, id)
		if err != nil {
			return err
		}
		if f.output != "" {
			return write(ctx, conn.CLI, source{conn.Store, layout, kind, nil}, f.output)
		}
		path = "/" + kind + "/" + id
	}
	if conn.Client != nil {
		stop, err := team.RunObserver(conn)
		if err != nil {
			return err
		}
		defer stop()
	}
	return serve(ctx, conn.CLI, live.New(conn, live.Options{Kinds: kinds, ReadOnly: f.readOnly, AnyUser: conn.Stack.OtherUsers}), f.listen, path)
}

// The kinds of runs that have pages, as named in the paths of the pages.
const (
	sessions  = "sessions"
	pipelines = "pipelines"
	scenarios = "scenarios"
)

// find returns the kind and the layout of the run with an ID. It refuses an unknown ID before
// anything is served.
func find(ctx context.Context, conn *hall.Connection, id string) (kind string, layout artifact.Layout, err error) {
	if conn.Store == nil {
		return "", layout, errors.New("the pages of a cluster's sessions are made from its bucket: name it with --bucket (and --prefix)")
	}
	session, pipeline := artifact.InBucket(id), artifact.InPipeline(id)
	for _, each := range []struct {
		kind, claim string
		layout      artifact.Layout
	}{{sessions, session.File("session.json"), session}, {pipelines, pipeline.File("pipeline.json"), pipeline}} {
		there, err := conn.Store.Exists(ctx, each.claim)
		if err != nil {
			return "", layout, fmt.Errorf("look for session %s: %w", id, err)
		}
		if there {
			return each.kind, each.layout, nil
		}
	}
	if layout, err = record.FindScenario(ctx, conn.Store, id); errors.Is(err, record.ErrNone) {
		err = conn.NoRun(id)
	}
	return scenarios, layout, err
}

// viewDir shows the session or pipeline run in a local directory.
func viewDir(ctx context.Context, c *hall.CLI, dir string, f flags) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	store, err := artifact.NewDir(dir)
	if err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	defer func() { _ = store.Close() }()
	of := source{store, artifact.Layout{}, sessions, root}
	if _, err := root.Stat("pipeline.json"); err == nil {
		of.kind = pipelines
	} else if record.IsScenario(root) {
		of.kind = scenarios
	}
	if f.output != "" {
		return write(ctx, c, of, f.output)
	}
	if _, err := of.draw(ctx); err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	name := strings.Map(plain, filepath.Base(filepath.Clean(store.URL(""))))
	handler, path := live.Directory(name, store, root)
	return serve(ctx, c, handler, f.listen, path)
}

// source is the record of a run.
type source struct {
	store  artifact.Store
	layout artifact.Layout
	kind   string
	root   *os.Root // root of a directory on this machine; nil for a store
}

// draw renders a standalone page.
func (of source) draw(ctx context.Context) ([]byte, error) {
	switch of.kind {
	case pipelines:
		run, err := record.ReadPipeline(ctx, of.store, of.layout)
		if err != nil {
			return nil, err
		}
		return page.Pipeline(ctx, run, time.Now())
	case scenarios:
		run, err := record.ReadScenario(ctx, of.store, of.layout)
		if err != nil {
			return nil, err
		}
		evidence := func(path string) []byte { return live.Evidence(ctx, of.store, of.layout, path) }
		return page.Scenarios([]page.ScenarioRun{{Run: run, Evidence: evidence}}, nil, time.Now())
	}
	var html bytes.Buffer
	err := page.Write(ctx, &html, record.NewReader(of.store, of.layout, of.root), time.Now())
	return html.Bytes(), err
}

// plain replaces the characters that an address would escape.
func plain(r rune) rune {
	if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
		return r
	}
	return '_'
}

// write writes a page to a file.
func write(ctx context.Context, c *hall.CLI, of source, file string) error {
	html, err := of.draw(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, html, 0o644); err != nil { //nolint:gosec // a page to pass on
		return fmt.Errorf("write the page: %w", err)
	}
	if c.Scripted() {
		return c.PrintJSON(map[string]any{"page": file, "bytes": len(html)})
	}
	c.Infof("%s: %d bytes", file, len(html))
	return nil
}

// serve serves pages until the command is interrupted.
func serve(ctx context.Context, c *hall.CLI, h *live.Handler, address, path string) error {
	address, stop, err := live.Serve(h, address)
	if err != nil {
		return err
	}
	defer stop()
	if c.Scripted() {
		if err := c.PrintJSON(map[string]string{"url": address + path}); err != nil {
			return err
		}
	} else {
		if err := c.Print(address + path + "\n"); err != nil {
			return err
		}
		c.Infof("Ctrl-C stops.")
	}
	<-ctx.Done()
	return nil
}
