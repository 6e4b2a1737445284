package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/cmd/conclave/cli"
	"conclave/cmd/conclave/run"
	"conclave/cmd/conclave/run/record"
	"conclave/cmd/conclave/run/teams"
	"conclave/cmd/conclave/view/page"
	"conclave/cmd/conclave/view/web"
	"conclave/worker/cluster"
)

// viewFlags are the flags of view besides the common ones.
type viewFlags struct {
	listen   string
	readOnly bool
	open     bool
	join     bool   // use the pages that a dev of the data directory serves
	output   string // path of the file
}

// ViewCommand returns `conclave view`. It lists and steers runs of the kinds.
func ViewCommand(c *cli.CLI, kinds []*runs.Kind) *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "view [ID|DIR]",
		Short: "Show the page of a session: the decision, the reasons, the story",
		Long: `Serve the page of a session on this machine until interrupted, and print its address; if
a dev of the data directory serves the pages already, print the address there.
The page shows the decision and why it was taken, the board, the story over time, any
two answers beside each other, every step, the cost and the files. It follows a running
session, which it can also steer unless --read-only is given.

ID is that of a session, or of the run of a pipeline or a scenario, SLUG/RUN_ID. DIR is a
directory that pull has copied, one of step mode, or that of a scenario's run. Without an
argument the page lists all sessions and runs. With --output the page of one of them is
written to a file that needs no server and no network.

Without an address the session is looked for in the local stack; of a cluster, name
its bucket with --bucket. It never runs a step.`,
		Example: `  conclave view
  conclave view --open 20261121-153012-k3f9
  conclave view ./session
  conclave view ./shop/scenarios/checkout/runs/20261121-153012-k3f9
  conclave view --output page.html 20261121-153012-k3f9
  conclave view --bucket sessions --prefix team-a 20261121-153012-k3f9`,
		Args: cli.OptionalLast("ID|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			of := ""
			if len(args) > 0 {
				of = args[0]
			}
			f.join = !f.readOnly && !cmd.Flags().Changed("listen")
			return serveView(cmd.Context(), c, kinds, of, f)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "serve on the loopback `ADDRESS`")
	cmd.Flags().BoolVar(&f.readOnly, "read-only", false, "show the page without messages, pauses and decisions")
	cmd.Flags().BoolVar(&f.open, "open", false, "open the page in a browser")
	cmd.Flags().StringVar(&f.output, "output", "", "write the page of the session to `FILE` and end")
	return cmd
}

func serveView(ctx context.Context, c *cli.CLI, kinds []*runs.Kind, of string, f viewFlags) error {
	if f.output != "" && of == "" {
		return errors.New("--output writes the page of one session; name it")
	}
	if _, _, err := net.SplitHostPort(f.listen); err != nil || !cluster.IsLoopback(f.listen) {
		return fmt.Errorf("--listen %s is not a loopback address with a port; give one such as 127.0.0.1:8333, or use `conclave serve` for others", f.listen)
	}
	if info, err := os.Stat(of); of != "" && err == nil && info.IsDir() {
		return viewDir(ctx, c, of, f)
	}
	if of != "" && record.CheckID(of) != nil {
		return fmt.Errorf("view %s: there is no such directory, and no session has such an ID; `conclave list` lists them", of)
	}
	return withStore(ctx, c, func(conn *cli.Connection) error { return viewStored(ctx, conn, kinds, of, f) })
}

// withStore connects to the local stack or a cluster. If only a bucket is named, it connects to the
// bucket.
func withStore(ctx context.Context, c *cli.CLI, use func(*cli.Connection) error) error {
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

func viewStored(ctx context.Context, conn *cli.Connection, kinds []*runs.Kind, id string, f viewFlags) error {
	path := "/"
	if id != "" {
		if conn.Store == nil {
			return errors.New("the pages of a cluster's sessions are made from its bucket: name it with --bucket (and --prefix)")
		}
		run, err := record.Find(ctx, conn.Store, id)
		if errors.Is(err, record.ErrNone) {
			return conn.NoRun(ctx, id)
		}
		if err != nil {
			return err
		}
		if f.output != "" {
			return writeStandalone(ctx, conn.CLI, run, f.output)
		}
		path = run.Page()
	}
	if f.join && conn.Pages != "" {
		return f.announcePage(conn, conn.Pages+path)
	}
	if conn.Client != nil {
		stop, err := teams.RunObserver(conn)
		if err != nil {
			return err
		}
		defer stop()
	}
	return f.servePages(ctx, conn, web.New(conn, web.Options{Kinds: kinds, ReadOnly: f.readOnly, AnyUser: conn.Stack.OtherUsers}), path)
}

func viewDir(ctx context.Context, c *cli.CLI, dir string, f viewFlags) error {
	run, closeIt, err := record.OpenDirectory(dir)
	if err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	defer closeIt()
	if f.output != "" {
		return writeStandalone(ctx, c, run, f.output)
	}
	if _, err := page.Standalone(ctx, run, time.Now()); err != nil {
		return fmt.Errorf("view %s: %w", dir, err)
	}
	handler, path := web.Directory(strings.Map(safeRune, filepath.Base(filepath.Clean(run.Store.URL("")))), run)
	return f.servePages(ctx, &cli.Connection{CLI: c}, handler, path)
}

// safeRune replaces the characters that an address would escape.
func safeRune(r rune) rune {
	if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
		return r
	}
	return '_'
}

func writeStandalone(ctx context.Context, c *cli.CLI, run record.Run, file string) error {
	html, err := page.Standalone(ctx, run, time.Now())
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

func (f viewFlags) servePages(ctx context.Context, conn *cli.Connection, h *web.Handler, path string) error {
	address, stop, err := web.Serve(h, f.listen)
	if err != nil {
		return err
	}
	defer stop()
	conn.Pages = address
	if err := f.announcePage(conn, address+path); err != nil {
		return err
	}
	if !conn.Scripted() {
		conn.Infof("Ctrl-C stops.")
	}
	<-ctx.Done()
	return nil
}

func (f viewFlags) announcePage(conn *cli.Connection, address string) error {
	if f.open {
		if err := conn.OpenPage(address); err != nil {
			conn.Infof("%v", err)
		}
	}
	if conn.Scripted() {
		return conn.PrintJSON(map[string]string{"url": address})
	}
	return conn.Print(address + "\n")
}
